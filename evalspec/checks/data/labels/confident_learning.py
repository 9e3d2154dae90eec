"""Which labels a classifier doubts: probabilities of rows that it has not seen, and confident learning on them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evalspec.errors import InputError
from evalspec.stats.shares.proportion import proportion
from evalspec.stats.shares.two_shares import apart

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

FEWEST_ROWS = 50
MOST_ROWS = 100_000
"""Rows that a classifier is cross-validated on; more are drawn down to it."""
MOST_CELLS = 50_000_000
"""Numbers that a classifier is fitted to; of wider rows fewer are drawn."""
MOST_WIDE = 20_000
"""Numbers in a row: beyond, as in large pictures, a linear model of them says nothing."""
MOST_TEXTS = 50
"""Different texts of a column that become columns of their own; more are taken word by word."""
WORDS = 1024
"""Columns that words are hashed into."""
SURE = 0.99
MEMORISED = 0.99
"""Share of rows that agree at a probability of at least `SURE`, from which on a model is taken to know these rows."""
FEWEST_WRONG = 5
"""Labels that an audit found wrong, from which on agreeing with them says something."""
BETTER_BY = 0.02
"""How much more often right than elsewhere a model may be shown to be (at 99.8 %)."""

Classifier = Literal["logistic", "boosting"]


@dataclass(frozen=True, eq=False)
class Doubts:
    """Rows that confident learning doubts.

    Args:
        rows: shape (m,), rows of the dataset that were judged, rising.
        suggested: shape (m,), most probable class.
        given: shape (m,), class of the label.
        quality: shape (m,), probability of the label as given; the smaller the more suspicious.
        confidence: shape (m,), probability of the suggested class.
        flagged: shape (m,), taken for wrong.
        accuracy: Share of rows whose label is the most probable class.
        left_out: Rows that were not judged: their class has too few, or they were not drawn.
        method: Where the probabilities are from.
    """

    rows: NDArray[np.int64]
    suggested: NDArray[np.int64]
    given: NDArray[np.int64]
    quality: NDArray[np.float64]
    confidence: NDArray[np.float64]
    flagged: NDArray[np.bool_]
    accuracy: float
    left_out: int
    method: str


def feature_matrix(table: pa.Table, columns: Sequence[str], dataset: str) -> NDArray[np.float64]:
    """Columns as numbers: arrays flattened, few texts as columns of their own, many by their words.

    Args:
        table: The rows.
        columns: Their names.
        dataset: Name of the dataset, for sentences.

    Returns:
        shape (n, d), NaN where missing.

    Raises:
        InputError: A column isn't there, or holds what no classifier reads.
    """
    from evalspec.answers.arrays import column_array

    parts = []
    for name in columns:
        values = column_array(table, name)
        if values.dtype == object:
            parts.append(_texts(values))
            continue
        if values.dtype.kind not in "biuf":
            raise InputError(f"column {name!r} of {dataset} holds {values.dtype}, which no classifier reads")
        flat = values.reshape(len(values), -1).astype(np.float64)
        if np.isinf(flat).any():
            raise InputError(f"column {name!r} of {dataset} holds infinite numbers", remedy="correct these rows")
        parts.append(flat)
    return np.concatenate(parts, axis=1)


def _texts(values: NDArray[Any]) -> NDArray[np.float64]:
    there = np.array([value is not None for value in values])
    distinct, codes = np.unique(values[there].astype(str), return_inverse=True)
    if len(distinct) > MOST_TEXTS:
        return _words(values)
    columns = np.zeros((len(values), len(distinct)))
    columns[np.flatnonzero(there), codes] = 1.0
    return columns


def _words(values: NDArray[Any]) -> NDArray[np.float64]:
    """Words of each text, hashed: no vocabulary that a fold would take over from another one."""
    from sklearn.feature_extraction.text import HashingVectorizer

    texts = ["" if value is None else str(value) for value in values.tolist()]
    return np.asarray(HashingVectorizer(n_features=WORDS).transform(texts).toarray(), dtype=np.float64)


def width(table: pa.Table, columns: Sequence[str], dataset: str) -> int:
    """Numbers that the columns of a row become, at most.

    Raises:
        InputError: A column isn't there, or rows are too wide.
    """
    from evalspec.answers.arrays import column_array

    first = table.slice(0, 1)
    shapes = {name: column_array(first, name) for name in columns}
    wide = {name: WORDS if array.dtype == object else int(array.size) for name, array in shapes.items()}
    if sum(wide.values()) > MOST_WIDE:
        name = max(wide, key=lambda one: wide[one])
        raise InputError(
            f"column {name!r} of {dataset} has {wide[name]:,} numbers in a row, too many for a plain classifier",
            remedy="name a column of embeddings in `features:`, or take a model's answers: `predictions:`",
        )
    return max(1, sum(wide.values()))


def cross_validated(
    features: NDArray[np.float64],
    given: NDArray[np.int64],
    clusters: NDArray[np.int64] | None,
    folds: int,
    classifier: Classifier,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Probabilities of each row from a classifier that was fitted to other folds.

    Args:
        features: shape (n, d), NaN where missing.
        given: shape (n,), class in 0..K-1, each with a row for every fold.
        clusters: shape (n,): rows of one cluster stay in one fold.
        folds: How many.
        classifier: Which one.
        rng: Draws the folds.

    Returns:
        shape (n, K).

    Raises:
        InputError: There are fewer clusters than folds, or all rows outside of a fold are of one class.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if clusters is not None and len(np.unique(clusters)) < folds:
        raise InputError(f"{len(np.unique(clusters))} clusters can't be cut into {folds} folds", remedy="take fewer")
    seed = int(rng.integers(2**31))
    kind = StratifiedKFold if clusters is None else StratifiedGroupKFold
    found = np.zeros((len(given), int(given.max()) + 1))
    with warnings.catch_warnings():
        # Not quite converged is good enough to doubt labels by, and clusters may leave a fold without a class.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        for train, held in kind(n_splits=folds, shuffle=True, random_state=seed).split(features, given, clusters):
            if not len(held):
                continue
            if len(np.unique(given[train])) < 2:
                raise InputError(
                    "without one fold all rows are of one class", remedy="take fewer folds or other clusters"
                )
            model = _classifier(classifier, seed).fit(features[train], given[train])
            found[held[:, None], model.classes_] = model.predict_proba(features[held])
    return found


def _classifier(name: Classifier, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "boosting":
        return HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, early_stopping=False, random_state=seed)
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    return make_pipeline(filled, StandardScaler(), LogisticRegression(C=REGULAR, max_iter=200))


REGULAR = 0.1
"""Of the logistic regression: strong enough that single wrong labels are not learnt."""


def enough_of_each(given: NDArray[np.int64], fewest: int) -> NDArray[np.int64]:
    """Rows of classes that have at least so many, rising."""
    counts = np.bincount(given)
    return np.flatnonzero(counts[given] >= fewest).astype(np.int64)


def judge(
    rows: NDArray[np.int64], probabilities: NDArray[np.float64], given: NDArray[np.int64], left_out: int, method: str
) -> Doubts:
    """Confident learning on probabilities of rows that were not trained on.

    Args:
        rows: shape (m,), which rows of the dataset they are.
        probabilities: shape (m, K).
        given: shape (m,), class of the label.
        left_out: Rows that are not among them.
        method: Where the probabilities are from.

    References:
        Northcutt, Jiang and Chuang (2021), Confident learning, JAIR 70.
    """
    from cleanlab.filter import find_label_issues

    # Classes without a row have no threshold of their own: they stay out.
    classes, codes = np.unique(given, return_inverse=True)
    known = probabilities[:, classes]
    total = known.sum(axis=1, keepdims=True)
    known = np.where(total > 0, known / np.where(total > 0, total, 1.0), 1.0 / len(classes))
    flagged = np.zeros(len(rows), dtype=np.bool_)
    if len(classes) > 1:
        flagged = np.asarray(find_label_issues(codes.reshape(-1), known, n_jobs=1), dtype=np.bool_)
    every = np.arange(len(rows))
    suggested = known.argmax(axis=1)
    return Doubts(
        rows=rows, suggested=classes[suggested], given=given, quality=known[every, codes.reshape(-1)],
        confidence=known[every, suggested], flagged=flagged, accuracy=float(np.mean(classes[suggested] == given)),
        left_out=left_out, method=method,
    )  # fmt: skip


def signs_of_training(
    probabilities: NDArray[np.float64],
    given: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    elsewhere: NDArray[np.bool_] | None,
    cross_checked: NDArray[np.bool_] | None,
) -> list[str]:
    """Why probabilities look as if their model had been trained on these rows; empty: they don't.

    Args:
        probabilities: shape (n, K).
        given: shape (n,), class of the label.
        wrong: shape (n,), labels that an audit found wrong.
        elsewhere: shape (k,), where the model is right on rows that it surely was not trained on; None: not known.
        cross_checked: shape (m,), where a cross-validated classifier gives the label; None: not known.
    """
    agrees = probabilities.argmax(axis=1) == given
    sure = agrees & (probabilities[np.arange(len(given)), given] >= SURE)
    signs = []
    learnt = int((agrees & wrong).sum())
    if wrong.sum() >= FEWEST_WRONG and learnt > 0.5 * wrong.sum():
        signs.append(f"it agrees with {learnt} of the {int(wrong.sum())} labels that the audit found wrong")
    here = proportion(agrees)
    for where, right, least in (
        ("on the held-out rows", elsewhere, 0.0),
        # A better model than the plain one is no sign by itself: one that is hardly ever wrong beside it is.
        ("of the cross-validated classifier", cross_checked, MEMORISED),
    ):
        if right is None or not len(right) or here.value is None or here.value < least:
            continue
        more = apart(here, proportion(right)).bound(0.998, "lower")
        if more is not None and more > BETTER_BY:
            signs.append(f"its accuracy here is {here.value:.3f}, against {np.mean(right):.3f} {where}")
    if not signs and float(np.mean(sure)) >= MEMORISED:
        signs.append(f"it is at least {100 * SURE:.0f} % sure of the label in {100 * np.mean(sure):.1f} % of the rows")
    return signs
