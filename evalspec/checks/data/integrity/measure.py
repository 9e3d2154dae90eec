"""Measurement of `integrity`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.checks.data.integrity import show
from evalspec.checks.data.integrity.croissant import Croissant, read_croissant
from evalspec.checks.data.integrity.repeats import Mixed, RepeatedRow, rows_of
from evalspec.checks.data.integrity.rules import Broken, ColumnState
from evalspec.checks.data.integrity.summary import IntegritySummary, RowRules
from evalspec.errors import InputError
from evalspec.evidence.estimate import Fact, Measured, Parts
from evalspec.evidence.reasons import NoEvidence
from evalspec.evidence.record import Counts
from evalspec.evidence.words import first_of
from evalspec.language.parts import CheckResult
from evalspec.language.scans import Scan

if TYPE_CHECKING:
    from evalspec.checks.data.integrity.spec import ColumnRule, Integrity
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs

MOST_NOTES = 20
TWICE = "Duplicate rows"


@dataclass
class IntegrityResult:
    """Violations of rules, and all else that stands out.

    Args:
        rows: Of the dataset.
        columns: In their order.
        broken: (column or file, what is broken), in the order in which they are shown; an empty column: the file.
        duplicates: Rows that are equal to an earlier one; None: why not stands in ``no_duplicates``.
        shown: Pairs of equal rows, by what they break.
        notes: Sentences.
        withhold: Why no violation is no evidence; empty: it is.
    """

    rows: int = 0
    columns: dict[str, ColumnState] = field(default_factory=dict)
    broken: list[tuple[str, Broken]] = field(default_factory=list)
    duplicates: int | None = None
    no_duplicates: str = ""
    shown: dict[str, list[RepeatedRow]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    withhold: str = ""

    @property
    def violations(self) -> int:
        """All of them."""
        return sum(one.count for _, one in self.broken)


def measure(check: Integrity, inputs: Inputs) -> CheckResult:
    """One pass over the rows, shared with other checks; a second one where rows that stand twice are to be shown.

    Args:
        check: Its fields.
        inputs: Where rows and files come from.

    Raises:
        InputError: A rule can't be applied, a file can't be read, or there are no rows.
    """
    card = _card(check, inputs)
    found = IntegrityResult()
    _files(check, inputs, card, found)
    seen: IntegritySummary = inputs.scan(scans_of(check, inputs))[0]
    if not seen.rows:
        raise InputError(f"{check.dataset} has no rows")
    _name_unheld(card, found)
    _look(check, inputs, seen, found)
    _name_columns(found)
    evidence = show.write(check, inputs.evidence, found.broken)
    rates = {
        name: Fact(state.facts.missing / found.rows, found.rows, "counted over all rows")
        for name, state in found.columns.items()
    }
    emptiest = max(rates, key=lambda name: rates[name].value)
    whole = replace(rates[emptiest], first=f"that of {emptiest!r}")
    estimates: dict[str, Fact | Parts | Measured] = {"missing_rate": Parts(rates, whole)}
    missing = {}
    if _holds(check, card):
        violations = Fact(float(found.violations), found.rows, "counted over all rows", first=_worst_rules(found))
        estimates["schema_violations"] = Measured(violations, withhold=found.withhold) if found.withhold else violations
    else:
        missing["schema_violations"] = "there is no rule to check the rows against"
    if found.duplicates is None:
        missing["duplicate_rows"] = found.no_duplicates
    else:
        method, first = "counted by 128-bit digests of rows", _twice(found)
        estimates["duplicate_rows"] = Fact(float(found.duplicates), found.rows, method, first=first)
    conditions: dict[str, Cell] = {
        "dataset": check.dataset,
        "columns": len(found.columns),
        "rules": len(_rules(check, card)),
    }
    if seen.aside:
        # Where nothing is left out, records from before mean the same.
        conditions["duplicate_rows"] = f"all columns but the key {seen.aside!r}"
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=show.blocks(check.dataset, found.columns, found.broken, found.shown),
        counts=Counts(attempted=found.rows, used=found.rows),
        conditions=conditions,
        notes=found.notes,
        evidence=evidence,
    )


def scans_of(check: Integrity, inputs: Inputs) -> tuple[Scan, ...]:
    """Scans of all columns.

    Args:
        check: Its fields.
        inputs: Where the Croissant file is.

    Raises:
        InputError: It can't be read.
    """
    looked = RowRules(
        dataset=check.dataset,
        folder=inputs.evidence,
        rules=_rules(check, _card(check, inputs)),
        only=check.only,
        duplicates_by=check.duplicates_by,
        split=check.split,
        key=inputs.key(check.dataset),
    )
    return (Scan(check.dataset, f"rules of {check.name}", None, partial(IntegritySummary, looked)),)


def _card(check: Integrity, inputs: Inputs) -> Croissant | None:
    return None if check.croissant is None else read_croissant(inputs.file(check.croissant), check.record_set)


def _holds(check: Integrity, card: Croissant | None) -> bool:
    """There is something that rows or files are held against."""
    if check.table_schema or check.digest or check.split or check.only:
        return True
    return card is not None and (bool(card.digests) or any(kind is not None for kind in card.columns.values()))


def _worst_rules(found: IntegrityResult) -> str:
    """The rules that are broken most, each with its column."""
    worst = sorted(found.broken, key=lambda pair: -pair[1].count)
    return first_of([f"{name!r}: {one.said}" if name else one.said for name, one in worst])


def _twice(found: IntegrityResult) -> str:
    """The first rows that stand twice."""
    rows = found.shown.get(TWICE, [])
    pairs = [
        f"row {second.number:,} is row {first.number:,}" for first, second in zip(rows[::2], rows[1::2], strict=True)
    ]
    return first_of(pairs, found.duplicates)


def _look(check: Integrity, inputs: Inputs, seen: IntegritySummary, found: IntegrityResult) -> None:
    """Add what the rows say, with the first of those that stand twice."""
    found.rows, found.columns, found.no_duplicates = seen.rows, seen.columns, seen.no_duplicates
    found.broken += seen.absent
    for name, state in seen.columns.items():
        found.broken += [(name, one) for one in sorted(state.broken.values(), key=lambda one: one.order)]
    if seen.repeats is not None:
        found.duplicates, some = seen.repeats.found()
        if some.size:
            found.shown[TWICE] = rows_of(inputs.batches(check.dataset), seen.repeats, some)
    for name, repeats in seen.unique.items():
        count, some = repeats.found()
        if count:
            rows = rows_of(inputs.batches(check.dataset), repeats, some)
            found.broken.append((name, _as_broken("unique", count, rows, name)))
            found.shown[f"Rows with one {name}"] = rows
    if seen.mixed is not None:
        _mixed(check, inputs, seen, seen.mixed, found)


def _mixed(check: Integrity, inputs: Inputs, seen: IntegritySummary, mixed: Mixed, found: IntegrityResult) -> None:
    """Add rows that stand in several splits."""
    split = str(check.split)
    if mixed.unnamed:
        found.broken.append((split, Broken("rows without a split", mixed.unnamed)))
    count, some = mixed.found()
    named = [name for name, repeats in seen.names.items() if repeats.found()[0] == 0]
    if named and found.rows > 1:
        found.withhold = NoEvidence(
            f"{named[0]!r} has another value in every row, so no row could be in two splits; name the columns that "
            "count in `duplicates_by:`"
        )
    if len(mixed.splits) < 2:
        one = f" ({mixed.splits[0]})" if mixed.splits else ""
        found.withhold = NoEvidence(f"{split!r} names one split only{one}, so no row could be in two")
    found.notes.append(f"Splits in {split!r}: {', '.join(mixed.splits[:10])}.")
    if count:
        rows = rows_of(inputs.batches(check.dataset), mixed, some)
        found.broken.append((split, _as_broken("rows in several splits", count, rows, split)))
        found.shown["Rows in several splits"] = rows


def _as_broken(rule: str, count: int, rows: Sequence[RepeatedRow], name: str) -> Broken:
    return Broken(rule, count, [row.number for row in rows], [row.cells.get(name, "") for row in rows])


def _rules(check: Integrity, card: Croissant | None) -> dict[str, ColumnRule]:
    """Rules of the spec on top of types from the Croissant file."""
    from evalspec.checks.data.integrity.spec import ColumnRule

    rules = {name: ColumnRule(type=kind) for name, kind in ({} if card is None else card.columns).items()}
    for name, rule in check.table_schema.items():
        before = rules.get(name)
        rules[name] = rule if before is None or rule.type is not None else rule.model_copy(update={"type": before.type})
    return rules


def _name_unheld(card: Croissant | None, found: IntegrityResult) -> None:
    """Name columns whose type in the Croissant file is none that can be held."""
    if card is not None:
        unheld = [name for name, kind in card.columns.items() if kind is None]
        found.notes += [
            f"Column {name!r} is {card.types[name] or 'without a type'} in the Croissant file: not held."
            for name in unheld
        ]


def _files(check: Integrity, inputs: Inputs, card: Croissant | None, found: IntegrityResult) -> None:
    """Hold files against their digests."""
    for name, digest in check.digest.items():
        _file(name, inputs.file(name), digest.removeprefix("sha256:"), found)
    if card is None or not card.digests:
        return
    files = sorted(inputs.files(check.dataset))
    names = [path.name for path in files]
    bare = [] if files else [check.dataset]
    closest = {
        address: max(_same_end(path.parts, address.split("/")) for path in files) for address in card.digests if files
    }
    for path in files:
        name = path.name if names.count(path.name) == 1 else "/".join(path.parts[-2:])
        stated = _stated(path, card.digests, closest)
        if stated is None:
            bare.append(name)
        else:
            _file(name, path, stated, found)
    if bare:
        found.broken.append(("", Broken(f"the Croissant file has no sha256 of {', '.join(bare[:3])}", len(bare))))


def _stated(path: Path, digests: Mapping[str, str], closest: Mapping[str, int]) -> str | None:
    """The digest of the address that ends as the path does, and as no other path does; None: there is none, or two."""
    shared = {address: _same_end(path.parts, address.split("/")) for address in digests}
    shared = {address: count for address, count in shared.items() if count == closest[address]}
    most = max(shared.values(), default=0)
    found = {digests[address] for address, count in shared.items() if count == most}
    return found.pop() if most and len(found) == 1 else None


def _same_end(first: Sequence[str], second: Sequence[str]) -> int:
    """Parts at the end that are equal."""
    same = 0
    for one, other in zip(reversed(first), reversed(second), strict=False):
        if one != other:
            break
        same += 1
    return same


def _file(name: str, path: Path, digest: str, found: IntegrityResult) -> None:
    try:
        with path.open("rb") as stream:
            now = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{name!r} can't be read: {error.strerror or error}") from error
    if now == digest:
        found.notes.append(f"File {name!r} has the sha256 that is stated.")
    else:
        found.broken.append(("", Broken(f"file {name!r}: sha256 {now[:12]}..., stated {digest[:12]}...", 1)))


def _name_columns(found: IntegrityResult) -> None:
    """Name columns that stand out and break no rule."""
    notes = []
    for name, state in found.columns.items():
        facts = state.facts
        if facts.missing == facts.rows:
            notes.append(f"Column {name!r} has no value in any row.")
        elif facts.constant and facts.rows > 1:
            notes.append(f"Column {name!r} is constant: {str(facts.ends[0])[:60]}.")
        if facts.infinite:
            notes.append(f"Column {name!r} holds {facts.infinite:,} infinite numbers.")
    found.notes += notes[:MOST_NOTES]
    if len(notes) > MOST_NOTES:
        found.notes.append(f"The same of {len(notes) - MOST_NOTES} more columns: see the table.")
