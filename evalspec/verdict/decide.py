"""The rules that turn a record into a verdict (DESIGN.md, 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from evalspec.evidence.policy import Waiver
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test, holds
from evalspec.evidence.verdict import Decision, Status, Verdict, Word
from evalspec.evidence.words import and_list, plural, verb
from evalspec.evidence.written import as_written
from evalspec.lineage.comparability import asked_unlike
from evalspec.lineage.spec_diff import weaker
from evalspec.verdict.holm import holm
from evalspec.verdict.identical import same_models, same_rows
from evalspec.verdict.models import logged_answers, models_judged
from evalspec.verdict.profile import missing, ranks, set_aside
from evalspec.verdict.screens import blocked, cautions
from evalspec.verdict.sentence import describe

SUBJECT = "subject"
"""What a waiver names to accept a subject that is not shown."""

USUAL_CONFIDENCE = 0.95

DRAFT = "Everything was tried on a few rows and queries, to see that it runs; a draft decides nothing."

WORST_FIRST: dict[Status, int] = {"FAIL": 0, "ERROR": 1, "INVALID": 2, "NOT_RUN": 3, "INCONCLUSIVE": 4, "PASS": 5}


@dataclass(frozen=True, slots=True)
class _Judged:
    """A requirement while it is being decided."""

    check: CheckRecord
    test: Test
    status: Status
    looks_violated: bool = False
    reason: str | None = None
    cause: str = ""
    voided_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def decide(record: Record) -> Verdict:
    """The verdict over a record. Depends on nothing else, not even on the date of today.

    Args:
        record: A record; its own ``verdict`` is not checked.
    """
    alpha = 1.0 - record.policy.confidence
    waivers, expired = _waivers(record)
    judged = _data_first(_judge_all(record, alpha), record, waivers)
    decisions = [_decision(one, waivers, record.policy.confidence, record.same) for one in judged]
    decisions += _crashed_without_requirement(record)
    if record.subject is None:
        decisions.append(_subject_decision(record, waivers))
    decisions += missing(record)
    decisions += blocked(record)
    order = ranks(record)
    decisions.sort(key=lambda one: (not one.blocking, WORST_FIRST[one.status], not one.looks_violated, order[one.name]))
    return _conclude(record, tuple(decisions), expired)


def by_own_evidence(record: Record) -> dict[str, Status]:
    """Requirement: what its own evidence decides, whatever the data leave of it."""
    return {one.test.name: one.status for one in _judge_all(record, 1.0 - record.policy.confidence)}


def _judge_all(record: Record, alpha: float) -> list[_Judged]:
    pairs = [(check, test) for check in record.checks for test in check.tests]
    p_fail = {test.name: test.p_fail if _has_evidence(check, test) else None for check, test in pairs}
    failing = holm({name: _shared(name, p_fail, record.same) for name in record.family}, alpha) | holm(
        {name: _shared(name, p_fail, record.same) for name in record.family_warn}, alpha
    )
    return [_judge(check, test, alpha, failing=record.same.get(test.name, test.name) in failing)
            for check, test in pairs]  # fmt: skip


def _shared(name: str, p_fail: Mapping[str, float | None], same: Mapping[str, str]) -> float | None:
    """The p-value of a claim: of equal ones the largest, among those that have evidence."""
    one_claim = (p_fail.get(name), *(p_fail.get(other) for other, first in same.items() if first == name))
    return max((p for p in one_claim if p is not None), default=None)


def _has_evidence(check: CheckRecord, test: Test) -> bool:
    return check.status == "measured" and test.invalid is None and test.missing is None


def _judge(check: CheckRecord, test: Test, alpha: float, *, failing: bool) -> _Judged:
    if check.status != "measured":
        status: Status = {"not_run": "NOT_RUN", "invalid": "INVALID", "error": "ERROR"}[check.status]  # type: ignore[assignment]  # the mapping's values are all statuses
        return _Judged(check, test, status, reason=check.reason)
    if test.invalid is not None:
        return _Judged(check, test, "INVALID", reason=test.invalid, cause=test.cause)
    if test.missing is not None:
        return _Judged(check, test, "NOT_RUN", reason=test.missing, cause=test.cause)
    if test.exact:
        return _judge_fact(check, test)
    if test.p_fail is not None and failing:
        return _Judged(check, test, "FAIL")
    if test.p_pass is not None and test.p_pass <= alpha:
        if test.withhold is not None:
            return _Judged(check, test, "INCONCLUSIVE", reason=test.withhold, cause=test.cause)
        return _Judged(check, test, "PASS")
    looks_violated = test.p_fail is not None and test.p_fail <= alpha
    if not looks_violated and (test.value is None or test.n < 1):
        why = test.withhold or test.no_bound or "there is no evidence"
        return _Judged(check, test, "NOT_RUN", reason=why, cause=test.cause)
    return _Judged(check, test, "INCONCLUSIVE", looks_violated=looks_violated, reason=test.withhold, cause=test.cause)


def _judge_fact(check: CheckRecord, test: Test) -> _Judged:
    if test.value is None:
        return _Judged(check, test, "NOT_RUN", reason="there is no value")
    if not holds(test.op, test.value, test.threshold):
        return _Judged(check, test, "FAIL")
    if test.withhold is not None:
        return _Judged(check, test, "INCONCLUSIVE", reason=test.withhold, cause=test.cause)
    return _Judged(check, test, "PASS")


def _data_first(judged: list[_Judged], record: Record, waivers: Mapping[str, Waiver]) -> list[_Judged]:
    """A model's PASS on data whose own blocking requirement is not PASS can't be read; a fact is no score of the data.

    The same rows under another name are the same data. A data requirement that was set aside on purpose, by a waiver,
    ``--only`` or the policy, leaves a note.
    """
    digests = {dataset.name: dataset.digest for dataset in record.datasets if dataset.digest}
    unsound: dict[str, list[_Judged]] = {}
    for one in judged:
        if one.check.dimension == "data" and one.status != "PASS":
            for rows in dict.fromkeys(digests.get(name, name) for name in one.check.datasets):
                unsound.setdefault(rows, []).append(one)
    aside = {one.test.name for one in judged if one.test.name in waivers and one.status != "ERROR"}
    if record.policy.inconclusive == "allow":
        aside |= {one.test.name for one in judged if one.status == "INCONCLUSIVE" and not one.looks_violated}
    if record.only:
        aside |= {one.test.name for one in judged if one.status == "NOT_RUN"}
    return [_read_on(one, digests, unsound, aside) if one.check.dimension == "model" else one for one in judged]


def _read_on(
    one: _Judged, digests: Mapping[str, str], unsound: Mapping[str, list[_Judged]], aside: Set[str]
) -> _Judged:
    read = dict.fromkeys(digests.get(name, name) for name in one.check.datasets)
    doubts = list({id(doubt): doubt for rows in read for doubt in unsound.get(rows, ())}.values())
    if not doubts:
        return one
    notes = tuple(
        f"{'the warning ' if doubt.test.severity == 'warn' else ''}{doubt.test.name} does not hold on the same data"
        for doubt in doubts
    )
    blocking = [doubt for doubt in doubts if doubt.test.severity == "require" and doubt.test.name not in aside]
    if one.status == "PASS" and blocking and not one.test.exact:
        names = tuple(sorted({doubt.test.name for doubt in blocking}))
        reason = f"{and_list(names)} {verb(len(names), 'does', 'do')} not hold on the same data"
        return replace(one, status="INVALID", reason=reason, voided_by=names, notes=one.notes + notes)
    return replace(one, notes=one.notes + notes)


def _waivers(record: Record) -> tuple[dict[str, Waiver], tuple[Waiver, ...]]:
    """Waivers that hold on the run's date, by requirement, and those that have ended."""
    today = record.started[:10]
    holding = {waiver.of: waiver for waiver in record.waivers if waiver.expires >= today}
    return holding, tuple(waiver for waiver in record.waivers if waiver.expires < today)


def _decision(one: _Judged, waivers: Mapping[str, Waiver], confidence: float, same: Mapping[str, str]) -> Decision:
    waived = one.test.name in waivers and one.status not in ("PASS", "ERROR")
    sentence = describe(
        as_written(one.test),
        one.status,
        confidence,
        looks_violated=one.looks_violated,
        reason=one.reason,
        seconds=one.check.duration_s,
    )
    first = same.get(one.test.name)
    notes = one.notes if first is None else (*one.notes, f"the same claim as {first}: both count once")
    return Decision(
        name=one.test.name,
        status=one.status,
        blocking=one.test.severity == "require" and not waived,
        sentence=sentence,
        looks_violated=one.looks_violated,
        waived=waived,
        reason=one.reason,
        cause=one.cause,
        voided_by=one.voided_by,
        notes=tuple(dict.fromkeys(notes + one.test.notes)),
    )


def _crashed_without_requirement(record: Record) -> list[Decision]:
    """A check that only reports still may not crash unseen."""
    return [
        Decision(
            name=check.id,
            status="ERROR",
            blocking=True,
            sentence=f"{check.id}: crashed: {check.reason}",
            reason=check.reason,
        )
        for check in record.checks
        if check.status == "error" and not any(test.severity == "require" for test in check.tests)
    ]


def _subject_decision(record: Record, waivers: Mapping[str, Waiver]) -> Decision:
    waived = SUBJECT in waivers
    reason = "no digest of the model is known, so this may not be what will ship"
    if record.checks and all(check.dimension == "data" for check in record.checks):
        reason = "not all data could be read, so it is not known what was judged"
    elif any(model.digest is None and model.path is None and not model.in_memory for model in record.models):
        reason += "; name with `artifact:` the file that answers, or its sha256"
    return Decision(
        name=SUBJECT,
        status="NOT_RUN",
        blocking=not waived,
        sentence=f"subject not shown: {reason}",
        waived=waived,
        reason=reason,
    )


def _blocks(decision: Decision, record: Record) -> bool:
    if not decision.blocking or decision.status == "PASS":
        return False
    undecided = decision.status == "INCONCLUSIVE" and not decision.looks_violated
    return not (undecided and record.policy.inconclusive == "allow")


def _conclude(record: Record, decisions: tuple[Decision, ...], expired: Iterable[Waiver]) -> Verdict:
    blocking = [decision for decision in decisions if _blocks(decision, record)]
    statuses = {decision.status for decision in blocking}
    word: Word
    if "FAIL" in statuses and not record.draft:
        word, exit_code = "NOT READY", 1
    elif "ERROR" in statuses:
        word, exit_code = "ERROR", 4
    elif blocking or record.draft or record.only or record.interrupted or not _decided(decisions):
        word, exit_code = "UNDECIDED", 3
    else:
        word, exit_code = "READY", 0
    counts = _counts(decisions)
    return Verdict(
        word=word,
        reason=_reason(record, word, blocking, decisions),
        headline=f"{word} (a draft)" if record.draft else _headline(word, decisions, blocking, counts),
        exit_code=exit_code,
        counts=counts,
        decisions=decisions,
        weakened=_weakened(record, word, decisions, expired),
    )


def _decided(decisions: Iterable[Decision]) -> bool:
    return any(decision.blocking and decision.status == "PASS" for decision in decisions)


def _counts(decisions: Iterable[Decision]) -> dict[str, int]:
    counter: Counter[str] = Counter()
    for decision in decisions:
        counter[
            "waived" if decision.waived else decision.status if decision.blocking else f"warn {decision.status}"
        ] += 1
    return dict(sorted(counter.items()))


def _headline(word: Word, decisions: tuple[Decision, ...], blocking: list[Decision], counts: Mapping[str, int]) -> str:
    void = sum(1 for decision in decisions if decision.blocking and decision.status == "INVALID")
    inconclusive, not_run = (
        sum(1 for decision in decisions if decision.blocking and decision.status == status)
        for status in ("INCONCLUSIVE", "NOT_RUN")
    )
    failed = sum(1 for decision in blocking if decision.status == "FAIL")
    words = [
        f"{number} {what}"
        for number, what in (
            (failed, "failed"),
            (sum(1 for decision in blocking if decision.status == "ERROR"), "crashed"),
            (counts.get("waived", 0), "waived"),
            (void, "not judged"),
            (inconclusive, "inconclusive"),
            (not_run, "not run"),
        )
        if number
    ]
    return f"{word} ({', '.join(words)})" if words else word


def _reason(record: Record, word: Word, blocking: list[Decision], decisions: tuple[Decision, ...]) -> str:
    if record.draft:
        blocking = [one for one in blocking if one.status == "ERROR"]
    if record.draft and not blocking:
        return DRAFT
    if blocking and word != "READY":
        first = min(blocking, key=lambda one: (WORST_FIRST[one.status], not one.looks_violated))
        more = len(blocking) - 1
        others = f" (and {plural(more, 'requirement')} more)" if more else ""
        return f"{first.name}: {first.sentence}{others}"
    if record.interrupted:
        return "The run was interrupted before everything was measured."
    if record.only:
        return f"Only {', '.join(record.only)} was run; a part of a spec is never READY."
    if word == "UNDECIDED":
        return "No blocking requirement was shown to be met."
    passed = sum(1 for decision in decisions if decision.blocking and decision.status == "PASS")
    return (
        f"All {passed} blocking requirements were shown to be met."
        if passed > 1
        else "The blocking requirement is met."
    )


def _narrowed(record: Record) -> list[str]:
    """Places in which the spec itself asks less than it seems to."""
    lines = []
    if record.policy.confidence < USUAL_CONFIDENCE:
        lines.append(f"decided at {record.policy.confidence * 100:g} % confidence: more than 1 in 20 may be wrong")
    for one in record.datasets:
        if one.where is not None:
            read = "" if one.rows_read is None else f", {one.rows:,} of {one.rows_read:,}"
            lines.append(f"dataset {one.name} is only the rows where {one.where}{read}")
    lines += same_rows(record) + same_models(record)
    lines += record.allowed
    if record.overrides:
        lines.append(f"set on the command line: {', '.join(record.overrides)}")
    return lines + models_judged(record)


def _measured_again(check: CheckRecord, alpha: float) -> str:
    """How often a check was measured, and why that before the last time did not count."""
    times = len(check.attempts) + 1
    reasons = "; ".join(dict.fromkeys(one.reason for one in check.attempts))
    said = f"{check.id} was measured in {times} runs, and only the last one counts; before that: {reasons}"
    # A disturbed measurement that holds stands, so that each was a look; what was not run at all was none.
    looks = 1 + sum(one.status == "measured" for one in check.attempts)
    if looks == 1:
        return said
    return f"{said}; its risk of a false PASS is at most {min(1.0, looks * alpha) * 100:g} %"


def _in_memory(record: Record) -> list[str]:
    """Sentence on what a program handed over, which is no file that ships."""
    models = [one.name for one in record.models if one.in_memory]
    names = [*models, *(one.name for one in record.datasets if one.in_memory)]
    if not names:
        return []
    ships = ", and no model file is tied to this verdict" if models else ""
    one = "a copy of it was" if len(names) == 1 else "copies of them were"
    return [f"a program passed {and_list(names)} in memory: {one} measured{ships}"]


def _weakened(
    record: Record, word: Word, decisions: tuple[Decision, ...], expired: Iterable[Waiver]
) -> tuple[str, ...]:
    lines = [
        waiver.caution
        for waiver in record.waivers
        if any(decision.waived and decision.name == waiver.of for decision in decisions)
    ]
    lines += [f"the waiver of {waiver.of} ended on {waiver.expires} and no longer applies" for waiver in expired]
    lines += set_aside(record)
    lines += weaker(record.asked_otherwise)
    if record.subject is None and any(decision.name == SUBJECT and decision.waived for decision in decisions):
        lines.append("the subject is not shown: no digest ties this run to what will ship")
    elif any(model.digest == record.subject and model.digest_stated for model in record.models):
        lines.append("the subject's digest was declared, not verified")
    lines += _in_memory(record)
    allowed = [
        decision.name
        for decision in decisions
        if decision.blocking and decision.status == "INCONCLUSIVE" and not decision.looks_violated
    ]
    if record.policy.inconclusive == "allow" and allowed:
        lines.append(f"the policy lets these pass inconclusive: {', '.join(allowed)}")
    alpha = 1.0 - record.policy.confidence
    lines += [_measured_again(check, alpha) for check in record.checks if check.attempts]
    if record.resumption is not None:
        again = record.resumption.again.items()
        lines += [f"{name} was measured again when the run was resumed: {why}" for name, why in again]
    lines += [f"{check.id}: {line}" for check in record.checks for line in check.weakens]
    lines += asked_unlike(record)
    lines += _narrowed(record)
    lines += cautions(record)
    lines += [
        f"the server of {model.name} failed when asked for its answers, and was asked again: {how}"
        for model in record.models
        if (how := model.details.get("requests_failed_how"))
    ]
    lines += logged_answers(record)
    if record.timings_from:
        lines.append(f"nothing was timed: the timings come from {record.timings_from}")
    if record.draft:
        lines.append("a draft: a few rows and queries of everything")
    if record.only:
        lines.append(f"only a part of the spec was run: {', '.join(record.only)}")
    if record.interrupted:
        lines.append("the run was interrupted")
    if word == "READY" and record.earlier_runs:
        k = record.earlier_runs
        times = "1 time" if k == 1 else f"{k} times"
        chance = f"{min(1.0, (k + 1) * alpha) * 100:g} %"
        own = record.earlier_of_subject
        of_it = "" if not own else ", on this subject" if own == k else f", {own} of them on this subject"
        lines.append(f"decided {times} before on this test set{of_it}: the risk of a false READY is at most {chance}")
    return tuple(lines)
