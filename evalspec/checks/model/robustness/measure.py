"""Measurement of `robustness`: copy, ask, score each copy and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.cells import value_of
from evalspec.checks.model.robustness.corruptions import Material
from evalspec.errors import InputError
from evalspec.evidence.blocks import AnyBlock, Column, Curve, Example, Examples, Reference, Series, Table
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.words import in_percent, plural
from evalspec.language.parts import CheckResult
from evalspec.scoring.on_demand import known
from evalspec.scoring.scored_rows import needs_task
from evalspec.scoring.thumbnails import picture, png
from evalspec.stats.conjunction import AllParts
from evalspec.stats.means.bounded import SHARE, Limits
from evalspec.stats.means.mean import mean, paired_mean
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.checks.model.robustness.spec import Robustness
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Predictions

TEXT_SHOWN = 160
FIELDS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class CorruptedScores:
    """Scores of one model on the rows and on every copy of them.

    Args:
        right: True if scores are 1 for right and 0 for wrong answers; False if they are absolute errors.
        clean: shape (n,), score of each row as it is.
        copies: Copy: shape (n,), score of each of its rows; without copies in which no row changed.
        clusters: shape (n,), or None.
        first: Copy: its first row.
        changed: Copy: number of its rows that differ from the original.
    """

    right: bool
    clean: NDArray[np.float64]
    copies: Mapping[str, NDArray[np.float64]]
    clusters: NDArray[np.int64] | None
    first: Mapping[str, pa.Table]
    changed: Mapping[str, int]

    @property
    def unchanged(self) -> tuple[str, ...]:
        """Copies in which no row differs from the original."""
        return tuple(copy for copy, rows in self.changed.items() if rows == 0)

    @property
    def over_copies(self) -> NDArray[np.float64]:
        """Mean score of each row over the copies, shape (n,)."""
        return np.asarray(np.mean(np.stack(list(self.copies.values())), axis=0))


def measure(check: Robustness, inputs: Inputs) -> CheckResult:
    """Score the copies, each by itself and all together.

    Raises:
        InputError: There is no label, or no column that a corruption could change.
        NotRunError: The model gives neither classes nor values, or can't be asked about other rows.
    """
    seed = int(inputs.rng.integers(2**63))
    table = inputs.table(check.dataset)
    if len(table) == 0:
        raise InputError(f"dataset {check.dataset!r} has no rows", remedy="check its path and its `where:`")
    picked = _picked(len(table), check.rows, seed)
    columns = check.columns or inputs.feature_columns(check.dataset)
    material = Material(table.take(picked), tuple(columns), check.shape, check.range, seed)
    for name in check.corruptions:
        material.fitting(name)
    models = dict.fromkeys((check.model, *check.baselines))
    answered = {model: _asked(check, inputs, model, material, picked) for model in models}
    ours = answered[check.model]
    estimates = _estimates(ours, inputs)
    return CheckResult(
        estimates=estimates,
        comparisons=_comparisons(check, inputs, answered),
        missing=_missing(check, ours),
        blocks=_blocks(check, inputs, ours, estimates, material),
        counts=Counts(attempted=len(table), used=len(picked), dropped=len(table) - len(picked)),
        conditions={"columns": ", ".join(columns), "rows": len(picked), "copies": len(check.copies)},
        notes=_notes(len(table), len(picked)),
        blind=_blind(check, inputs.predictions(check.dataset, check.model)),
    )


def _blind(check: Robustness, answers: Predictions) -> dict[str, tuple[float, str]]:
    """Scores of always answering the most frequent class, or the median, which no corruption changes."""
    truth = answers.truth
    assert truth is not None
    if answers.is_classification:
        score, what = float(np.bincount(truth).max()) / len(truth), "accuracy"
    else:
        score, what = float(np.abs(truth - np.median(truth)).mean()), "mae"
    copies = (f"corruption_{what}({name} {severity})" for name, severity in check.copies)
    names = (f"worst_corruption_{what}", f"mean_corruption_{what}", *copies)
    return dict.fromkeys(names, (score, "always the same answer"))


def _picked(n: int, most: int, seed: int) -> NDArray[np.int64]:
    """Numbers of the rows to copy, in their order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _asked(
    check: Robustness, inputs: Inputs, model: str, material: Material, picked: NDArray[np.int64]
) -> CorruptedScores:
    whole = inputs.predictions(check.dataset, model)
    needs_task(whole, ("classes", "values"), "robustness")
    if whole.truth is None:
        raise InputError(
            f"dataset {check.dataset!r} has no label, so nothing is known to be right", remedy="name it: `label:`"
        )
    right = whole.is_classification
    copies: dict[str, NDArray[np.float64]] = {}
    first: dict[str, pa.Table] = {}
    changed: dict[str, int] = {}
    for at, (name, severity) in enumerate(check.copies):
        inputs.progress(at, len(check.copies), f"{model}: {name} {severity}")
        rows = material.corrupted(name, severity)
        copy = f"{name} {severity}"
        first[copy] = rows.slice(0, 1)
        changed[copy] = material.changed(rows, name)
        if changed[copy] == 0:
            continue
        try:
            copies[copy] = _scores(inputs.predict(rows, check.dataset, copy, model))
        except InputError as error:
            raise InputError(
                f"{model} can't answer rows with {copy}: {error}",
                remedy=f"have its preprocessing deal with them, or remove {name} from `corruptions:`",
            ) from error
    clusters = None if whole.clusters is None else whole.clusters[picked]
    return CorruptedScores(right, _scores(whole)[picked], copies, clusters, first, changed)


def _scores(answers: Predictions) -> NDArray[np.float64]:
    """Score of each row: 1 where it is right and 0 where not; of values, the absolute error."""
    assert answers.truth is not None
    if answers.predicted is not None:
        return np.asarray(answers.predicted == answers.truth, dtype=np.float64)
    assert answers.values is not None
    return np.abs(answers.values - answers.truth.astype(np.float64))


def _estimates(ours: CorruptedScores, inputs: Inputs) -> dict[str, Estimate | Parts]:
    clusters = ours.clusters

    def mean_of(values: NDArray[np.float64], limits: Limits | None = None) -> Estimate:
        return mean(values, rng=inputs.rng, clusters=clusters, alpha=inputs.alpha_fail, limits=limits)

    estimates: dict[str, Estimate | Parts]
    if ours.right:
        parts: dict[str, Estimate] = {name: proportion(one == 1.0, clusters) for name, one in ours.copies.items()}
    else:
        parts = {name: mean_of(one) for name, one in ours.copies.items()}
    what = "accuracy" if ours.right else "mae"
    estimates = {f"corruption_{what}": Parts(parts)} if parts else {}
    if ours.unchanged:
        return estimates
    over = ours.over_copies
    estimates[f"worst_corruption_{what}"] = AllParts(parts, "higher" if ours.right else "lower")
    estimates[f"mean_corruption_{what}"] = mean_of(over, SHARE if ours.right else None)
    if not ours.right:
        estimates["mae_increase"] = mean_of(over - ours.clean)
    elif len(parts) == 1:
        estimates["robustness_drop"] = paired_proportion(ours.clean == 1.0, over == 1.0, clusters).difference()
    else:
        estimates["robustness_drop"] = mean_of(ours.clean - over, (-1.0, 1.0))
    return estimates


def _missing(check: Robustness, ours: CorruptedScores) -> dict[str, str]:
    """Reasons why metrics are missing: they are of the other kind of model, or copies change nothing."""
    kinds = ("corruption_{}", "worst_corruption_{}", "mean_corruption_{}")
    of = {"accuracy": [*(kind.format("accuracy") for kind in kinds), "robustness_drop"]}
    of["mae"] = [*(kind.format("mae") for kind in kinds), "mae_increase"]
    what, other = ("accuracy", "mae") if ours.right else ("mae", "accuracy")
    why = "the model has classes, not values" if ours.right else "the model gives values, not classes"
    missing = dict.fromkeys(of[other], why)
    if not ours.unchanged:
        return missing
    each, *over_all = of[what]
    rows = plural(len(ours.clean), "row")
    against = dict.fromkeys(one.model for one in check.requirements if one.model is not None)
    for copy in ours.unchanged:
        reason = f"{copy} changes none of the {rows}; {_remedy(copy)}"
        missing[f"{each}({copy})"] = reason
        missing |= {f"{each}({copy}) vs {model}": reason for model in against}
    whole = f"{', '.join(ours.unchanged)}: changes none of the {rows}; {_remedy(ours.unchanged[0])}"
    missing |= dict.fromkeys(over_all if ours.copies else of[what], whole)
    return missing


def _remedy(copy: str) -> str:
    name, _ = copy.rsplit(" ", 1)
    return f"remove {name} from `corruptions:`, or ask for severities and columns that it changes"


def _comparisons(
    check: Robustness, inputs: Inputs, answered: Mapping[str, CorruptedScores]
) -> dict[tuple[str, str], Comparison | ComparisonParts]:
    ours = answered[check.model]
    comparisons: dict[tuple[str, str], Comparison | ComparisonParts] = {}
    for metric, model in dict.fromkeys((r.metric, r.model) for r in check.requirements if r.model is not None):
        assert model is not None
        theirs = answered[model]
        if not (ours.right and theirs.right):
            continue
        if ours.unchanged and metric != "corruption_accuracy":
            continue
        if metric == "mean_corruption_accuracy":
            comparisons[metric, model] = paired_mean(
                ours.over_copies, theirs.over_copies, rng=inputs.rng, clusters=ours.clusters, alpha=inputs.alpha_fail,
                limits=SHARE,
            )  # fmt: skip
            continue
        comparisons[metric, model] = ComparisonParts({
            name: paired_proportion(
                scores == 1.0, theirs.copies[name] == 1.0, ours.clusters, rng=inputs.rng, alpha=inputs.alpha_fail
            )
            for name, scores in ours.copies.items()
        })  # fmt: skip
    return comparisons


def _notes(rows: int, used: int) -> tuple[str, ...]:
    if used == rows:
        return ()
    return (f"{used} of {rows} rows were copied, drawn by the seed; `rows: {rows}` takes all",)


def _blocks(
    check: Robustness,
    inputs: Inputs,
    ours: CorruptedScores,
    estimates: Mapping[str, Estimate | Parts],
    material: Material,
) -> list[AnyBlock]:
    what, unit = ("accuracy", "fraction") if ours.right else ("mean absolute error", "label")
    by_copy = estimates.get("corruption_accuracy" if ours.right else "corruption_mae")
    parts: dict[str, Estimate] = {}
    if isinstance(by_copy, Parts):
        parts = {name: part for name, part in by_copy.parts.items() if isinstance(part, Estimate)}
    clean = float(ours.clean.mean())
    blocks: list[AnyBlock] = [_curve(check, parts, clean, what, unit, inputs.confidence)] if parts else []
    blocks.append(_table(parts, ours.changed, clean, what, unit, inputs.confidence))
    if check.show_examples:
        blocks.append(_examples(check, material, ours))
    return blocks


def _curve(
    check: Robustness, parts: Mapping[str, Estimate], clean: float, what: str, unit: str, confidence: float
) -> Curve:
    def line(name: str) -> Series:
        there = [severity for severity in sorted(check.severities) if f"{name} {severity}" in parts]
        each = [parts[f"{name} {severity}"] for severity in there]
        return Series(
            name=name, x=tuple(float(severity) for severity in there), y=tuple(known(one) for one in each),
            lower=_all(one.bound(confidence, "lower") for one in each),
            upper=_all(one.bound(confidence, "upper") for one in each),
        )  # fmt: skip

    return Curve(
        title=f"{what} by severity",
        caption=f"1 is light, 5 heavy. Bands: {in_percent(confidence)} for each bound by itself.",
        x_label="severity", y_label=what, y_unit=unit,
        series=tuple(one for one in (line(name) for name in check.corruptions) if one.x),
        references=(Reference(label="rows as they are", value=clean),),
    )  # fmt: skip


def _all(bounds: Iterable[float | None]) -> tuple[float, ...] | None:
    listed = tuple(bounds)
    known = tuple(bound for bound in listed if bound is not None)
    return known if len(known) == len(listed) else None


def _table(
    parts: Mapping[str, Estimate], changed: Mapping[str, int], clean: float, what: str, unit: str, confidence: float
) -> Table:
    percent = in_percent(confidence)
    columns = (
        Column(name="copy"), Column(name="rows changed", unit="rows"), Column(name=what, unit=unit),
        Column(name=f"lower {percent}", unit=unit), Column(name=f"upper {percent}", unit=unit),
        Column(name="rows as they are", unit=unit), Column(name="n", unit="rows"),
    )  # fmt: skip

    def line(name: str, rows: int) -> tuple[Cell, ...]:
        part = parts.get(name)
        if part is None:
            return name, rows, None, None, None, clean, None
        low, high = part.bound(confidence, "lower"), part.bound(confidence, "upper")
        return name, rows, part.value, low, high, clean, part.n

    caption = (
        "Each copy by itself; a copy is the same rows, corrupted in one way. One that changes no row was not asked "
        "about and shows nothing."
    )
    lines = tuple(line(name, rows) for name, rows in changed.items())
    return Table(title=f"{what} on each copy", caption=caption, columns=columns, rows=lines)


def _examples(check: Robustness, material: Material, ours: CorruptedScores) -> Examples:
    """Examples: one row as it is, and as each corruption leaves it at its heaviest."""
    heavy = max(check.severities)
    shown = [_example("as it is", material.rows, material, _right(ours, ours.clean))]
    for name in check.corruptions:
        copy = f"{name} {heavy}"
        shown.append(_example(copy, ours.first[copy], material, _right(ours, ours.copies.get(copy, ours.clean))))
    return Examples(
        title="One row and its copies", caption="The first of the copied rows, at the heaviest severity asked for.",
        examples=tuple(shown), total=len(shown),
    )  # fmt: skip


def _right(ours: CorruptedScores, scores: NDArray[np.float64]) -> bool | None:
    return bool(scores[0]) if ours.right else None


def _example(title: str, rows: pa.Table, material: Material, right: bool | None) -> Example:
    fields: dict[str, Cell] = {} if right is None else {"answered": "rightly" if right else "wrongly"}
    image, text = None, None
    for name in material.columns:
        value = value_of(rows.column(name)[0])
        pixels = picture(value)
        if pixels is not None:
            image = png(pixels, material.bounds(name))
        elif isinstance(value, str) and " " in value:
            text = value[:TEXT_SHOWN]
        elif isinstance(value, int | float | str | bool) or value is None:
            fields[name] = None if isinstance(value, float) and not np.isfinite(value) else value
    return Example(title=title, fields=dict(list(fields.items())[:FIELDS_SHOWN]), text=text, image=image)
