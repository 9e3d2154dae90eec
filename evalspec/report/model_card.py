"""Scores for the page of a model on its hub: a file of ``.eval_results/``, with what was left out and why."""

from __future__ import annotations

from evalspec.errors import RecordError
from evalspec.evidence.model_card import Benchmark, BenchmarkTask, EvalResult, EvalResults
from evalspec.evidence.record import CheckRecord, DatasetRecord, Record
from evalspec.evidence.test import Test
from evalspec.evidence.units import format_quantity
from evalspec.evidence.verdict import Decision, Verdict
from evalspec.evidence.visible import visible
from evalspec.evidence.words import in_percent, short_digest
from evalspec.evidence.written import as_written

SHARES = ("fraction", "%")
COUNTED = ("PASS", "FAIL", "INCONCLUSIVE")
"""What a number that may be told ends with."""
MOST = 5
"""Reasons in the sentence of a run that has no score to tell."""


def model_card(record: Record, verdict: Verdict) -> str:
    """The scores of a run as a file of ``.eval_results/``, as YAML.

    A benchmark has one score, so its dataset says in ``hub:`` which task it is and which metric counts there. Told is
    what was measured of the subject on all rows; whatever else was required stands in comments above, with the reason.

    Args:
        record: The run.
        verdict: Its verdict.

    Returns:
        YAML that fits ``schemas/model_card.v1.json``.

    Raises:
        RecordError: The run is a draft or a part, its subject is not shown, or nothing of it is a benchmark's score.

    References:
        Hugging Face, hub documentation, Evaluation Results.
    """
    import yaml

    _refuse_parts(record)
    made, left_out = _results(record, verdict)
    if not made and all(one.hub is None for one in record.datasets):
        raise RecordError(
            "no dataset of this run names the hub benchmark that its rows come from; add `hub: "
            "{id: owner/name, task: TASK, metric: METRIC}` to the one that is and run again"
        )
    if not made:
        named = "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:MOST])
        more = f"; and {len(left_out) - MOST} more" if len(left_out) > MOST else ""
        raise RecordError(
            f"nothing in this run is the score of a benchmark on the hub: {named or 'nothing was required'}{more}"
        )
    lines = [f"# Made by evalspec {record.evalspec} from the run of {record.spec} at {record.started}."]
    lines += [f"# Left out: {name}: {why}." for name, why in left_out.items()]
    entries = EvalResults(tuple(made)).model_dump(mode="json", exclude_none=True)
    body: str = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=10_000)
    return "".join(f"{visible(' '.join(line.split()))}\n" for line in lines) + body


def _refuse_parts(record: Record) -> None:
    """Stop where the run says nothing of a whole model.

    Raises:
        RecordError: It is a draft, a part or interrupted, or does not say which artifact it judged.
    """
    parts = (
        (record.draft, "the run is a draft"),
        (bool(record.only), f"only {', '.join(record.only)} was run"),
        (record.interrupted, "the run was interrupted"),
    )
    for holds, what in parts:
        if holds:
            raise RecordError(f"{what}, so its scores don't belong on a model card; run the whole spec first")
    if record.subject is None:
        raise RecordError(
            "the subject is not shown, so it is unknown which model the scores belong to; name its file or its "
            "digest in `artifact:` and run again"
        )


def _results(record: Record, verdict: Verdict) -> tuple[list[EvalResult], dict[str, str]]:
    """Scores, one for each task, and of every other requirement why it is none."""
    decisions = {one.name: one for one in verdict.decisions}
    datasets = {one.name: one for one in record.datasets}
    taken: dict[tuple[str, str], str] = {}
    results: list[EvalResult] = []
    left_out: dict[str, str] = {}
    for check, test in ((one, test) for one in record.checks for test in one.tests):
        decision = decisions.get(test.name)
        data = datasets.get(check.datasets[0]) if len(check.datasets) == 1 else None
        why = _no_score(record, check, test, decision) or _no_benchmark(test, data)
        hub = None if data is None else data.hub
        if why is None and hub is not None and (hub.id, hub.task) in taken:
            why = f"{hub.id} has one score, and that is {taken[hub.id, hub.task]}"
        if why is not None or hub is None or data is None or decision is None:
            left_out[test.name] = why or "it has no dataset"
            continue
        taken[hub.id, hub.task] = test.name
        results.append(_result(record, verdict, test, data, hub, decision.status))
    return results, left_out


def _no_score(record: Record, check: CheckRecord, test: Test, decision: Decision | None) -> str | None:
    """Why a requirement's number is no score of the subject; None: it is one."""
    if check.dimension != "model":
        return f"it is about the {check.dimension}, and a benchmark's score is about the model"
    if check.status != "measured" or test.value is None or decision is None or decision.status not in COUNTED:
        reason = test.invalid or test.missing or check.reason or (decision.reason if decision else None)
        return f"its number does not count: {reason or 'it has none'}".rstrip(".")
    if test.against is not None:
        return f"it compares with {test.against}, while a score is the model's own"
    name = next((name for name in check.models if name not in check.baseline_models), None)
    if not any(one.name == name and one.digest == record.subject for one in record.models):
        return f"it is about the model {name}, which is not the subject"
    return None


def _no_benchmark(test: Test, data: DatasetRecord | None) -> str | None:
    """Why a score of the subject is not a benchmark's; None: it is."""
    metric = test.asked
    if data is None:
        return "it is on several datasets"
    if data.hub is None:
        return (
            f"the dataset {data.name} does not say that it is a benchmark of the hub; if it is, add to it "
            f"`hub: {{id: owner/name, task: TASK, metric: {metric}}}` and run again"
        )
    if metric != data.hub.metric:
        return f"the score of {data.hub.id} is {data.hub.metric}"
    if data.where is not None:
        return f"only rows of {data.name} with {data.where} were used, but the benchmark is all of them"
    if data.hub.unit == "%" and test.unit not in SHARES:
        return f"{metric} is not a share, so it is not in %; remove `unit` from the `hub:` of {data.name}"
    return None


def _result(
    record: Record, verdict: Verdict, test: Test, data: DatasetRecord, hub: Benchmark, status: str
) -> EvalResult:
    assert test.value is not None
    return EvalResult(
        dataset=BenchmarkTask(id=hub.id, task_id=hub.task, revision=hub.revision),
        value=_scaled(test.value, test.unit, hub.unit),
        date=record.started,
        notes=_notes(record, verdict, test, data, hub, status),
    )


def _scaled(value: float, unit: str, wanted: str) -> float:
    """A share as the benchmark prints it; anything else as it is."""
    if unit not in SHARES or unit == wanted:
        return value
    # Fifteen digits, so that 0.709 is 70.9 and not 70.89999999999999.
    return float(f"{value * (100.0 if wanted == '%' else 0.01):.15g}")


def _notes(record: Record, verdict: Verdict, test: Test, data: DatasetRecord, hub: Benchmark, status: str) -> str:
    """Everything that the number holds for, in one line."""
    test = as_written(test)
    assert test.value is not None
    sides = [
        f"{word} {format_quantity(bound, test.unit)}"
        for word, bound in (("at least", test.lower), ("at most", test.upper))
        if bound is not None
    ]
    level = in_percent(record.policy.confidence)
    held = f", {', '.join(sides)} (each at {level}; {test.method})" if sides else ", no interval"
    # A file of one's own may be those rows; only what was read from the hub is shown to be.
    read = data.kind == "huggingface" and data.path is None
    rows = f"rows {short_digest(data.digest)}" + ("" if read else f", declared to be those of {hub.id}")
    return visible(
        f"{test.asked} {format_quantity(test.value, test.unit)}, n {test.n:,}{held}. "
        f"Asked: {test.sentence}: {status}. Model {short_digest(record.subject)}, {rows}. "
        f"evalspec {record.evalspec}: {verdict.headline}."
    )
