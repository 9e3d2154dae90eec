"""Two runs side by side, as plain facts: what a page, a comment or a terminal tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from evalspec.evidence.record import AskedOtherwise, Record
from evalspec.evidence.words import plural, short_digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ChangeWord = Literal["regression", "improvement", "no change shown", "changed", "same", "not comparable"]

ORDER: Mapping[ChangeWord, int] = {
    "regression": 0, "not comparable": 1, "changed": 2, "no change shown": 3, "improvement": 4, "same": 5,
}  # fmt: skip
WORSE = ("PASS", "INCONCLUSIVE", "NOT_RUN", "INVALID", "ERROR", "FAIL")
"""Statuses, each worse than the one before it."""


@dataclass(frozen=True, slots=True)
class Flips:
    """One model on one dataset in both runs: rows that were answered otherwise.

    Args:
        dataset: Its name.
        model: The model's name.
        rows: Rows that both runs answered.
        changed: Rows answered otherwise.
        fixed: Rows, counted from 0, wrong before and right after; None: the truth is not at hand.
        broken: Rows right before and wrong after; None: the truth is not at hand.
        why: Why the truth is not at hand.
        clusters: shape (n,), what rows share, or None.
    """

    dataset: str
    model: str
    rows: int
    changed: int
    fixed: tuple[int, ...] | None
    broken: tuple[int, ...] | None
    why: str = ""
    clusters: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class RequirementChange:
    """One requirement in both runs.

    Args:
        name: Of the requirement.
        word: What became of it.
        before, after: Status in each run; empty: it was not in that run.
        value_before, value_after: Its value in each run, in words; empty: they are not set side by side.
        change: The change with its interval in words; of ``not comparable`` why not.
        notes: What else is different: the threshold, a field of the subject.
        sentence: As the later run asks it, or the earlier one where the later does not.
        plain: Of ``not comparable`` why not, by names and without digests; empty: as ``change`` says.
    """

    name: str
    word: ChangeWord
    before: str
    after: str
    value_before: str = ""
    value_after: str = ""
    change: str = ""
    notes: tuple[str, ...] = ()
    sentence: str = ""
    plain: str = ""

    @property
    def values(self) -> str:
        """Both values in words, or nothing."""
        return f"{self.value_before}, then {self.value_after}" if self.value_before else ""

    @property
    def is_worse(self) -> bool:
        """The later run gave it a worse status."""
        known = {status: place for place, status in enumerate(WORSE)}
        return known.get(self.after, -1) > known.get(self.before, len(WORSE))


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A model or a dataset of a run: its name in the spec, the file's name, the start of its digest."""

    name: str
    file: str
    digest: str


NO_FILE = NamedFile("", "", "")


@dataclass(frozen=True, slots=True)
class RunSide:
    """Facts of one of two runs.

    Args:
        spec: Its name.
        word: Of the verdict; empty: it has none.
        headline: Of the verdict.
        reason: Of the verdict.
        started: When it started.
        commit: Of the spec's repository; empty: not known.
        models: Models that were used.
        datasets: Datasets that were read.
        spec_file: The spec.
    """

    spec: str
    word: str
    headline: str
    reason: str
    started: str
    commit: str = ""
    models: tuple[NamedFile, ...] = ()
    datasets: tuple[NamedFile, ...] = ()
    spec_file: NamedFile = NO_FILE


def run_side(record: Record) -> RunSide:
    """Facts of a run that are told when it is set beside another."""
    verdict = record.verdict
    return RunSide(
        spec=record.spec,
        word="" if verdict is None else verdict.word,
        headline="no verdict" if verdict is None else verdict.headline,
        reason="" if verdict is None else verdict.reason,
        started=record.started,
        commit=str(record.environment.facts.get("git_commit") or "")[:12],
        models=tuple(NamedFile(one.name, one.path or one.kind, short_digest(one.digest)) for one in record.models),
        datasets=tuple(NamedFile(one.name, one.path or one.kind, short_digest(one.digest)) for one in record.datasets),
        spec_file=NamedFile("", PurePath(record.spec_file).name, short_digest(record.spec_digest)),
    )


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs.

    Args:
        sides: The earlier run and the later one.
        rows: Requirements, regressions first.
        flips: Rows answered otherwise, for each dataset and model that both runs asked.
        differs: What else is different between the runs: field, before, after.
        alpha: One-sided level of each interval: that of the policy, divided by the requirements compared.
        asked: What the later run asks otherwise: thresholds, waivers, settings.
        notes: What to know before anything of it is read.
    """

    sides: tuple[RunSide, RunSide]
    rows: tuple[RequirementChange, ...]
    flips: tuple[Flips, ...]
    differs: tuple[tuple[str, str, str], ...]
    alpha: float
    asked: tuple[AskedOtherwise, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdicts(self) -> tuple[str, str]:
        """Headlines of both verdicts."""
        return self.sides[0].headline, self.sides[1].headline

    @property
    def regressions(self) -> tuple[RequirementChange, ...]:
        """Requirements that became worse."""
        return tuple(row for row in self.rows if row.word == "regression")

    @property
    def comparable(self) -> bool:
        """Something was compared."""
        return any(row.word != "not comparable" for row in self.rows)

    @property
    def asked_elsewhere(self) -> tuple[AskedOtherwise, ...]:
        """Changes of what is asked that do not stand beside their requirement already."""
        beside = {row.name for row in self.rows if row.notes}
        return tuple(one for one in self.asked if one.of not in beside)

    @property
    def other_files(self) -> tuple[tuple[str, NamedFile, NamedFile], ...]:
        """Spec, models and datasets of one name that are not the same file: ``spec`` and so on, before, after."""
        earlier, later = self.sides
        pairs = (
            ("spec", (earlier.spec_file,), (later.spec_file,)),
            ("model", earlier.models, later.models),
            ("dataset", earlier.datasets, later.datasets),
        )
        return tuple(
            (kind, old, new)
            for kind, before, after in pairs
            for old in before
            for new in after
            if old.name == new.name and old.digest != new.digest
        )

    @property
    def other_circumstances(self) -> tuple[tuple[str, str, str], ...]:
        """Other differences than those that `other_files` tells by name."""
        told = {"subject", *(f"{kind} {one.name}".strip() for kind, one, _ in self.other_files)}
        return tuple(one for one in self.differs if one[0] not in told)


def count_words(rows: tuple[RequirementChange, ...]) -> str:
    """How many requirements became what: ``2 regressions, 13 not comparable``."""
    nouns: dict[ChangeWord, tuple[str, str]] = {
        "regression": ("regression", "regressions"),
        "not comparable": ("not comparable", "not comparable"),
        "changed": ("changed", "changed"),
        "no change shown": ("without a shown change", "without a shown change"),
        "improvement": ("improvement", "improvements"),
        "same": ("the same", "the same"),
    }
    counts = {word: sum(row.word == word for row in rows) for word in ORDER}
    said = [plural(count, *nouns[word]) for word, count in counts.items() if count]
    return ", ".join(said) or "no requirement in either run"
