"""Effect of a shift on a score: the reference's rows, weighted to be as frequent as they are in the current data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.data.shift import classifier
from evalspec.checks.data.shift.outputs import CONFIDENCE, outputs_of
from evalspec.evidence.blocks import AnyBlock, Column, Table
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.words import in_percent
from evalspec.scoring.catalogue.metrics import SLICED
from evalspec.scoring.scored_rows import Scored, Undefined, scored
from evalspec.scoring.scores import MeanLoss, Share
from evalspec.scoring.tasks import score
from evalspec.stats.means.reweighted import CLIP, CrossFitted, Reweighted, reweighted_change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from evalspec.checks.data.shift.spec import Shift
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Predictions
    from evalspec.tables.columns import ColumnPair

FOLDS = 5
MOST_BALANCED = 20
"""Means and shares on which weights are balanced."""
FURTHEST_SQUARE = 9.0
SETTINGS: dict[str, Any] = {
    "max_iter": 30, "learning_rate": 0.1, "max_leaf_nodes": 5, "min_samples_leaf": 20, "l2_regularization": 1.0,
    "early_stopping": False,
}  # fmt: skip
"""Milder than those of `c2st_auc`: there the order of rows counts, here how far odds are from the truth."""
METRICS = {metric.name: metric for metric in SLICED}


@dataclass(frozen=True, slots=True)
class Consequence:
    """`reweighted_score_change`, or why there is none.

    Args:
        change: The estimate, in 0..1, positive where the score gets worse.
        why: Why there is none.
        blocks: What to show.
        notes: Sentences for the reader.
    """

    change: Estimate | None
    why: str = ""
    blocks: tuple[AnyBlock, ...] = ()
    notes: tuple[str, ...] = ()


def consequence(check: Shift, inputs: Inputs, pool: classifier.Pool | None, why: str) -> Consequence:
    """How the score moves when the reference is reweighted to the current data.

    Args:
        check: Its fields.
        inputs: What the check is handed.
        pool: Rows of both sides, as the classifier has them; None: there is no classifier.
        why: Why there is none.

    Raises:
        InputError: The answers can't be scored.
    """
    if check.predictions is None:
        return Consequence(None, "no model's score is reweighted: name one, `predictions: candidate`")
    if inputs.label(check.reference) is None:
        return Consequence(None, f"{check.reference} has no label, so there is no score to reweight")
    if pool is None or pool.rows is None:
        return Consequence(None, why)
    try:
        rows = scored(inputs, check.reference, check.predictions)
        scores = row_scores(check.metric_, rows)
    except Undefined as undefined:
        return Consequence(None, str(undefined))
    answers = [inputs.predictions(name, check.predictions) for name in (check.reference, check.current)]
    seen = with_answers(pool, answers)
    higher = METRICS[check.metric_].better == "higher"
    found = reweigh(seen, scores[pool.rows[0]], inputs.rng, higher=higher)
    table = _table(check, inputs, found, _measured(check, inputs))
    return Consequence(found.change, "", (table,), (_sentence(check, found),))


def row_scores(metric: str, rows: Scored) -> NDArray[np.float64]:
    """The score of each row, shape (n,), whose mean the metric is.

    Args:
        metric: Name of a metric of `quality`.
        rows: The model's rows.

    Raises:
        Undefined: It is no mean over all rows, or no fraction.
    """
    if METRICS[metric].unit != "fraction":
        raise Undefined(f"reweighted_score_change is in points and {metric} is not a fraction; take accuracy")
    how = score(metric, None, rows)
    if isinstance(how, Share) and bool(how.among(rows).all()):
        return how.hit(rows).astype(np.float64)
    if isinstance(how, MeanLoss):
        return np.asarray(how.losses(rows), dtype=np.float64)
    raise Undefined(f"{metric} is not a mean over rows, so rows can't be weighted; take accuracy")


def with_answers(pool: classifier.Pool, answers: list[Predictions]) -> classifier.Pool:
    """The same rows, and what the model says of them: how sure it is tells most about whether it is right.

    Args:
        pool: Rows of both sides.
        answers: On the reference and on the current data.
    """
    assert pool.rows is not None
    sides = [outputs_of(one) for one in answers]
    shared = [name for name in (CONFIDENCE, "value") if all(name in side for side in sides)]
    added = [
        np.concatenate([side[name].values[rows] for side, rows in zip(sides, pool.rows, strict=True)])
        for name in shared
    ]  # fmt: skip
    if not added:
        return pool
    values = np.concatenate((pool.values, np.stack(added, axis=1)), axis=1)
    categorical = np.concatenate((pool.categorical, np.zeros(len(added), dtype=np.bool_)))
    return replace(pool, values=values, names=(*pool.names, *shared), categorical=categorical)


def unlike_rows(columns: Sequence[ColumnPair], sizes: tuple[int, int]) -> NDArray[np.bool_]:
    """Rows of the current data with a category, or without a value, as next to none of the reference's are.

    Args:
        columns: Of both sides.
        sizes: Rows of the reference and of the current data.

    Returns:
        shape (m,), True where a column has its value 20 times as often in the current data as in the reference.
    """
    n, m = sizes
    found = np.zeros(m, dtype=np.bool_)
    for column in columns:
        if column.current.missing.mean() > CLIP * column.reference.missing.mean():
            found |= column.current.missing
        if column.kind == "category":
            split = len(column.reference.values)
            names, codes = np.unique(
                np.concatenate((column.reference.values, column.current.values)), return_inverse=True
            )
            ours, theirs = (np.bincount(side, minlength=len(names)) for side in (codes[:split], codes[split:]))
            found[column.current.rows] |= (theirs / m > CLIP * ours / n)[codes[split:]]
    return found


def reweigh(
    pool: classifier.Pool, scores: NDArray[np.float64], rng: np.random.Generator, *, higher: bool = True
) -> Reweighted:
    """The change of the mean score, from classifiers and expectations that never saw the rows they judge.

    Args:
        pool: Rows of both sides.
        scores: shape (k,), of the reference's rows.
        rng: Deals the folds.
        higher: Higher scores are better.
    """
    k = len(scores)
    side = np.repeat([False, True], k)
    fold = (rng.permutation(int(pool.units.max()) + 1) % FOLDS)[pool.units]
    odds, expected = np.empty(2 * k), np.empty(2 * k)
    for one in range(FOLDS):
        seen, held = fold != one, fold == one
        chance = classifier.scores(
            classifier.fit(pool, pool.values[seen], side[seen], rng, SETTINGS), pool.values[held]
        )
        ours, theirs = int(np.sum(seen & ~side)), int(np.sum(seen & side))
        odds[held] = chance / np.maximum(1.0 - chance, 1e-9) * (float(ours) / max(float(theirs), 1.0))
        mine = seen[:k]
        expected[held] = _expected(pool, pool.values[:k][mine], scores[mine], pool.values[held], rng)
    features = _features(pool, expected)
    sides = (
        CrossFitted(odds[part], expected[part], pool.units[part] if pool.clustered else None, features[part], unlike)
        for part, unlike in ((slice(None, k), None), (slice(k, None), pool.unlike))
    )
    return reweighted_change(scores, *sides, higher=higher)


def _features(pool: classifier.Pool, expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features that weights are balanced on, shape (2k, at most 21).

    What moved most of the numbers' means and spreads and of the categories' shares, and the expected score.
    """
    known = np.isfinite(pool.values)
    chosen = ~pool.categorical & known.any(axis=0)
    values, there = pool.values[:, chosen], known[:, chosen]
    filled = np.where(there, values, np.nanmedian(np.where(there, values, np.nan), axis=0))
    scaled = (filled - filled.mean(axis=0)) / (filled.std(axis=0) + 1e-12)
    shares = _moved_shares(pool.values[:, pool.categorical])
    every = np.concatenate((scaled, np.minimum(scaled**2, FURTHEST_SQUARE), shares), axis=1)
    half = len(every) // 2
    apart = np.abs(every[half:].mean(axis=0) - every[:half].mean(axis=0)) / (every.std(axis=0) + 1e-12)
    most = np.argsort(-apart, kind="stable")[:MOST_BALANCED]
    return np.concatenate((every[:, most], expected[:, None]), axis=1)


def _moved_shares(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Which rows have the categories whose shares moved most, shape (2k, at most 20).

    A category of one side alone has no weights that balance it.

    Args:
        codes: shape (2k, d), NaN where missing.
    """
    half = len(codes) // 2
    found: list[tuple[float, int, int]] = []
    for column, values in enumerate(codes.T):
        there = np.where(np.isfinite(values), values + 1.0, 0.0).astype(np.int64)
        ours, theirs = (np.bincount(side, minlength=int(there.max()) + 1) for side in (there[:half], there[half:]))
        share = (ours + theirs) / len(codes)
        apart = np.abs(theirs - ours) / half / np.sqrt(np.maximum(share * (1.0 - share), 1e-12))
        both = np.flatnonzero((ours > 0) & (theirs > 0) & (share < 1.0))
        both = both[both > 0]
        found += [(-float(apart[code]), column, int(code) - 1) for code in both]
    chosen = sorted(found)[:MOST_BALANCED]
    shares = [codes[:, column] == code for _, column, code in chosen]
    return np.stack(shares, axis=1).astype(np.float64) if shares else np.empty((len(codes), 0))


def _expected(
    pool: classifier.Pool, rows: NDArray[np.float64], scores: NDArray[np.float64], others: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:  # fmt: skip
    """Scores that other rows are expected to have, shape (m,)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    low, high = float(scores.min()), float(scores.max())
    if low == high:
        return np.full(len(others), low)
    seed = int(rng.integers(2**31))
    model = HistGradientBoostingRegressor(
        **SETTINGS, categorical_features=pool.categorical, random_state=seed
    ).fit(classifier.with_values(rows), scores)  # fmt: skip
    found: NDArray[np.float64] = np.clip(model.predict(others), low, high)
    return found


def _measured(check: Shift, inputs: Inputs) -> float | None:
    """The score on the current data, where they have labels."""
    if inputs.label(check.current) is None or check.predictions is None:
        return None
    try:
        return float(row_scores(check.metric_, scored(inputs, check.current, check.predictions)).mean())
    except Undefined:
        return None


def _sentence(check: Shift, found: Reweighted) -> str:
    return (
        f"Were rows as frequent as in {check.current}, {check.metric_} of {check.predictions} on {check.reference} "
        f"would be {found.reweighted:.3f} in place of {found.full:.3f}; for that the {len(found.weights):,} rows of "
        f"{check.reference} are worth {found.effective:,.0f}."
    )


def _table(check: Shift, inputs: Inputs, found: Reweighted, measured: float | None) -> Table:
    lower, upper = (found.change.bound(inputs.confidence, side) for side in ("lower", "upper"))

    def points(value: float | None) -> float | None:
        return None if value is None else 100.0 * value

    percent = in_percent(inputs.confidence)
    metric = check.metric_
    rows: list[tuple[Cell, ...]] = [
        (f"{metric} on {check.reference}", found.full, "fraction"),
        (f"{metric} reweighted to {check.current}", found.reweighted, "fraction"),
        ("worse by", points(found.change.value), "pp"),
        (f"worse by, lower {percent}", points(lower), "pp"),
        (f"worse by, upper {percent}", points(upper), "pp"),
        (f"rows of {check.reference}", float(len(found.weights)), "rows"),
        ("of them effective", found.effective, "rows"),
        ("largest weight", float(found.weights.max()), "x"),
        (f"rows of {check.current} unlike {check.reference}", 100.0 * found.unlike, "%"),
    ]
    if measured is not None:
        rows.append((f"{metric} measured on {check.current}", measured, "fraction"))
    caption = "Weights are how much more frequent a row is in the current data, by a classifier that did not see it."
    if lower is None and upper is None:
        caption += f" There is {found.change.method}."
    if measured is not None:
        caption += (
            " If the measured score differs, labels are assigned differently there, or something unrecorded has "
            "changed."
        )
    return Table(
        title=f"What the shift does to {metric}",
        caption=caption,
        columns=(Column(name="what"), Column(name="value"), Column(name="unit")),
        rows=tuple(rows),
    )
