"""The outcome of a run, for a program that has started it: verdict, requirements, a table for a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from evalspec.evidence.record import Record
    from evalspec.evidence.verdict import Status, Verdict
    from evalspec.report.requirements import RequirementRow

MOST_LETTERS = 230
"""Of a run in one line: pytest shows no more beside an assertion."""
CELL = "padding:.25em .8em;text-align:left;border-bottom:1px solid #8884"
COLORS = {"READY": "#1a7f37", "NOT READY": "#b42318", "PASS": "#1a7f37", "FAIL": "#b42318"}
UNDECIDED_COLOR = "#8a5a00"


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """One requirement and its outcome. Numbers are in ``unit``, the unit of the requirement.

    Args:
        name: ``quality/accuracy``, as in waivers, JUnit and links.
        status: PASS, FAIL, INCONCLUSIVE, NOT_RUN, INVALID or ERROR.
        blocking: The verdict can be READY only if this requirement is PASS.
        waived: It was deliberately set aside.
        requires: The requirement, as written in the spec.
        sentence: Its outcome, in one sentence.
        value, lower, upper, threshold: None if there is none.
        unit: Unit of these numbers; empty: they have none.
        n: Number of rows, queries or processes; 0 if nothing was measured.
    """

    name: str
    status: Status
    blocking: bool
    waived: bool
    requires: str
    sentence: str
    value: float | None
    lower: float | None
    upper: float | None
    threshold: float | None
    unit: str
    n: int

    @classmethod
    def of(cls, row: RequirementRow) -> RequirementResult:
        """The result in a row of the report."""
        test = row.test
        return cls(
            name=row.name,
            status=row.decision.status,
            blocking=row.blocking,
            waived=row.decision.waived,
            requires=row.sentence,
            sentence=row.said,
            value=None if test is None else test.value,
            lower=None if test is None else test.lower,
            upper=None if test is None else test.upper,
            threshold=None if test is None else test.threshold,
            unit="" if test is None else test.unit,
            n=row.n,
        )


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """A finished run.

    Args:
        record: Everything that was measured: the content of ``record.json``.
        folder: Folder of the run.
    """

    record: Record
    folder: Path

    @property
    def verdict(self) -> Verdict:
        """The verdict: ``word``, ``headline``, ``exit_code``, ``decisions``, ``weakened``."""
        from evalspec.records.outputs import verdict_of

        return verdict_of(self.record)

    @property
    def ready(self) -> bool:
        """True if the verdict is READY."""
        return self.verdict.word == "READY"

    @property
    def report(self) -> Path:
        """The report, one HTML page."""
        return self.folder / "report.html"

    @property
    def requirements(self) -> tuple[RequirementResult, ...]:
        """All requirements, worst first."""
        return tuple(RequirementResult.of(row) for row in self._rows())

    def requirement(self, name: str) -> RequirementResult:
        """The requirement of this name.

        Args:
            name: Such as ``quality/accuracy`` or ``slices/accuracy(dark)``.

        Raises:
            LookupError: There is none; the message lists all names.
        """
        from evalspec.errors import did_you_mean

        found = {one.name: one for one in self.requirements}
        if name in found:
            return found[name]
        hint = did_you_mean(name, found)
        choices = f"there are {', '.join(found)}"
        raise LookupError(f"no requirement is called {name!r}; {f'{hint}; {choices}' if hint else choices}")

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each requirement, worst first.

        Raises:
            ImportError: pandas is not installed.
        """
        from dataclasses import asdict

        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas; `requirements` holds the same") from error
        columns = [*RequirementResult.__dataclass_fields__]
        return pd.DataFrame([asdict(one) for one in self.requirements], columns=columns)

    def _rows(self) -> tuple[RequirementRow, ...]:
        from evalspec.report.requirements import requirement_rows

        return requirement_rows(self.record, self.verdict)

    def __bool__(self) -> NoReturn:
        """Refuse: whether a run has ended and whether it is READY are easily mixed up."""
        raise TypeError("a run is neither true nor false; write `assert run.ready, run`")

    def __repr__(self) -> str:
        line = f"<{self.record.spec}: {self.verdict.headline}: {self.verdict.reason}"
        end = f"; see {self.report}>"
        return line[: max(40, MOST_LETTERS - len(end))] + end

    def __str__(self) -> str:
        """Verdict and requirements that do not hold, a line each, for the message of an assertion."""
        lines = [f"{self.record.spec}: {self.verdict.headline}"]
        for one in self.requirements:
            if one.status != "PASS":
                weight = "" if one.blocking else " (waived)" if one.waived else " (warning)"
                lines.append(f"  {one.status}{weight} {one.name}: {one.sentence}")
        return "\n".join([*lines, f"report: {self.report}"])

    def _repr_html_(self) -> str:
        """Verdict and requirements for a notebook; it loads nothing."""
        verdict = self.verdict
        head = (
            f'<p style="margin:.4em 0"><strong style="color:{COLORS.get(verdict.word, UNDECIDED_COLOR)}">'
            f"{escape(verdict.headline)}</strong> {escape(self.record.spec)}<br>{escape(verdict.reason)}</p>"
        )
        names = ("Status", "Requirement", "Needs", "Value", "Interval", "n")
        heads = "".join(f'<th scope="col" style="{CELL}">{name}</th>' for name in names)
        body = "".join(_line(row) for row in self._rows())
        return (
            f'<div>{head}<table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody>'
            f'</table><p style="margin:.4em 0">Report: <code>{escape(str(self.report))}</code></p></div>'
        )


def _status(row: RequirementRow) -> str:
    return f"{row.badge.word}, {row.badge.extra}" if row.badge.extra else row.badge.word


def _line(row: RequirementRow) -> str:
    status = row.decision.status
    color = COLORS.get(status, UNDECIDED_COLOR)
    cells = [
        f'<td style="{CELL};color:{color}"><strong>{escape(_status(row))}</strong></td>',
        f'<td style="{CELL}" title="{escape(row.said)}">{escape(row.name)}</td>',
        *(
            f'<td style="{CELL}">{escape(text)}</td>'
            for text in (row.needs, row.value, row.interval, f"{row.n:,}" if row.n else "")
        ),
    ]
    return f"<tr>{''.join(cells)}</tr>"
