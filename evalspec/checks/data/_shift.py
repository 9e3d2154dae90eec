"""What `shift` computes."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.data import _c2st, _shift_blocks
from evalspec.checks.data._shift_columns import Compared, compare_columns
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.units import from_unit
from evalspec.language.parts import CheckResult
from evalspec.stats import shift as stats
from evalspec.stats.conjunction import ShareOfParts
from evalspec.stats.macro import mover_difference
from evalspec.stats.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.shift import Shift
    from evalspec.language.inputs import Inputs

Clusters = tuple["NDArray[np.int64] | None", "NDArray[np.int64] | None"]

DEFAULT_AUC = 0.6
"""What a planted shift is held against where no requirement on `c2st_auc` says."""


@dataclass(frozen=True)
class Classified:
    """`c2st_auc`, or why there is none."""

    told: _c2st.Told | None
    why: str | None
    withhold: str | None = None


def measure(check: Shift, inputs: Inputs) -> CheckResult:
    """Distances of every column, missing cells, and a classifier that tells the two apart.

    Args:
        check: Its fields.
        inputs: Where rows come from.

    Raises:
        InputError: A column is missing or differs in type, or a dataset has no rows.
    """
    names = check.columns or inputs.feature_columns(check.reference)
    reference, current = (inputs.table(name, None) for name in (check.reference, check.current))
    sizes = reference.num_rows, current.num_rows
    for name, rows in zip((check.reference, check.current), sizes, strict=True):
        if not rows:
            raise InputError(f"{name} has no rows")
    columns, notes = compare_columns(reference, current, names)
    if not columns:
        raise InputError("there is no column that can be compared", remedy="name some in `columns:`")
    clusters = inputs.clusters(check.reference), inputs.clusters(check.current)
    distances = {column.name: _distance(check, inputs, column, clusters) for column in columns}
    missing = _missingness(columns, clusters)
    classified = _classify(check, inputs, columns, sizes, clusters)
    estimates: dict[str, Estimate | Parts | Measured] = {
        "drifted_columns": ShareOfParts(distances, check.tolerance, "lower"),
        "shift": Parts(distances),
        "missingness_shift": Parts(missing),
    }
    absent = {}
    if classified.told is None:
        absent["c2st_auc"] = str(classified.why)
    else:
        estimates["c2st_auc"] = Measured(classified.told.auc, withhold=classified.withhold)
    return CheckResult(
        estimates=estimates,
        missing=absent,
        blocks=_shift_blocks.blocks(check, columns, distances, missing, classified.told, inputs.confidence),
        counts=Counts(attempted=sum(sizes), used=sum(sizes)),
        conditions={"reference": check.reference, "current": check.current, "columns": len(columns),
                    "tolerance": check.tolerance, "distance": check.distance, "classifier": _c2st.CLASSIFIER},
        notes=[*notes, *_notes(check, distances)],
    )  # fmt: skip


def _notes(check: Shift, distances: Mapping[str, stats.Distance]) -> list[str]:
    """Columns without a bound, and why."""
    reasons = {distance.reason for distance in distances.values() if distance.reason}
    return [f"No bound for some columns: {reason}." for reason in sorted(reasons)]


def _distance(check: Shift, inputs: Inputs, column: Compared, clusters: Clusters) -> stats.Distance:
    first, second = column.reference.values, column.current.values
    if column.kind == "category":
        _, a, b = stats.category_counts(first, second)
        found = stats.total_variation(a, b, rng=inputs.rng, alpha=inputs.alpha_fail)
    elif check.distance == "wasserstein":
        found = stats.wasserstein(
            first.astype(np.float64), second.astype(np.float64), rng=inputs.rng, alpha=inputs.alpha_fail
        )
    else:
        found = stats.ks_distance(first.astype(np.float64), second.astype(np.float64))
    if all(ids is None for ids in clusters):
        return found
    levels = stats.indicators(first, second, means=check.distance == "wasserstein")
    effects = [
        stats.largest_design_effect(indicator, None if ids is None else ids[side.rows])
        for indicator, side, ids in zip(levels, (column.reference, column.current), clusters, strict=True)
    ]
    return stats.clustered(found, len(first), len(second), effects[0], effects[1])


def _missingness(columns: list[Compared], clusters: Clusters) -> dict[str, Estimate]:
    """Difference in the share of missing cells, once for each column of the data."""
    from evalspec.stats.conjunction import AbsoluteDifference

    found: dict[str, Estimate] = {}
    for column in columns:
        if column.source not in found:
            shares = [
                proportion(side.missing, ids)
                for side, ids in zip((column.reference, column.current), clusters, strict=True)
            ]
            found[column.source] = AbsoluteDifference(mover_difference(shares[1], shares[0]))
    return found


def _classify(
    check: Shift, inputs: Inputs, columns: list[Compared], sizes: tuple[int, int], clusters: Clusters
) -> Classified:
    """Trains the classifier; withholds PASS where it would have missed a shift of the tolerance's size."""
    if importlib.util.find_spec("sklearn") is None:
        return Classified(None, "scikit-learn is not installed: pip install 'evalspec-gate[sklearn]'")
    smaller = min(sizes)
    if smaller < _c2st.SMALLEST_N:
        return Classified(
            None, f"{smaller} rows on one side are too few for a classifier, {_c2st.SMALLEST_N} are needed"
        )
    required = [from_unit(r.threshold, r.unit) for r in check.requirements if r.metric == "c2st_auc"]
    tolerance = min(required, default=DEFAULT_AUC)
    if not 0.5 < tolerance < 1.0:
        tolerance = DEFAULT_AUC
    pool = _c2st.make_pool(columns, sizes, clusters, inputs.rng)
    told = _c2st.tell_apart(pool, tolerance, inputs.confidence, inputs.rng)
    if told.found:
        return Classified(told, None)
    planted = "no value" if told.planted.value is None else f"an AUC of {told.planted.value:.3f}"
    withhold = (
        f"a planted shift with an AUC of {tolerance:g} was not found by this classifier on {told.rows:,} rows a side "
        f"({planted}), so a low AUC shows nothing"
    )
    return Classified(told, None, withhold)
