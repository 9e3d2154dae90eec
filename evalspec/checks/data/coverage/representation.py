"""How far shares of a test set are from those of the population that it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evalspec.checks.data.coverage.groups import Codes, ConditionRows, column_codes, condition_rows
from evalspec.checks.data.coverage.tally import Tally
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Fact
from evalspec.stats.conjunction import AbsoluteDifference, AllParts
from evalspec.stats.shares.macro import Transformed
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.tables.shared_rows import counted

if TYPE_CHECKING:
    from evalspec.checks.data.coverage.spec import Coverage
    from evalspec.language.inputs import Inputs

OTHER = "(other)"
Mask = NDArray[np.bool_]


@dataclass
class Represented:
    """Gaps between the test set and the population.

    Args:
        parts: Value or condition: how far the two shares are apart, in 0..1.
        missing: ``representation_gap(part)``: why there is no value.
        shares: Value or condition: its share in the test set, and in the population.
        absent: Declared values of which there is no row, and declared columns without a value, each with why.
        notes: Sentences for the reader.
    """

    parts: dict[str, Estimate | Fact] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    shares: dict[str, tuple[float | None, float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def lack(self, name: str, why: str) -> None:
        """A part of which nothing can be said."""
        self.missing[f"representation_gap({name})"] = why


def represented(
    check: Coverage,
    inputs: Inputs,
    conditions: Mapping[str, ConditionRows],
    groups: Mapping[str, Codes],
    tallies: Sequence[Tally],
) -> Represented:
    """Hold the shares of the test set against those of the population.

    Args:
        check: Its fields.
        inputs: Rows and clusters of the population, where it is a dataset.
        conditions: Name: its rows in the test set.
        groups: Column of ``by:``: its values in the test set.
        tallies: Rows of the test set, and of the population where it is a dataset, counted.

    Raises:
        InputError: A column of the population holds something else than that of the test set.
    """
    found = Represented()
    if isinstance(check.population, str):
        _sampled(check, inputs, check.population, conditions, groups, tallies[1], found)
        return found
    for column, shares in check.shares.items():
        _declared(tallies[0], check.dataset, column, shares, found)
    for one in check.declared:
        if one.share is None:
            continue
        rows = conditions[one.name]
        if not rows.said:
            found.lack(one.name, str(rows.finding))
            continue
        here = rows.inside, rows.rows, rows.unknown
        _gap(found, one.name, here, one.share, f"rows of {check.dataset}")
    return found


def _gap(found: Represented, name: str, here: tuple[int, int, int], share: float, what: str) -> None:
    """A declared share: rows that are not known are counted against it, on the side on which they are worse."""
    inside, total, unknown = here
    worst = max(abs(inside / total - share), abs((inside + unknown) / total - share))
    doubt = f"; {unknown:,} of which it can't be said count against it" if unknown else ""
    found.parts[name] = Fact(worst, total, f"counted over {what}{doubt}")
    found.shares[name] = (inside / total, share)


def _declared(tally: Tally, dataset: str, column: str, shares: Mapping[str, float], found: Represented) -> None:
    if column not in tally.columns:
        found.absent[column] = f"{dataset} has no column {column!r}"
        for value in shares:
            found.lack(f"{column}={value}", found.absent[column])
        return
    codes = column_codes(tally, column, dataset)
    if codes.missing == codes.rows:
        found.absent[column] = f"{column!r} is missing in every row of {dataset}"
        for value in shares:
            found.lack(f"{column}={value}", found.absent[column])
        return
    counts = dict(zip(codes.names, codes.counts.tolist(), strict=True))
    total, what = codes.rows, f"rows of {dataset}"
    for value, share in shares.items():
        _gap(found, f"{column}={value}", (counts.get(value, 0), total, codes.missing), share, what)
        if share > 0 and not counts.get(value):
            found.absent[f"{column}={value}"] = f"no row of {dataset}"
    rest = sum(count for value, count in counts.items() if value not in shares)
    left = max(0.0, 1.0 - sum(shares.values()))
    if rest or left > 1e-9:
        _gap(found, f"{column}={OTHER}", (rest, total, codes.missing), left, what)


def _sampled(
    check: Coverage, inputs: Inputs, population: str, conditions: Mapping[str, ConditionRows],
    groups: Mapping[str, Codes], tally: Tally, found: Represented,
) -> None:  # fmt: skip
    clusters = inputs.clusters(population)
    if not tally.rows:
        raise InputError(f"dataset {population} has no rows to compare with")
    for column, here in groups.items():
        there = column_codes(tally, column, population)
        if not len(there.names) or not len(here.names):
            empty = population if len(here.names) else check.dataset
            found.absent[column] = f"{column!r} is missing in every row of {empty}"
            found.missing[f"representation_gap({column})"] = found.absent[column]
            continue
        if there.missing:
            found.notes.append(
                f"Of {population}, {counted(there.missing)} without {column!r} count on the side that is worse."
            )
        counts = dict(zip(here.names, here.counts.tolist(), strict=True))
        for value in dict.fromkeys((*here.names, *there.names)):
            ends = counts.get(value, 0), here.rows, here.missing
            shares = _of_value(there, value, clusters)
            _estimate(found, f"{column}={value}", ends, shares, check.dataset)
    for one in check.declared:
        rows, away = conditions[one.name], condition_rows(inputs, one, population, tally)
        if not rows.said or not away.said:
            found.lack(one.name, str(rows.finding if not rows.said else away.finding))
            continue
        if away.unknown:
            found.notes.append(
                f"Of {population}, {counted(away.unknown)} that may be {one.name} count on the side that is worse."
            )
        _estimate(found, one.name, (rows.inside, rows.rows, rows.unknown), _of_condition(away, clusters), check.dataset)


def _of_value(codes: Codes, value: str, clusters: NDArray[np.int64] | None) -> tuple[Proportion, ...]:
    place = codes.names.index(value) if value in codes.names else None
    if clusters is None or codes.codes is None:
        return _counted(0 if place is None else int(codes.counts[place]), codes.rows - codes.missing, codes.rows)
    inside = np.zeros(codes.rows, np.bool_) if place is None else codes.codes == place
    return _shares(inside, codes.codes >= 0, clusters)


def _of_condition(rows: ConditionRows, clusters: NDArray[np.int64] | None) -> tuple[Proportion, ...]:
    if clusters is None or rows.masks is None:
        return _counted(rows.inside, rows.rows - rows.unknown, rows.rows)
    return _shares(*rows.masks, clusters)


def _counted(inside: int, known: int, rows: int) -> tuple[Proportion, ...]:
    """As `_shares`, of rows that have nothing in common."""
    sure = Proportion.of_counts(inside, known)
    if known in (0, rows):
        return (sure,)
    return (sure, Proportion.of_counts(inside, rows), Proportion.of_counts(inside + rows - known, rows))


def _shares(inside: Mask, known: Mask, clusters: NDArray[np.int64] | None) -> tuple[Proportion, ...]:
    """The share among the rows of which it is known; where it isn't of all, also with none and all of the others."""
    sure = proportion(inside[known], None if clusters is None else clusters[known])
    if known.all() or not known.any():
        return (sure,)
    return (sure, proportion(inside & known, clusters), proportion(inside | ~known, clusters))


def _estimate(
    found: Represented, name: str, here: tuple[int, int, int], shares: tuple[Proportion, ...], dataset: str
) -> None:
    """The distance of a sampled share from one that is counted; rows not known, of either, may lie on either side."""
    inside, total, unknown = here
    if shares[0].value is None:
        found.lack(name, "the population has no row of which it can be said")
        return
    ends = {"without rows that are not known": inside / total, "with them": (inside + unknown) / total}
    sides = dict(zip(("without those of the population", "with those"), shares[-2:], strict=False))
    apart = {
        f"{what}, {also}": _distance(share, end, dataset)
        for what, end in list(ends.items())[: 2 if unknown else 1]
        for also, share in sides.items()
    }
    found.parts[name] = AllParts(apart, "lower") if len(apart) > 1 else next(iter(apart.values()))
    found.shares[name] = (inside / total, shares[0].value)


def _distance(share: Proportion, counted: float, dataset: str) -> Estimate:
    signed = Transformed(
        share, lambda value: value - counted, lambda value: value + counted, f"minus the share in {dataset}"
    )
    return AbsoluteDifference(signed)
