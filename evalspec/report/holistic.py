"""Dimensions together: one subject, one cell, claims and baselines beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evalspec.evidence.record import CheckRecord, Dimension, ModelRecord, Record
from evalspec.evidence.words import and_list, short_digest
from evalspec.report.charts.tables import WHOLE, cell
from evalspec.report.checks import TITLES, Section
from evalspec.report.claims import unlike_words
from evalspec.report.doubts import doubted
from evalspec.report.names import anchors, quantity
from evalspec.report.requirements import SIGNS, RequirementRow, by_check
from evalspec.report.words import DASH, NOT_JUDGED
from evalspec.verdict.claims import Examined, examine, only_claimed
from evalspec.verdict.diagnosis import AXES, RESOURCES, Symptom, diagnose
from evalspec.verdict.owners import conclude
from evalspec.verdict.trade import trades


@dataclass(frozen=True, slots=True)
class ConsistencyRow:
    """One thing that must be the same everywhere, by dimension.

    ``state`` is ``same``, ``differs``, ``not shown``, or ``alone`` where only one dimension has it.
    """

    what: str
    by_dimension: tuple[str, ...]
    state: str
    means: str


@dataclass(frozen=True, slots=True)
class DatasetUse:
    """Which checks used a dataset, by dimension, and what that leaves open."""

    name: str
    by_dimension: tuple[str, ...]
    means: str


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """Claim of somebody, beside what was measured."""

    metric: str
    claimed: str
    by: str
    conditions: str
    measured: str
    times: str
    leaves_out: str
    means: str


@dataclass(frozen=True, slots=True)
class TradeRow:
    """Candidate and baseline on one metric."""

    row: RequirementRow
    metric: str
    baseline_name: str
    candidate: str
    baseline: str
    difference: str
    interval: str
    needs: str
    unlike: str


@dataclass(frozen=True, slots=True)
class DiagnosisMatrix:
    """Where time and memory go: a row for data, algorithm and machine; empty where nothing of it was measured."""

    resources: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Symptom, ...]], ...]
    anchors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where failing requirements point to; ``checks`` are ids with their anchors."""

    sentence: str
    checks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Together:
    """All that the page *Together* shows."""

    meanings: tuple[str, ...]
    agreements: tuple[ConsistencyRow, ...]
    datasets: tuple[DatasetUse, ...]
    beside: tuple[TradeRow, ...]
    claims: tuple[ClaimRow, ...]
    pointers: tuple[Pointer, ...]
    diagnosis: DiagnosisMatrix
    trades: tuple[str, ...]


def together(record: Record, rows: Sequence[RequirementRow], parts: Sequence[Section]) -> Together:
    """View of the record across dimensions; everything is derived from it."""
    agreements = _agreements(record)
    grouped = by_check(rows)
    doubts = {check.id: doubted(check, grouped.get(check.id, ())) for check in record.checks}
    return Together(
        meanings=_meanings({part.anchor: part.badge.status if part.badge else "" for part in parts}, agreements),
        agreements=agreements,
        datasets=_datasets(record),
        beside=tuple(
            _beside(row, record)
            for row in rows
            if row.test is not None and row.test.against and row.test.candidate is not None
        ),
        claims=tuple(_claim(one) for one in examine(record, doubts)),
        pointers=_pointers(record),
        diagnosis=_matrix(record),
        trades=tuple(
            f"{one.sentence} {only_claimed(record, one.model, one.baseline)}".rstrip() for one in trades(record)
        ),
    )


def _anchors(record: Record) -> dict[str, str]:
    ids = [check.id for check in record.checks]
    return dict(zip(ids, anchors("check", ids), strict=True))


def _pointers(record: Record) -> tuple[Pointer, ...]:
    at = _anchors(record)
    return tuple(Pointer(one.sentence, tuple((id, at[id]) for id in one.checks)) for one in conclude(record))


def _matrix(record: Record) -> DiagnosisMatrix:
    symptoms = diagnose(record)
    if all(one.state == "not measured" for one in symptoms):
        return DiagnosisMatrix(RESOURCES, (), {})
    rows = tuple((axis, tuple(one for one in symptoms if one.axis == axis)) for axis in AXES)
    return DiagnosisMatrix(RESOURCES, rows, _anchors(record))


def _meanings(status: Mapping[str, str], agreements: Sequence[ConsistencyRow]) -> tuple[str, ...]:
    """Which cell the run is in, and what that means for release."""
    system, model, data = (status.get(name, "") for name in TITLES)
    found = []
    if model == "FAIL" and system == "PASS":
        found.append("The system meets its requirements and the model fails.")
    if system == "FAIL" and model == "PASS":
        found.append(
            "The model meets its requirements and the system fails: its answers are good, but come too late or cost "
            "too much."
        )
    if data == "FAIL":
        found.append("The data fail: what was measured on them does not show how the model will perform in production.")
    if system == "FAIL" and model == "FAIL":
        found.append("System and model both fail: fixing one of them will not make it ready.")
    undecided = [TITLES[name] for name in TITLES if status.get(name) not in ("PASS", "FAIL", "", None)]
    if undecided:
        found.append(
            f"{and_list(undecided)}: some blocking requirements are not decided, so what is met elsewhere says "
            "nothing about them."
        )
    silent = [TITLES[name] for name in TITLES if not status.get(name)]
    if silent:
        found.append(
            f"{and_list(silent)}: nothing was required, so what the other dimensions assume about it is unchecked."
        )
    differing = [agreement.what for agreement in agreements if agreement.state not in ("same", "alone")]
    unlike = [agreement.what for agreement in agreements if agreement.state == "differs"]
    unseen = [what for what in differing if what not in unlike]
    if system == model == data == "PASS" and not differing:
        found.append(
            "System, model and data meet their requirements, and all of them were measured on the same subject."
        )
    elif system == model == data == "PASS":
        found.append(
            f"System, model and data each meet their requirements, but not with the same {and_list(differing)} "
            "everywhere: see below."
        )
    else:
        found += [f"Not the same in all checks: {and_list(unlike)}. See below."] if unlike else []
        found += [f"Not shown to be the same in all checks: {and_list(unseen)}. See below."] if unseen else []
    return tuple(found)


def _agreements(record: Record) -> tuple[ConsistencyRow, ...]:
    """Artifact, precision, device, batch and preprocessing over all checks of models."""
    models = {model.name: model for model in record.models}
    run = [check for check in record.checks if check.status != "not_run"]
    # What a check compares the model with is another model on purpose.
    used = [
        (check, models[name])
        for check in run
        for name in check.models
        if name in models and name not in check.baseline_models
    ]
    if not used:
        return ()
    return (
        _agreement(
            "artifact",
            used,
            lambda check, model: short_digest(model.digest),
            "The verdict would be about several artifacts.",
        ),
        _asked("precision", used, lambda model: (model.precision, model.precision_observed)),
        _asked("device", used, lambda model: (model.device, model.device_observed)),
        _agreement(
            "batch",
            used,
            _batch,
            "Timed at a different batch size from the one judged.",
        ),
        _agreement(
            "preprocessing",
            used,
            lambda check, model: short_digest(model.preprocess_digest) if model.preprocess_digest else "none",
            "Quality was computed on different inputs from those that were timed.",
        ),
    )


Use = tuple[CheckRecord, ModelRecord]


def _batch(check: CheckRecord, model: ModelRecord) -> str:
    """The batch of a check; a system check that doesn't say it may have used several."""
    batch = check.conditions.get("batch", None if check.dimension == "system" else model.batch)
    return "" if batch is None else cell(batch).text


def _agreement(
    what: str, used: Sequence[Use], value: Callable[[CheckRecord, ModelRecord], str], breaks: str
) -> ConsistencyRow:
    seen = _by_dimension(used, value)
    values = {text for texts in seen.values() for text in texts}
    if values == {"not shown"}:
        return ConsistencyRow(what, _columns(seen), "not shown", "No check saw it.")
    state = "not shown" if "not shown" in values else "same" if len(values) == 1 else "differs"
    if state == "same" and sum(1 for texts in seen.values() if texts) < 2:
        return ConsistencyRow(what, _columns(seen), "alone", "")
    return ConsistencyRow(what, _columns(seen), state, "" if state == "same" else breaks)


def _asked(
    what: str, used: Sequence[Use], value: Callable[[ModelRecord], tuple[str | None, str | None]]
) -> ConsistencyRow:
    """Row on what was asked of a model beside what was observed."""

    def text(check: CheckRecord, model: ModelRecord) -> str:
        asked, observed = value(model)
        observed = observed or str(check.conditions.get(what) or "") or None
        if asked and observed and asked != observed:
            return f"{observed} (asked: {asked})"
        return observed or asked or "not shown"

    found = _agreement(what, used, text, f"Not every check saw the same {what}.")
    if any("(asked:" in column for column in found.by_dimension):
        return ConsistencyRow(
            what,
            found.by_dimension,
            "differs",
            f"The {what} observed is not the one requested: claims about the requested one are void.",
        )
    return found


def _by_dimension(
    used: Sequence[Use], value: Callable[[CheckRecord, ModelRecord], str]
) -> dict[Dimension, dict[str, list[str]]]:
    seen: dict[Dimension, dict[str, list[str]]] = {dimension: {} for dimension in TITLES}
    for check, model in used:
        if text := value(check, model):
            seen[check.dimension].setdefault(text, []).append(check.id)
    return seen


def _columns(seen: Mapping[Dimension, Mapping[str, Sequence[str]]]) -> tuple[str, ...]:
    columns = []
    for dimension in TITLES:
        texts = seen[dimension]
        if len(texts) > 1:
            columns.append("; ".join(f"{text} ({', '.join(dict.fromkeys(checks))})" for text, checks in texts.items()))
        else:
            columns.append(next(iter(texts), DASH))
    return tuple(columns)


def _datasets(record: Record) -> tuple[DatasetUse, ...]:
    found = []
    for dataset in record.datasets:
        users = {
            dimension: [
                check.id for check in record.checks if check.dimension == dimension and dataset.name in check.datasets
            ]
            for dimension in TITLES
        }
        means = ""
        if users["model"] and not users["data"]:
            means = "The model is judged on it, but no data check examines it."
        elif not any(users.values()):
            means = "No check uses it."
        found.append(
            DatasetUse(dataset.name, tuple(", ".join(users[dimension]) or DASH for dimension in TITLES), means)
        )
    return tuple(found)


def _beside(row: RequirementRow, record: Record) -> TradeRow:
    test = row.test
    if test is None or test.candidate is None:
        raise ValueError(f"{row.name} compares nothing")
    check = next((one for one in record.checks if one.id == test.check), None)
    unit = test.metric_unit or ("" if test.unit in ("pp", "x") else test.unit)
    return TradeRow(
        row=row,
        metric=test.quantity,
        baseline_name=test.against or "",
        candidate=quantity(test.candidate, unit),
        baseline="" if test.baseline is None else quantity(test.baseline, unit),
        difference=row.value,
        interval=row.interval,
        needs=f"{SIGNS[test.op]} {quantity(test.threshold, test.unit)}",
        unlike="" if check is None else unlike_words(record, check, test.against or ""),
    )


def _claim(one: Examined) -> ClaimRow:
    """A claim beside what was measured. What it hides stands first: a reader in a hurry reads the first words."""
    claim, words = one.claim, list(one.findings)
    if one.differs:
        words.append(f"Measured here at {'; '.join(one.differs)}.")
    if not one.check:
        words.append("This run did not measure it.")
    elif not one.trusted:
        words.append(f"What was measured is {NOT_JUDGED}.")
    words += one.follows
    times = "" if one.times is None else f"{quantity(one.times, 'x')} what was measured"
    if times and not one.alike:
        times += ", and not of the same thing"
    return ClaimRow(
        metric=claim.metric,
        # A number stays with its unit; what is longer may be broken.
        claimed=claim.value.replace(" ", "\u00a0") if len(claim.value) <= WHOLE else claim.value,
        by=f"{claim.by}, {claim.source}" if claim.source else claim.by,
        conditions=", ".join(
            (*(f"{name} {cell(value).text}" for name, value in claim.conditions.items()),
             *(f"without {word}" for word in claim.excludes))
        ),
        measured=f"{one.measured} ({one.check})" if one.check else "not measured",
        times=times,
        leaves_out=", ".join(one.leaves_out),
        means=" ".join(words),
    )  # fmt: skip
