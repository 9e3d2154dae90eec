"""Make a run again from its raw evidence, hold it against its journal, and say what differs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalspec.errors import EvalspecError
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import RULE_VERSION
from evalspec.language.parts import Access
from evalspec.records.answer_parts import PartSample
from evalspec.records.journal_record import JournaledRecord, journaled
from evalspec.records.leaves import Leaf, at, leaves, sentence
from evalspec.records.outputs import PAGES, pages
from evalspec.records.parts import Kind, Remade, RemadePart
from evalspec.records.remade import remake
from evalspec.running.files import sha256_of
from evalspec.running.folders import INPUTS, RECORD, read_record
from evalspec.running.journal.closing import JOURNAL
from evalspec.running.supervision.made_runs import FOLDER as MADE_FOLDER
from evalspec.verdict import decide
from evalspec.version import __version__


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of making a run again.

    Args:
        same: What came out as the record has it.
        differs: What did not, each with both values.
        skipped: What can't be made again here, with the reason.
        otherwise: Words and rules that another version of the program gives otherwise, which blames nobody: each with
            both values.
        versions: That the record is of another version, or of another numpy; None: it is of these.
    """

    same: tuple[str, ...]
    differs: tuple[str, ...]
    skipped: tuple[str, ...]
    otherwise: tuple[str, ...] = ()
    versions: str | None = None


@dataclass(slots=True)
class DifferenceList:
    """As `Verification`, while it is being made."""

    same: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)

    def add(self, part: RemadePart, found: list[Leaf], lenient: bool) -> None:
        """Sort the differences in one part of a record.

        Args:
            part: The part.
            found: Its differences.
            lenient: Another version made the record.
        """
        what, now = part.what, "recomputed"
        excused = [leaf for leaf in found if lenient and _excused(leaf, part.kind)]
        blamed = [leaf for leaf in found if leaf not in excused]
        if blamed:
            self.differs.append(sentence(what, blamed, now))
        if excused:
            self.otherwise.append(sentence(what, excused, now))
        if not found:
            self.same.append(what)


def _excused(leaf: Leaf, kind: Kind) -> bool:
    """Another version may give this otherwise."""
    if kind in ("fixed", "rules") or leaf.decides:
        return kind == "rules"
    return leaf.more or (kind == "values" and leaf.wording)


def verify(
    folder: Path,
    *,
    spec_folder: Path | None = None,
    allow_outside: bool = False,
    sample: PartSample | None = None,
) -> Verification:
    """Hold a record, leaf by leaf, against its journal and against all of it that can be made again.

    Made again are every estimate and test, charts and tables, conditions, counts, how each check ended, records of
    datasets and models, the verdict, and the pages. `SECURITY.md` lists what only the journal can tell.

    Args:
        folder: Folder of a run. Datasets and models are read again, if they are still there unchanged.
        spec_folder: Folder that paths in the spec start from; None: where the spec was, from the run's folder.
        allow_outside: As for the run.
        sample: Of the parts of answers that are looked at; None: all.

    Raises:
        RecordError: There is no record, or it can't be read.
    """
    record = read_record(folder)
    folder = folder if folder.is_dir() else folder.parent
    journal = journaled(folder)
    base = _base(record, journal)
    place = spec_folder or (folder / base.spec_file).resolve().parent
    access = Access(place, allow_outside=allow_outside, memory=folder / INPUTS, made=folder / MADE_FOLDER)
    remade = remake(base, folder, journal, access, sample)
    said = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    findings = compare(said, record, journal, remade)
    _files(folder, journal, findings)
    _pages(folder, record, journal, findings)
    lost = not base.from_mapping and not (folder / base.spec_file).is_file()
    if spec_folder is None and findings.skipped and lost:
        findings.skipped.insert(
            0,
            f"the run's spec is not at {base.spec_file} from its folder, so one of them was moved; "
            "name the folder of the spec with --spec-folder DIR",
        )
    return Verification(
        same=tuple(findings.same),
        differs=tuple(findings.differs),
        skipped=tuple(findings.skipped),
        otherwise=tuple(findings.otherwise),
        versions="; ".join(filter(None, (_versions(record), _draws(record)))) or None,
    )


def _base(record: Record, journal: JournaledRecord) -> Record:
    """The record that says what was run: that of the journal, where it has it whole and it can be read."""
    if not journal.whole:
        return record
    try:
        return Record.model_validate(journal.record)
    except ValidationError:
        return record


def _versions(record: Record) -> str | None:
    """Note that another version of the program, or of the rule of verdicts, made the record; None: this one did."""
    rule = RULE_VERSION if record.verdict is None else record.verdict.rule
    if (record.evalspec, rule) == (__version__, RULE_VERSION):
        return None
    return (
        f"the record was made by evalspec {record.evalspec} with rule {rule}, and this is evalspec {__version__} with "
        f"rule {RULE_VERSION}: its wording, and what follows from rules, may differ because of that, but values may "
        f"not; evalspec {record.evalspec} can check it"
    )


def _draws(record: Record) -> str | None:
    """Note that another numpy made the draws of the record; None: this one did, or it is not known."""
    theirs, ours = record.environment.packages.get("numpy"), version("numpy")
    if theirs in (None, ours):
        return None
    return (
        f"the record was made with numpy {theirs}, and this is numpy {ours}: bounds from resamples may differ because "
        f"of that, if it draws them otherwise; numpy {theirs} can check them"
    )


def compare(said: Mapping[str, Any], record: Record, journal: JournaledRecord, remade: Remade) -> DifferenceList:
    """Hold a record against its journal and against what was made again; no file is looked at.

    Args:
        said: ``record.json`` as it reads.
        record: The same, validated.
        journal: Of the run.
        remade: What was made again.
    """
    findings = DifferenceList(list(remade.same), list(remade.differs), list(remade.skipped))
    # What was written before journals held whole records is of another version, whatever it is called.
    lenient = _versions(record) is not None or not journal.whole
    again = decide(record).model_dump(mode="json")
    other_rule = record.verdict is not None and record.verdict.rule != RULE_VERSION
    now = record.model_dump(mode="json")
    verdict = RemadePart("verdict", ("verdict",), again, "rules" if other_rule else "values")
    for part in (verdict, *remade.parts):
        findings.add(part, list(leaves(part.read(at(now, part.place)), part.value, exact=False)), lenient)
    _against_journal(said, journal, findings)
    return findings


def _against_journal(said: Mapping[str, Any], journal: JournaledRecord, findings: DifferenceList) -> None:
    if journal.skipped is not None:
        findings.skipped.append(journal.skipped)
    if journal.broken is not None:
        findings.differs.append(f"{JOURNAL}: {journal.broken}")
    groups: dict[str, list[Leaf]] = {}
    for leaf in _unlike_journal(said, journal):
        deep = leaf.place[0] in ("checks", "models", "datasets") and len(leaf.place) > 1
        what = leaf.place[1] if deep else leaf.place[0]
        groups.setdefault(what, []).append(leaf._replace(place=leaf.place[2 if deep else 1 :]))
    for what, found in groups.items():
        findings.differs.append(sentence(what, found, "the journal says"))
    if journal.whole and not groups:
        findings.same.append(f"all of {RECORD}, as {JOURNAL} has it")


def _unlike_journal(said: Mapping[str, Any], journal: JournaledRecord) -> Iterator[Leaf]:
    """Where a record is not what its journal has, as far as it has it."""
    if journal.whole:
        # The verdict follows from all the rest, by its rule, and is made again from it.
        rule, verdict = at(said, ("verdict", "rule")), {"rule": journal.rule}
        yield from leaves({**said, "verdict": {"rule": rule}}, {**journal.record, "verdict": verdict}, exact=True)
        return
    for name, now in journal.record.items():
        if name != "checks":
            yield from leaves(said.get(name), now, exact=True, place=(name,))
    for now in journal.record.get("checks", ()):
        check = at(said, ("checks", str(now.get("id"))))
        # Such a journal does not say what was voided at the end of the run.
        voided = check is not None and check.get("status") == "invalid" and now.get("status") == "measured"
        for leaf in leaves(check, now, exact=True, place=("checks", str(now.get("id")))):
            if not (voided and leaf.place[2:] in (("status",), ("reason",))):
                yield leaf


def _files(folder: Path, journal: JournaledRecord, findings: DifferenceList) -> None:
    """Hold the files whose digests the journal has against these."""
    for name, digest in journal.digests.items():
        path = folder / name
        if not path.is_file():
            findings.differs.append(f"{name}: the run wrote it, but it is missing")
        elif sha256_of(path) != digest:
            findings.differs.append(f"{name}: its content differs from what the run wrote")
        else:
            findings.same.append(f"bytes of {name}")


def _pages(folder: Path, record: Record, journal: JournaledRecord, findings: DifferenceList) -> None:
    """Hold each page against its digest in the journal, and against what the record gives."""
    try:
        made = pages(record)
    except EvalspecError as error:
        findings.skipped.append(f"pages: {error}")
        return
    noted = {} if journal.pages is None else journal.pages.get("digests")
    noted = noted if isinstance(noted, dict) else {}
    by = record.evalspec if journal.pages is None else journal.pages.get("evalspec")
    for name in PAGES:
        path = folder / name
        if not path.is_file():
            (findings.differs if name in noted else findings.skipped).append(
                f"{name}: it is not there" + (f", and {JOURNAL} says that it was written" if name in noted else "")
            )
            continue
        found = path.read_bytes()
        if name in noted and hashlib.sha256(found).hexdigest() != noted[name]:
            findings.differs.append(f"{name}: its content differs from what was written")
        elif found == made[name].encode():
            findings.same.append(name)
        elif not journal.whole:
            findings.skipped.append(
                f"{name}: it is not what evalspec {__version__} makes from the record, and the journal "
                "of this run has no digest of it"
            )
        elif by != __version__:
            findings.otherwise.append(
                f"{name}: evalspec {__version__} makes a different one from the record than {by} did"
            )
        else:
            findings.differs.append(f"{name}: it does not match the record")
