"""Rows that share who or what they are of: on both sides of a split, or inside a test set that names no `cluster:`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from evalspec.errors import InputError
from evalspec.language.yaml_text import write
from evalspec.screens.answers import judged_models, losses
from evalspec.screens.evidence import Look
from evalspec.screens.pairs import judged, train_and_test
from evalspec.stats.midranks import midranks
from evalspec.tables.entities import encoded, entity_columns, has_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.language.parts import Dataset
    from evalspec.screens.evidence import Evidence

FEWEST = 100
"""Rows of a dataset."""
SHARE, ROWS = 0.05, 10
"""Least share, and number, of test rows whose entity stands in training."""
HANGS = 0.1
"""Least correlation of two rows of one entity, in what is true or in how far the answers are off."""
TIMES = 1.5
"""Least factor by which rows of one entity say less than so many that stand for themselves."""


class Dependence(NamedTuple):
    """Correlation of the rows of one entity.

    Args:
        what: What they have in common: ``the label``.
        correlation: Intraclass, at most 1.
        times: Factor by which the variance of a mean grows.
        p_value: By itself.
    """

    what: str
    correlation: float
    times: float
    p_value: float


def look(evidence: Evidence) -> Look:
    """Columns of codes, and of what tells other columns, in test sets and the training sets beside them."""
    suspicions: list[Suspicion] = []
    questions = 0
    pairs = [pair for pair in train_and_test(evidence.checks) if set(pair) <= set(evidence.datasets)]
    tests = dict.fromkeys([*(test for _, test in pairs), *judged(evidence)])
    for test in tests:
        if test not in evidence.datasets or evidence.count(test) < FEWEST:
            continue
        known: list[NDArray[np.int64]] = []
        for train in [*(one for one, other in pairs if other == test), None]:
            for asked, suspicion, codes in _of_test(evidence, test, train):
                # The same entities by another name are one suspicion.
                if suspicion is not None and any(_tells(codes, other) for other in known):
                    suspicion = None
                questions += asked
                if suspicion is not None:
                    suspicions.append(suspicion)
                    known.append(codes)
    return Look(tuple(suspicions), questions)


def _of_test(
    evidence: Evidence, test: str, train: str | None
) -> Iterator[tuple[int, Suspicion | None, NDArray[np.int64]]]:
    """Questions, a suspicion or none, and the entity of each test row, of each column of entities."""
    rows, part = evidence.rows(test), evidence.dataset(test)
    if train is None and part.cluster is not None:
        return
    names = [one for one in rows.column_names if one in _unread(evidence, test) and one not in (part.label, part.key)]
    both = rows.select(names)
    if train is not None:
        ours = evidence.rows(train)
        names = [one for one in names if one in ours.column_names and _type(ours, one) == _type(rows, one)]
        both = pa.concat_tables([one.select(names).replace_schema_metadata(None) for one in (ours, rows)])
    there = [one for one in _settled(evidence, test, train) if one in rows.column_names]
    settled = [encoded(rows.column(one)) for one in there if has_order(_type(rows, one))]
    entities = [one.name for one in entity_columns(both, names)]
    clustered = part.cluster in names and part.cluster not in entities
    if train is not None and clustered and has_order(_type(rows, str(part.cluster))):
        entities.append(str(part.cluster))
    for name in entities:
        codes = encoded(rows.column(name))
        if any(_tells(codes, other) for other in settled):
            continue
        if train is not None and name == part.cluster:
            # That rows of one cluster say less than others the spec says itself.
            yield 0, _beside(evidence, test, train, name, None), codes
            continue
        depends = _dependence(evidence, test, train, name)
        if depends is None:
            continue
        suspicion = _beside(evidence, test, train, name, depends) if train else _inside(evidence, test, name, depends)
        yield 1, suspicion, codes


def _unread(evidence: Evidence, dataset: str) -> set[str]:
    """Columns that the model is not said to read; all of them where nothing is said."""
    return set(evidence.rows(dataset).column_names) - set(evidence.stated_columns(dataset))


def _settled(evidence: Evidence, test: str, train: str | None) -> Iterator[str]:
    """Columns of which the spec says already that rows share their values, or asks whether both sides do."""
    for check in evidence.checks:
        if getattr(check, "test", None) != test or (train is not None and train not in getattr(check, "train", ())):
            continue
        for metric, field in (("group_overlap", "group"), ("exact_duplicates", "column")):
            if train is not None and any(one.metric == metric for one in check.requirements):
                value: str | Sequence[str] = getattr(check, field, ())
                named = [value] if isinstance(value, str) else value
                if len(named) == 1:
                    yield from named
    if train is None:
        part = evidence.dataset(test)
        yield from () if part.cluster is None else (part.cluster,)


def _tells(codes: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Rows of one entity are all of one entity of the other column."""
    known = (codes >= 0) & (other >= 0)
    both = np.unique(np.stack([codes[known], other[known]]), axis=1).shape[1]
    return bool(both == len(np.unique(codes[known])))


def _type(table: pa.Table, name: str) -> pa.DataType:
    return table.schema.field(name).type


def _beside(evidence: Evidence, test: str, train: str, name: str, depends: Dependence | None) -> Suspicion | None:
    """Entities of test rows that stand in training, in the same spelling."""
    ours, theirs = evidence.rows(train).column(name), evidence.rows(test).column(name)
    values = set(ours.unique().to_pylist()) - {None}
    shared = np.array([value in values for value in theirs.to_pylist()])
    if shared.sum() < max(ROWS, SHARE * len(shared)) or (depends is not None and depends.correlation < HANGS):
        return None
    sentence = f"{name} of {shared.sum():,} of {len(shared):,} rows of {test} is also in {train}"
    if depends is not None:
        sentence += (
            f", and rows with one {name} have {depends.what} in common (correlation {depends.correlation:.2f}): a "
            "model that knows them does better than with others"
        )
    fields: dict[str, object] = {"train": [train], "test": test, "group": name}
    suggestion = evidence.requirement("data", "leakage", "group_overlap == 0 rows", fields)
    part = evidence.dataset(test)
    if part.cluster is None and depends is not None and depends.times >= TIMES:
        suggestion = _with_cluster(part, test, name) + suggestion
    return evidence.suspicion(name, sentence, suggestion, None if depends is None else depends.p_value)


def _inside(evidence: Evidence, test: str, name: str, depends: Dependence) -> Suspicion | None:
    """Entities with several rows in a test set, each of which counts as if it stood for itself."""
    if depends.times < TIMES or depends.correlation < HANGS:
        return None
    count = len(np.unique(encoded(evidence.rows(test).column(name))))
    sentence = (
        f"rows of {test} share {count:,} values of {name}, and those of one have {depends.what} in common (correlation "
        f"{depends.correlation:.2f}): they say {depends.times:.2g} times less than intervals take them to say, which "
        f"`cluster: {name}` sets right"
    )
    return evidence.suspicion(name, sentence, _with_cluster(evidence.dataset(test), test, name), depends.p_value)


def _with_cluster(part: Dataset, dataset: str, name: str) -> str:
    """The YAML of the dataset as the spec has it, with its cluster."""
    fields = part.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_defaults=True)
    return write({"datasets": {dataset: {"kind": part.kind, **fields, "cluster": name}}})


def _dependence(evidence: Evidence, test: str, train: str | None, name: str) -> Dependence | None:
    """The stronger one of what is true and of how far the answers are off; None: neither is known."""
    rows = evidence.rows(test)
    found = [_of_label(evidence, name, [test]) or (None if train is None else _of_label(evidence, name, [test, train]))]
    codes, index = encoded(rows.column(name)), evidence.index(test)
    for dataset, model in evidence.answers:
        if dataset == test and model in judged_models(evidence):
            off = losses(evidence, test, model, index)
            found += [] if off is None else [_of_scores(f"how {model} answers", codes, off.rows)]
    known = [one for one in found if one is not None]
    if not known:
        return None
    best = min(known, key=lambda one: one.p_value)
    return best._replace(p_value=min(1.0, best.p_value * len(known)))


def _of_label(evidence: Evidence, name: str, datasets: Sequence[str]) -> Dependence | None:
    """Of the label, in the rows of all of these datasets together; None: it is not known, or too few rows share."""
    label, tables = evidence.dataset(datasets[0]).label, [evidence.rows(one) for one in datasets]
    if label is None or any(label not in one.column_names for one in tables):
        return None
    if any(_type(one, column) != _type(tables[0], column) for one in tables for column in (label, name)):
        return None
    entities = pa.chunked_array([chunk for one in tables for chunk in one.column(name).chunks], _type(tables[0], name))
    scores = _numbers([one.column(label) for one in tables])
    return None if scores is None else _of_scores("the label", encoded(entities), scores)


def _numbers(columns: Sequence[pa.ChunkedArray]) -> NDArray[np.float64] | None:
    """Ranks of numbers, or one class against the others: shape (n,); None: a label of another kind."""
    try:
        column = pa.chunked_array([chunk for one in columns for chunk in one.chunks], columns[0].type)
        if pa.types.is_floating(column.type):
            cells = np.asarray(column.to_numpy(), np.float64)
            scores = np.full(len(cells), np.nan)
            known = np.isfinite(cells)
            scores[known] = midranks(cells[known])
            return scores
        codes = encoded(column)
    except (InputError, pa.ArrowException):
        return None
    shares = np.bincount(codes[codes >= 0]) / max(1, (codes >= 0).sum())
    if len(shares) < 2:
        return None
    # The class that splits the rows most evenly.
    chosen = int(np.argmin(np.abs(shares - 0.5)))
    return np.where(codes < 0, np.nan, codes == chosen)


def _of_scores(what: str, codes: NDArray[np.int64], scores: NDArray[np.float64]) -> Dependence | None:
    """One-way analysis of variance; None: rows don't differ, or hardly any two share an entity.

    References:
        Donner, A. (1986). A review of inference procedures for the intraclass correlation coefficient in the one-way
        random effects model. Int. Stat. Rev. 54, 67-82.
    """
    from scipy.special import fdtrc

    known = (codes >= 0) & np.isfinite(scores)
    _, groups, sizes = np.unique(codes[known], return_inverse=True, return_counts=True)
    values, n, count = scores[known], int(known.sum()), len(sizes)
    if count < 2 or n - count < FEWEST // 2 or np.ptp(values) == 0:
        return None
    means = np.bincount(groups, weights=values) / sizes
    within = float(((values - means[groups]) ** 2).sum()) / (n - count)
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (count - 1)
    typical = (n - float((sizes**2).sum()) / n) / (count - 1)
    correlation = (between - within) / (between + (typical - 1.0) * within)
    times = 1.0 + max(0.0, correlation) * (float((sizes**2).sum()) / n - 1.0)
    p_value = 0.0 if within == 0 else float(fdtrc(count - 1, n - count, between / within))
    return Dependence(what, float(correlation), times, p_value)
