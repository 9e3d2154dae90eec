"""Operators of a candidate and of its baseline: where they ran, and which ones only one of the models has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evalspec.checks.model.compression.spec import OF_OPERATORS
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import AnyBlock, Column, Table
from evalspec.evidence.estimate import Fact
from evalspec.evidence.words import first_of, or_list
from evalspec.language.abilities import FAMILIES
from evalspec.timing.operators import Operators, coverage, device_of, elsewhere, fell_back, look

if TYPE_CHECKING:
    from evalspec.checks.model.compression.spec import Compression
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs

OF_ATTENTION = 2
"""Products that make up an attention not written as one operator: the scores, and the weighted sum of the values."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Operators of one model.

    Args:
        model: Its name.
        device: Device they were to run on.
        framework: Framework that ran them, without its version.
        operators: The operators that ran.
    """

    model: str
    device: str
    framework: str
    operators: Operators


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """Facts, blocks and notes about operators, for the check's result.

    Args:
        estimates: Metric: fact.
        missing: Metric: why there is no fact.
        blocks: Blocks to show.
        notes: Sentences for the reader.
    """

    estimates: Mapping[str, Fact] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    blocks: Sequence[AnyBlock] = ()
    notes: Sequence[str] = ()


def operators(check: Compression, inputs: Inputs) -> OperatorResult:
    """Ask one process of each model which operators run for one item.

    Args:
        check: Its fields.
        inputs: Inputs of the check.
    """
    if not check.operators:
        return OperatorResult(missing=dict.fromkeys(OF_OPERATORS, "the check has `operators: false`"))
    ours = _ran(check, inputs, check.model)
    if isinstance(ours, str):
        return OperatorResult(missing=dict.fromkeys(OF_OPERATORS, f"{check.model}: {ours}"))
    theirs = _ran(check, inputs, check.baseline)
    seen = [ours] if isinstance(theirs, str) else [ours, theirs]
    blocks: list[AnyBlock] = [_places(seen)]
    notes: list[str] = []
    for one in seen:
        there = one.operators.on(one.device)
        blocks += elsewhere(one.operators, there, one.device, f" of {one.model}")
        notes += fell_back(one.operators, there, one.device, f" of {one.model}")
    estimates = {"operator_coverage": coverage(ours.operators, ours.operators.on(ours.device))}
    if isinstance(theirs, str):
        return OperatorResult(estimates, {"operators_lost": f"{check.baseline}: {theirs}"}, blocks, notes)
    lost = _lost(ours, theirs)
    if isinstance(lost, str):
        return OperatorResult(estimates, {"operators_lost": lost}, [*blocks, *_kinds(ours, theirs)], notes)
    return OperatorResult({**estimates, "operators_lost": lost}, {}, [*blocks, *_kinds(ours, theirs)], notes)


def _ran(check: Compression, inputs: Inputs, model: str) -> Ran | str:
    """Operators that ran, or the reason why they can't be seen."""
    try:
        probe, seen = look(inputs, check.dataset, model, 1)
    except (NotRunError, InputError) as error:
        return str(error)
    device = device_of(str(inputs.model_facts(model).get("device") or "cpu"))
    return Ran(model, device, str(probe.facts.get("framework") or "").partition(" ")[0], seen)


def _lost(ours: Ran, theirs: Ran) -> Fact | str:
    """Number of operators of `FAMILIES` that only the baseline is written with, or why they can't be counted."""
    alike = ours.framework == theirs.framework
    mine, other = _families(ours, alike), _families(theirs, alike)
    if not other.total():
        return f"{theirs.model} has no {or_list(FAMILIES)} operators that could be lost"
    if not alike and (mine["recurrent"] or other["recurrent"]):
        return (
            f"{ours.framework or ours.model} and {theirs.framework or theirs.model} write recurrent layers "
            "differently, so their operators can't be counted against each other"
        )
    fewer = other - mine
    first = first_of([f"{count} of {other[name]} {name} operators" for name, count in sorted(fewer.items())])
    method = f"{', '.join(FAMILIES[:-1])} and {FAMILIES[-1]} operators as written, counted"
    return Fact(float(fewer.total()), other.total(), method, first=first)


def _families(ran: Ran, alike: bool) -> Counter[str]:
    """Number of operators of each family; between frameworks, an attention counts as its products."""
    counts = Counter(name for name in ran.operators.written_families if name)
    if not alike:
        counts["product"] += OF_ATTENTION * counts.pop("attention", 0)
    return counts


def _places(seen: Sequence[Ran]) -> Table:
    """Table of where the operators of each model ran."""
    rows: list[tuple[Cell, ...]] = []
    for one in seen:
        there = one.operators.on(one.device)
        away = one.operators.time_share(~there)
        share = None if away is None else 100.0 * (1.0 - away)
        rows.append((one.model, one.device, len(there), int(there.sum()), 100.0 * float(there.mean()), share))
    columns = (
        Column(name="model"), Column(name="device asked for"), Column(name="operators", unit="count"),
        Column(name="ran there", unit="count"), Column(name="share", unit="%"),
        Column(name="share of one run's time", unit="%"),
    )  # fmt: skip
    caption = "One item, one run. Of time: what is left beside operators that ran elsewhere; empty: not measured."
    return Table(title="Where operators ran", caption=caption, columns=columns, rows=tuple(rows))


def _kinds(ours: Ran, theirs: Ran) -> list[AnyBlock]:
    """Table of the kinds that the models have different numbers of; by family between different frameworks."""
    alike = ours.framework == theirs.framework
    if alike:
        mine, other = (Counter(one.operators.written_kinds) for one in (ours, theirs))
    else:
        mine, other = (_families(one, alike) for one in (ours, theirs))
    kinds = [kind for kind in sorted(mine | other) if mine[kind] != other[kind]]
    rows = tuple((kind, other[kind], mine[kind], mine[kind] - other[kind]) for kind in kinds)
    if not rows:
        return []
    columns = (
        Column(name="operator"), Column(name=theirs.model, unit="count"), Column(name=ours.model, unit="count"),
        Column(name="gained", unit="count"),
    )  # fmt: skip
    what = "As the models are written, before a runtime fuses anything; less than 0: lost."
    if not alike:
        what = f"{ours.framework} and {theirs.framework} name operators differently; they are counted by what they do."
    return [Table(title="Operators lost and gained", caption=what, columns=columns, rows=rows)]
