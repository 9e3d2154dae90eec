"""Things to do, for page, terminal, Markdown and CI: what keeps the verdict from READY, root causes first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from evalspec.evidence.digits import decimals_for
from evalspec.evidence.names import asked_of
from evalspec.evidence.profile import PROFILE
from evalspec.evidence.record import Record
from evalspec.evidence.remedies import CorrectLabels, Recalibrate, RemoveRows
from evalspec.evidence.test import Test, holds, side_to_pass
from evalspec.evidence.verdict import Status, Verdict
from evalspec.evidence.words import and_list, first_of, plural, verb
from evalspec.evidence.written import in_unit
from evalspec.report.names import plain_name, quantity, shorten, upper_first
from evalspec.report.requirements import RequirementRow, requirement_rows
from evalspec.report.words import Badge, badge, cause

MOST = 5
"""Steps that are shown; the others stand in the table."""
MOST_NAMED = 2
"""Requirements of one step that are written out."""
MOST_VOIDED = 4
"""Requirements that a step names as void until it is done."""
MOST_LISTED = 4
"""Rows that a step names."""
LENGTH = 480
TOO_CLOSE = 20
"""Beyond so many times the present n, more data is not the answer."""
RUN = "RUN"
"""Stands for the folder of the run where that is not known: a page is made from its record alone."""

AnyKnown = RemoveRows | CorrectLabels | Recalibrate


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do.

    Args:
        badge: Of the requirements that it is about.
        title: What to do, without a full stop.
        text: What is wrong, by how much, and what would help: whole sentences.
        why: Why it matters, in the user's own words; empty: none are given.
        owner: Who is asked; empty: nobody is named, or several are.
        targets: (anchor of the first requirement, id) of each check that it is about.
        requirements: Names of the requirements that it is about.
        warns: It blocks nothing.
    """

    badge: Badge
    title: str
    text: str
    why: str
    owner: str
    targets: tuple[tuple[str, str], ...]
    requirements: tuple[str, ...]
    warns: bool = False

    @property
    def line(self) -> str:
        """All of it on one line, with backticks around code."""
        why = f" Why: “{self.why}”" if self.why else ""
        owner = f" (owner {self.owner})" if self.owner else ""
        return f"{'Warning: ' if self.warns else ''}{self.title}. {self.text}{why}{owner}"


@dataclass(frozen=True, slots=True)
class NextSteps:
    """The first steps, and how many are left out."""

    steps: tuple[Step, ...]
    more: int


def next_steps(
    record: Record, verdict: Verdict, rows: Sequence[RequirementRow] | None = None, run: str = RUN
) -> NextSteps:
    """Things to do, at most `MOST`: what voids others first, then what blocks, then warnings that are not met.

    Those of one check that fail are one step; so are those that have one cause, whatever their check.

    Args:
        record: The run.
        verdict: What was decided of it.
        rows: Its requirements, where the caller has them already.
        run: Folder of the run, to be put into a command.
    """
    rows = requirement_rows(record, verdict) if rows is None else rows
    blocking = [row for row in rows if row.blocking and not row.holds]
    warned = [row for row in rows if not (row.blocking or row.decision.waived or row.holds)]
    named = {row.name for row in (*blocking, *warned)}
    # What is void until something else is done is a consequence of that, and no step of its own.
    void = [row for row in (*blocking, *warned) if set(row.decision.voided_by) & named]
    left = [row for row in blocking if row not in void]
    # What blocks for the same cause is to be done anyway; a check that lacks two things is changed for each.
    causes = {cause(row.decision) for row in left if row.decision.reason and row.check != PROFILE}
    others = [row for row in warned if row not in void and not (row.decision.reason and cause(row.decision) in causes)]
    maker = _Maker(record, rows, void, run)
    groups = [*_groups(left), *_groups(others)]
    groups.sort(key=lambda group: not (maker.voided(group) or maker.doubting(group)))
    return NextSteps(tuple(maker.step(group) for group in groups[:MOST]), max(0, len(groups) - MOST))


def _groups(rows: Iterable[RequirementRow]) -> list[list[RequirementRow]]:
    groups: dict[tuple[str, ...], list[RequirementRow]] = {}
    for row in rows:
        status, reason = row.decision.status, row.decision.reason or ""
        violated = str(row.decision.looks_violated)
        key = (
            (status, "", cause(row.decision))
            if status != "FAIL" and reason
            else (status, row.check, _more(row), violated)
        )
        groups.setdefault(key, []).append(row)
    return list(groups.values())


class _Maker:
    """Makes steps of requirements that belong together."""

    def __init__(
        self, record: Record, rows: Sequence[RequirementRow], void: Sequence[RequirementRow], run: str
    ) -> None:
        self._record, self._rows, self._void, self._run = record, rows, void, run
        self._checks = {check.id: check for check in record.checks}
        self._digests = {dataset.name: dataset.digest for dataset in record.datasets if dataset.digest}

    def voided(self, group: Sequence[RequirementRow]) -> list[RequirementRow]:
        """Requirements that are void because of these."""
        names = {row.name for row in group}
        return [row for row in self._void if names & set(row.decision.voided_by)]

    def doubting(self, group: Sequence[RequirementRow]) -> bool:
        """They are about data that a requirement on the model reads which does not hold either."""
        data = {row.check for row in group if row.blocking and row.dimension == "data"}
        return any(data & set(self._doubts(row)) for row in self._rows if row.blocking and not row.holds)

    def _doubts(self, row: RequirementRow) -> list[str]:
        """Checks of the data that a requirement on the model reads, whose own requirements do not hold."""
        if row.dimension != "model":
            return []
        read = self._read(row.check)
        data = (other for other in self._rows if other.dimension == "data" and other.blocking and not other.holds)
        return list(dict.fromkeys(other.check for other in data if read & self._read(other.check)))

    def _read(self, check: str) -> set[str]:
        """Datasets of a check, by digest: the same rows under another name are the same."""
        names = self._checks[check].datasets if check in self._checks else ()
        return {self._digests.get(name, name) for name in names}

    def step(self, group: Sequence[RequirementRow]) -> Step:
        """One thing to do about them."""
        first, owners = group[0], {row.owner for row in group}
        anchors = {row.check: row.anchor for row in reversed(group)}
        title, text = self._words(group)
        said, after = f"{text} {self._first(group)}".strip(), f"{self._left(group)} {self._until_then(group)}".strip()
        whys = dict.fromkeys(row.why for row in group if row.why)
        return Step(
            badge=badge(first.decision.status, "" if first.blocking else "warning", blocking=first.blocking),
            title=title,
            # What comes of it is never what is cut.
            text=f"{shorten(said, LENGTH - len(after))} {after}".strip(),
            why="" if self._stopped(group) else next(iter(whys), ""),
            owner=owners.pop() if len(owners) == 1 else "",
            targets=tuple((anchors[check], check) for check in dict.fromkeys(row.check for row in group)),
            requirements=tuple(row.name for row in group),
            warns=not first.blocking,
        )

    def _words(self, group: Sequence[RequirementRow]) -> tuple[str, str]:
        first = group[0]
        if first.test is None:
            return _without_test(group)
        status: Status = "FAIL" if first.decision.looks_violated else first.decision.status
        if status == "FAIL":
            return self._failed(group)
        if status == "INCONCLUSIVE" and not first.decision.reason:
            return self._undecided(group)
        if self._stopped(group):
            return "Run it again", self._rerun()
        names = self._names(group)
        reason = _sentence(first.decision.reason or first.said)
        if any(row.test is not None and row.test.by_surroundings for row in group):
            return "Measure again on a quiet machine", f"Not judged: {names}. {reason} {self._remeasure(group)}"
        titles: dict[Status, str] = {
            "ERROR": f"Fix what made {and_list(list(dict.fromkeys(row.check for row in group)))} crash",
            "INVALID": f"Get evidence that counts for {names}",
            "NOT_RUN": f"Get {names} measured",
        }
        if first.unread:
            return "Fix the data, then judge again", f"Not judged: {names}. {reason}"
        return titles.get(status, f"Settle {names}"), reason

    def _failed(self, group: Sequence[RequirementRow]) -> tuple[str, str]:
        first = group[0]
        assert first.test is not None
        remedy = self._remedy(group)
        said = " ".join(_sentence(self._number(row)) for row in group[:MOST_NAMED])
        more = len(group) - MOST_NAMED
        if more > 0:
            said += f" {plural(more, 'more requirement')} of {first.check} {verb(more, 'fails', 'fail')}."
        if first.decision.looks_violated:
            said += " It looks violated; only the correction for several requirements prevents a FAIL."
        if remedy is None and first.test.exact and first.test.first and len(group) == 1:
            said = f"{said.rstrip('.')}: {first.test.first}."
        if remedy is None and not first.blocking:
            return f"Look into {self._name(first)}", said
        if remedy is None:
            return _changed(self._name(first), first.test), said
        if isinstance(remedy, RemoveRows) and remedy.total > (rows := self._rows_of(remedy.dataset)) / 2 and rows:
            lost = f"{remedy.total:,} of its {rows:,} rows would have to go."
            return f"Replace {remedy.dataset}", f"{said} {lost} {self._remedy_words(remedy, group)}"
        return _title(remedy), f"{said} {self._remedy_words(remedy, group)}".strip()

    def _rows_of(self, dataset: str) -> int:
        return next((one.rows for one in self._record.datasets if one.name == dataset), 0)

    def _undecided(self, group: Sequence[RequirementRow]) -> tuple[str, str]:
        first, names = group[0], self._names(group)
        more = _more(first)
        said = " ".join(
            _sentence(f"{self._number(row)}{_bound_words(row)}{self._more_words(row)}") for row in group[:MOST_NAMED]
        )
        title = {"data": f"Measure more for {names}", "close": f"Decide on {names}"}.get(more, f"Settle {names}")
        return title, said

    def _more_words(self, row: RequirementRow) -> str:
        """Words on what would decide a requirement; empty: not known."""
        test, more = row.test, _more(row)
        if test is None or not more:
            return ""
        now = test.to_decide_now or test.n
        needed, there = f"n of about {test.n_to_decide:,}", f"n was {now:,}"
        if test.to_decide:
            needed, there = f"about {test.n_to_decide:,} {test.to_decide}", f"{now:,} were measured"
        if more == "close":
            return f"; close to the limit: {needed} would decide it, {there}"
        words = f"; {needed} would decide it, {there}"
        check = self._checks.get(row.check)
        settable = check is not None and check.declares is not None and test.to_decide in check.declares.effort
        return f"{words}: set `{test.to_decide}: {test.n_to_decide}` in {row.check}" if settable else words

    def _number(self, row: RequirementRow) -> str:
        """A requirement in a few words: ``accuracy: 93 %, needed at least 95 %``."""
        if row.test is None or not row.value:
            return row.said or row.sentence
        needs = {"<=": "allowed at most", "<": "allowed less than", ">=": "needed at least", ">": "needed more than",
                 "==": "must be"}[row.test.op]  # fmt: skip
        why = f" ({row.test.no_bound})" if row.decision.status == "FAIL" and row.test.no_bound else ""
        return f"{self._name(row)}: {row.value}{why}, {needs} {quantity(row.test.threshold, row.test.unit)}"

    def _name(self, row: RequirementRow) -> str:
        return asked_of(row.name) if row.test is None else plain_name(self._checks.get(row.check), row.test)

    def _names(self, group: Sequence[RequirementRow]) -> str:
        return first_of(list(dict.fromkeys(self._name(row) for row in group)), most=MOST_VOIDED)

    def _until_then(self, group: Sequence[RequirementRow]) -> str:
        void = self.voided(group)
        if not void:
            return ""
        return f"Until then {self._names(void)} can't be judged."

    def _first(self, group: Sequence[RequirementRow]) -> str:
        """Sentence on what is to be settled before a requirement that is violated on data in doubt."""
        doubts = [] if group[0].decision.reason else list(dict.fromkeys(c for row in group for c in self._doubts(row)))
        return f"Its data are in doubt: settle {and_list(doubts)} first." if doubts else ""

    def _remedy(self, group: Sequence[RequirementRow]) -> AnyKnown | None:
        check = self._checks.get(group[0].check)
        metrics = {row.test.metric for row in group if row.test is not None and row.test.against is None}
        known = () if check is None else [one for one in check.remedies if metrics & set(one.metrics)]
        # What helps all of them, and as little else as there is.
        return min(known, key=lambda one: (len(metrics - set(one.metrics)), len(one.metrics)), default=None)

    def _remedy_words(self, remedy: AnyKnown, group: Sequence[RequirementRow]) -> str:
        file = self._file(group[0].check, remedy.file)
        if isinstance(remedy, Recalibrate):
            return _recalibrated(remedy, group, file)
        rows = first_of([str(row) for row in remedy.rows], remedy.total, most=MOST_LISTED)
        named = f"{verb(remedy.total, 'Row', 'Rows')} {rows} of {remedy.dataset}"
        all_of = f" ({file} lists all)" if file and remedy.total > MOST_LISTED else ""
        if isinstance(remedy, CorrectLabels):
            return f"{named}: most suspect first{all_of}."
        also = f" {verb(remedy.total, 'is', 'are')} also in {and_list(remedy.also_in)}" if remedy.also_in else ""
        return f"{named}{also}{all_of}."

    def _left(self, group: Sequence[RequirementRow]) -> str:
        """Sentence on the score of the rows that are left, beside what is required of it; empty: it is not known."""
        remedy = self._remedy(group) if group[0].decision.status == "FAIL" else None
        if not isinstance(remedy, RemoveRows) or remedy.score_left is None:
            return ""
        asked = [
            row.test
            for row in self._rows
            if row.dimension == "model" and row.test is not None and row.test.metric == remedy.score
            if row.test.against is None and row.test.op in ("<", "<=", ">", ">=")
        ]
        unit = asked[0].unit if asked else remedy.score_unit
        value = in_unit(remedy.score_left, remedy.score_unit, unit)
        words = f"On the rows that are left {remedy.score} is {quantity(value, unit)}"
        missed = next(
            (test for test in asked if not holds(test.op, in_unit(value, unit, test.unit), test.threshold)), None
        )
        if missed is None:
            return f"{words}."
        side = "at least" if missed.op in (">", ">=") else "at most"
        limit = quantity(missed.threshold, missed.unit)
        return f"{words}, and {side} {limit} is required: removing them will not be enough."

    def _stopped(self, group: Sequence[RequirementRow]) -> bool:
        """They were not measured because the run was interrupted before."""
        status, check = group[0].decision.status, group[0].check
        return status == "NOT_RUN" and self._record.interrupted and check in self._unreached

    def _rerun(self) -> str:
        """Sentence on a run that stopped before checks were reached, and the command that goes on."""
        said = f"The run was interrupted before {first_of(self._unreached, most=MOST_VOIDED)} ran."
        if self._record.from_mapping:
            return f"{said} `resume=True` keeps what was measured."
        again = f"`evalspec run {self._spec} --resume`, with its other options as before,"
        return f"{said} {again} keeps what was measured."

    @property
    def _unreached(self) -> list[str]:
        """Checks that an interrupted run had not come to."""
        only = self._record.only
        return [
            check.id
            for check in self._record.checks
            if check.status == "not_run" and check.duration_s == 0
            if not only or any(name.partition("/")[0] == check.id for name in only)
        ]

    @property
    def _spec(self) -> str:
        return PurePosixPath(self._record.spec_file).name or "SPEC"

    def _file(self, check: str, name: str) -> str:
        files = self._checks[check].evidence if check in self._checks else ()
        return next((one.path for one in files if name and PurePosixPath(one.path).name == name), "")

    def _remeasure(self, group: Sequence[RequirementRow]) -> str:
        """Command that measures again what a busy machine spoilt and keeps the rest, where that is allowed."""
        checks = {row.check for row in group}
        # What was decided is never measured again until it looks better.
        rows = [row for row in self._rows if row.check in checks and not row.holds]
        if self._record.from_mapping or not all(row.test is not None and row.test.by_surroundings for row in rows):
            return "Run all of it again."
        return f"`evalspec run {self._spec} --remeasure {self._run}` keeps the rest."


def _without_test(group: Sequence[RequirementRow]) -> tuple[str, str]:
    """Requirements that no check has: items of a profile, a crash of a check, the subject, a screen."""
    first = group[0]
    reason = first.decision.reason
    if first.check == PROFILE:
        names = ", ".join(asked_of(row.name) for row in group)
        action = "Change or set aside" if reason else "Add or set aside"
        return f"{action} {names}", _sentence(reason or f"The profile asks for {names}")
    if first.decision.status == "ERROR":
        return f"Fix what made {first.check} crash", _sentence(reason or first.said)
    title = "Show what ships" if first.name == "subject" else f"Settle {first.name}"
    return title, _sentence(first.said or reason or "")


def _changed(name: str, test: Test) -> str:
    """Change that a value needs, in words."""
    if test.op == "==":
        return f"Bring {name} to {quantity(test.threshold, test.unit)}"
    return f"{'Raise' if test.op in ('>=', '>') else 'Lower'} {name}"


def _title(remedy: AnyKnown) -> str:
    if isinstance(remedy, Recalibrate):
        return "Recalibrate the model"
    if isinstance(remedy, CorrectLabels):
        return f"Check the labels of {plural(remedy.total, 'row')} of {remedy.dataset}"
    return f"Remove {plural(remedy.total, 'row')} from {remedy.dataset}"


def _recalibrated(remedy: Recalibrate, group: Sequence[RequirementRow], file: str) -> str:
    """Sentence on a map of probabilities, and whether it is shown to be enough."""
    test = next((row.test for row in group if row.test is not None and row.test.metric == remedy.metrics[0]), None)
    if test is None or remedy.value is None:
        return ""
    decimals = 1 if test.unit == "%" else 3
    shown = quantity(in_unit(remedy.value, remedy.unit, test.unit), test.unit, decimals)
    words = f"On {plural(remedy.n, 'held-out row')} {remedy.method} brings it to {shown}"
    if remedy.upper is not None:
        upper = in_unit(remedy.upper, remedy.unit, test.unit)
        passes = holds(test.op, upper, test.threshold)
        limit = quantity(test.threshold, test.unit)
        enough = "which would pass" if passes else f"over the limit of {limit}: it takes more rows to confirm it"
        words += f"; its upper bound is {quantity(upper, test.unit, decimals)}, {enough}"
    return f"{words} ({file})." if file else f"{words}."


def _bound_words(row: RequirementRow) -> str:
    """The bound that has to meet the limit and does not yet, or that there is none."""
    test = row.test
    if test is None or test.value is None or test.exact or test.op == "==":
        return ""
    side, bound = side_to_pass(test.op), test.bound_to_pass
    if bound is None:
        return f", but there is no {side} bound yet"
    return f", but the {side} bound is {quantity(bound, test.unit, decimals_for(test))}"


def _more(row: RequirementRow) -> str:
    """Word on whether more data would decide it: ``data``, ``close`` (too close to the threshold); empty: unknown."""
    test = row.test
    if row.decision.status != "INCONCLUSIVE" or row.decision.looks_violated or test is None:
        return ""
    if not test.times_to_decide:
        return ""
    return "data" if test.times_to_decide <= TOO_CLOSE else "close"


def _sentence(text: str) -> str:
    """Words as a sentence."""
    return f"{upper_first(text).rstrip('.')}." if text else ""
