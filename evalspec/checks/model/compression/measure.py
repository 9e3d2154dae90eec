"""Measurement of `compression`: candidates against the baseline, on the same rows and the same device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.compression import show as shown
from evalspec.checks.model.compression.answers import answered, changed, confidences, right, truth
from evalspec.checks.model.compression.divergence import divergences, logit_distances
from evalspec.checks.model.compression.operators import operators
from evalspec.checks.model.compression.spec import BLOCK_S, PAIRS, PERPLEXITY, QUERIES
from evalspec.checks.model.compression.texts import perplexity_ratio
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.words import plural, verb
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.scoring import resampled as statistics
from evalspec.scoring.scored_rows import Scored, Undefined, aligned, as_often, needs_task, scored
from evalspec.scoring.slicing import Cells, cells
from evalspec.stats.calibration.expected_error import expected_calibration_error
from evalspec.stats.conjunction import AllParts
from evalspec.stats.means.mean import mean, paired_mean
from evalspec.stats.shares.mover import MoverDifference
from evalspec.stats.shares.paired import PairedProportion, paired_proportion
from evalspec.stats.shares.proportion import proportion
from evalspec.stats.value_only import ValueOnly
from evalspec.timing.paired import compare
from evalspec.timing.samples import too_short
from evalspec.timing.surroundings import EVERY_S, surroundings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.compression.spec import Compression
    from evalspec.language.inputs import Inputs

TOP = 5
SETTLING_S = 0.5
DRAFT_QUERIES = 20
WARMUP = 32
CLASSES_ONLY = (
    "accuracy_drop", "top_5_drop", "ece_increase", "flip_rate", "break_rate", "worst_slice_drop", "logit_distance",
)  # fmt: skip

Found = Estimate | Fact | Measured | Parts


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """Comparison of one model with the baseline.

    Args:
        model: Its name.
        rows: Its answers.
        estimates: Metric: estimate.
        missing: Metric: why there is no estimate.
        notes: Sentences for the reader.
        mcnemar: Exact McNemar p-value; None for values.
        speed: How many times faster than the baseline; None: not timed.
    """

    model: str
    rows: Scored
    estimates: Mapping[str, Found]
    missing: Mapping[str, str]
    notes: tuple[str, ...] = ()
    mcnemar: float | None = None
    speed: float | None = None


def measure(check: Compression, inputs: Inputs) -> CheckResult:
    """Compare the candidate, and every further one, with the baseline.

    Raises:
        InputError: The answers can't be scored, or the models did not answer the same rows.
        NotRunError: The models give neither classes (one a row, or any number) nor values.
    """
    baseline = as_often(scored(inputs, check.dataset, check.baseline), scored(inputs, check.dataset, check.model))
    needs_task(baseline, ("classes", "labels", "values"), "compression")
    cut = cells(inputs, check.dataset, check.entries, check.min_n) if check.by else None
    held = _speeds(check, inputs, [_held(check, inputs, model, baseline, cut) for model in check.others])
    ours = held[0]
    ran = operators(check, inputs)
    ours = replace(
        ours, estimates={**ours.estimates, **ran.estimates}, missing={**ours.missing, **ran.missing},
        notes=(*ours.notes, *ran.notes),
    )  # fmt: skip
    tensors, why = _tensors(check, inputs)
    return CheckResult(
        estimates=ours.estimates,
        missing=ours.missing,
        blocks=[
            *shown.blocks(check, baseline, [ours, *held[1:]], inputs.confidence),
            *ran.blocks,
            *shown.tensors(tensors),
            *(shown.flipped(inputs, ours.rows, baseline) if check.show_examples else ()),
        ],
        counts=Counts(attempted=baseline.questions, used=baseline.questions),
        conditions={"method": check.method, "baseline": check.baseline, "candidates": ", ".join(check.others)},
        answers_each=dict.fromkeys((*CLASSES_ONLY, "output_divergence"), baseline.asked),
        notes=[*ours.notes, *_small(cut, check.min_n), *([why] if why else [])],
    )


def _held(check: Compression, inputs: Inputs, model: str, baseline: Scored, cut: Cells | None) -> ComparedModel:
    rows = aligned(scored(inputs, check.dataset, model), baseline)
    estimates: dict[str, Found] = {}
    missing: dict[str, str] = {}
    mcnemar = None
    if rows.task != "values":
        class_estimates, mcnemar = _of_classes(check, rows, baseline, missing)
        estimates |= class_estimates
        _slices(rows, baseline, cut, check, estimates, missing)
        missing["mae_increase"] = "the models have classes, not values"
    else:
        estimates |= _of_values(inputs, rows, baseline)
        missing |= dict.fromkeys(CLASSES_ONLY, "the models give values, not classes")
    _divergence(rows, baseline, estimates, missing)
    try:
        estimates[PERPLEXITY] = perplexity_ratio(check, inputs, model)
    except NotRunError as reason:
        missing[PERPLEXITY] = str(reason)
    notes = _sizes(inputs, model, check.baseline, estimates, missing)
    notes += _speed(check, inputs, model, estimates, missing)
    if cut is not None:
        estimates["slices_too_small"] = Fact(
            len(cut.small), cut.enumerated, f"cells with fewer than {check.min_n} rows", first=cut.first_small
        )
    else:
        missing["slices_too_small"] = "the check has no `by:`"
    return ComparedModel(model, rows, estimates, missing, tuple(notes), mcnemar)


def _of_classes(
    check: Compression, rows: Scored, baseline: Scored, missing: dict[str, str]
) -> tuple[dict[str, Found], float]:
    hits, before = right(rows), right(baseline)
    pairs = _pairs(hits, before, rows)
    estimates: dict[str, Found] = {
        "accuracy_drop": pairs.difference(),
        "flip_rate": proportion(changed(rows, baseline), rows.clusters),
        "break_rate": proportion(before & ~hits, rows.clusters),
    }
    if rows.probabilities is None or baseline.probabilities is None:
        missing |= dict.fromkeys(("top_5_drop", "ece_increase"), "a model gives labels without probabilities")
        return estimates, pairs.mcnemar_p
    if rows.task == "labels":
        missing["top_5_drop"] = "a row has any number of classes, and top-5 accuracy is about one"
    elif len(rows.labels()[0]) > TOP:
        tops = [statistics.top_k_hits(one, TOP) for one in (rows, baseline)]
        estimates["top_5_drop"] = _pairs(tops[0], tops[1], rows).difference()
    else:
        missing["top_5_drop"] = f"top-5 accuracy is always 1 with {len(rows.labels()[0])} classes"
    estimates["ece_increase"] = MoverDifference(_ece(check, rows), _ece(check, baseline))
    return estimates, pairs.mcnemar_p


def _ece(check: Compression, rows: Scored) -> Estimate:
    """Calibration error of the answers; with several classes a row, of all of them, with rows as clusters."""
    sure, hits, clusters = confidences(rows), answered(rows) == truth(rows), rows.clusters
    assert sure is not None
    if rows.members is not None:
        clusters = np.repeat(np.arange(rows.n) if clusters is None else clusters, sure.shape[1])
    return expected_calibration_error(sure.ravel(), hits.ravel(), bins=check.bins, clusters=clusters)


def _pairs(ours: NDArray[np.bool_], theirs: NDArray[np.bool_], rows: Scored) -> PairedProportion:
    """Paired shares, the baseline's less the candidate's: a drop is positive."""
    return paired_proportion(theirs, ours, rows.clusters)


def _slices(
    rows: Scored, baseline: Scored, cut: Cells | None, check: Compression, estimates: dict[str, Found],
    missing: dict[str, str],
) -> None:  # fmt: skip
    if cut is None:
        missing["worst_slice_drop"] = "the check has no `by:`"
        return
    hits, before = right(rows), right(baseline)
    parts: dict[str, Estimate] = {}
    for cell in cut.kept:
        if cell.n == 0:
            parts[cell.name] = ValueOnly(None, 0, f"slice {cell.name!r} has no rows in {rows.where}")
            continue
        inside = rows.spread(cell.inside)
        parts[cell.name] = _pairs(hits[inside], before[inside], rows.part(inside)).difference()
    if parts:
        estimates["worst_slice_drop"] = AllParts(parts, "lower")
    else:
        missing["worst_slice_drop"] = f"no slice has {check.min_n} rows"


def _of_values(inputs: Inputs, rows: Scored, baseline: Scored) -> dict[str, Found]:
    worse = np.abs(rows.errors()) - np.abs(baseline.errors())
    return {"mae_increase": mean(worse, rng=inputs.rng, clusters=rows.clusters, alpha=inputs.alpha_fail)}


def _divergence(rows: Scored, baseline: Scored, estimates: dict[str, Found], missing: dict[str, str]) -> None:
    """Add the mean distances of the outputs from the baseline's, or why there are none."""
    asked = {"output_divergence": divergences, "logit_distance": logit_distances}
    for metric, measured in asked.items():
        if metric in missing:
            continue
        try:
            away = measured(rows, baseline)
        except Undefined as reason:
            missing[metric] = str(reason)
            continue
        # The unit comes from the same rows, and is no surer than the mean that is measured in it.
        distance = paired_mean(away.each, away.unit, clusters=rows.clusters).ratio()
        if distance is not None:
            estimates[metric] = distance


def _sizes(
    inputs: Inputs, model: str, baseline: str, estimates: dict[str, Found], missing: dict[str, str]
) -> list[str]:
    ours, theirs = (inputs.model_facts(name).get("size_bytes") for name in (model, baseline))
    if isinstance(ours, int) and isinstance(theirs, int) and ours > 0 and theirs > 0:
        estimates["size_ratio"] = Fact(theirs / ours, 2, "bytes of the files")
        return [f"{model} has {ours:,} bytes, {baseline} {theirs:,}."]
    missing["size_ratio"] = "the size of a model is not known: it is not a file"
    return []


def _speed(
    check: Compression, inputs: Inputs, model: str, estimates: dict[str, Found], missing: dict[str, str]
) -> list[str]:
    """Add the ratio of the median latencies, timed in turns in pairs of fresh processes."""
    if not check.speed:
        missing["speedup"] = "the check has `speed: false`"
        return []
    if model != check.model:
        missing["speedup"] = "requirements are about the check's own model"
        return []
    ratio, void, notes = _paired(check, inputs, check.baseline)
    if ratio is None:
        missing["speedup"] = void or "no pair of processes gave answers"
    else:
        estimates["speedup"] = Measured(ratio, invalid=void)
    return notes


def _paired(check: Compression, inputs: Inputs, other: str) -> tuple[Estimate | None, str | None, list[str]]:
    """Ratio of another model's median latency to that of the check's model, what makes it invalid, and notes."""
    schedule = Schedule(
        kind="single_stream", queries=DRAFT_QUERIES if inputs.draft else QUERIES,
        processes=2 if inputs.draft else PAIRS, warmup_queries=WARMUP, warmup_s=SETTLING_S,
        min_s=0.0 if inputs.draft else BLOCK_S, telemetry_s=EVERY_S,
    )  # fmt: skip
    ours, theirs = inputs.measure_paired(schedule, check.dataset, other)
    short = too_short([*ours, *theirs], 2 * schedule.processes, schedule.queries // 2 * 2)
    ratio = compare(theirs, ours).get("latency_p50")
    around = surroundings([*ours, *theirs])
    return None if ratio is None else ratio.ratio(), short or around.invalid, list(around.notes)


def _speeds(check: Compression, inputs: Inputs, held: list[ComparedModel]) -> list[ComparedModel]:
    """Comparisons completed with each model's speed; further candidates are timed against the check's own model."""
    first = held[0].estimates.get("speedup")
    speed = first.estimate.value if isinstance(first, Measured) and isinstance(first.estimate, Estimate) else None
    timed = [replace(held[0], speed=speed)]
    for one in held[1:]:
        beside = _paired(check, inputs, one.model)[0] if speed is not None else None
        known = None if beside is None else beside.value
        timed.append(replace(one, speed=speed / known if speed is not None and known else None))
    return timed


def _small(cut: Cells | None, min_n: int) -> list[str]:
    if cut is None:
        return []
    notes = [
        f"{plural(rows, 'row')} {verb(rows, 'has', 'have')} no value for {name!r} and no slice of it"
        for name, rows in cut.missing.items()
    ]
    empty = [cell.name for cell in cut.kept if cell.n == 0]
    if empty:
        notes.append(f"no rows are in {', '.join(empty)}, so worst_slice_drop can't be shown")
    if cut.small:
        named = ", ".join(f"{cell.name} ({cell.n})" for cell in sorted(cut.small, key=lambda cell: -cell.n)[:20])
        notes.append(f"{len(cut.small)} of {cut.enumerated} cells are smaller than {min_n} rows: {named}")
    return notes


def _tensors(check: Compression, inputs: Inputs) -> tuple[shown.Tensors | None, str | None]:
    """Signal-to-noise ratio of every tensor, or the reason why there is none."""
    if check.float_model is None:
        return None, None
    try:
        probes = inputs.probe("tensor_noise", check.dataset, check.model, options={"float_model": check.float_model})
    except (NotRunError, InputError) as error:
        return None, f"no signal-to-noise ratio of tensors: {error}"
    return shown.Tensors.of(probes[0]), None
