"""Columns that a check looks for in several datasets: that each has them, and holds values of one kind in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalspec.errors import Problem
from evalspec.evidence.words import and_list
from evalspec.language.header import Header, Matched
from evalspec.language.parts import Dataset, Model
from evalspec.language.where import column_family
from evalspec.loading.entries import Entry
from evalspec.loading.files import find_text
from evalspec.loading.problems import Problems

SHOWN = 5
"""Columns that a sentence names."""


def check_matched(
    problems: Problems,
    entries: Sequence[Entry],
    models: Mapping[str, Model],
    datasets: Mapping[str, Dataset],
    headers: Mapping[str, Header],
) -> list[str]:
    """Note columns that one dataset of a check lacks, or that hold values of another kind there.

    Returns:
        Sentences: columns that are left out, since a dataset lacks them or holds something else in them.
    """
    labels = {name: one.label for name, one in datasets.items() if one.label is not None}
    told: list[str] = []
    pairs = [(entry, matched) for entry in entries for matched in entry.check.matched(labels)]
    for entry, matched in pairs:
        if not {matched.of, *matched.others} <= headers.keys() or matched.of not in datasets:
            continue
        names = _names(matched, models.get("candidate"), datasets[matched.of], headers[matched.of])
        lacking = {one: [name for name in names if name not in headers[one].columns] for one in matched.others}
        absent = {one: without for one, without in lacking.items() if without}
        shared = [name for name in names if not any(name in without for without in absent.values())]
        # What the spec names is noted as a column that is not there.
        if absent and not matched.columns:
            told += _lacks(problems, entry, matched, absent, bool(shared))
        told += _unlike(problems, entry, matched, shared, headers)
    return told


def _names(matched: Matched, candidate: Model | None, dataset: Dataset, header: Header) -> list[str]:
    """The columns: as `Inputs.feature_columns` chooses them."""
    if matched.columns:
        return [name for name in dict.fromkeys(matched.columns) if name in header.columns]
    read: list[str] = []
    for columns in candidate.inputs.values() if candidate is not None else ():
        read += [columns] if isinstance(columns, str) else columns
    if not read or not all(name in header.columns for name in read):
        read = [name for name in header.columns if name not in (dataset.label, dataset.key, dataset.cluster)]
    return [name for name in dict.fromkeys(read) if name not in matched.aside]


def _lacks(
    problems: Problems, entry: Entry, matched: Matched, absent: Mapping[str, Sequence[str]], shares: bool
) -> list[str]:
    """Note columns that are not everywhere; or tell of them, where the check goes on without."""
    if shares and not matched.every:
        return [
            f"{entry.check.name}: {other} has no {_listed(without)}, so {matched.of} is compared with it without them"
            for other, without in absent.items()
        ]
    for other, without in absent.items():
        message = f"{other} has no {_listed(without)}, which {matched.of} has and which are compared"
        remedy = f"list in `{matched.field}:` the columns that both have, or bring {other} up to date"
        problems.add(find_text(problems, entry.path, other), Problem(message, remedy=remedy))
    return []


def _unlike(
    problems: Problems, entry: Entry, matched: Matched, names: Sequence[str], headers: Mapping[str, Header]
) -> list[str]:
    """Note columns that hold one kind of values in one dataset and another one in the other; or tell of them."""
    told: list[str] = []
    for other in matched.others:
        # Of a large file of text types are as its beginning shows them.
        if headers[matched.of].rows is None or headers[other].rows is None:
            continue
        for name in names:
            types = headers[matched.of].columns[name], headers[other].columns[name]
            kinds = {kind for kind in map(column_family, types) if kind is not None}
            if len(kinds) < 2 or kinds <= matched.alike:
                continue
            message = (
                f"column {name!r} holds {types[0]} in {matched.of} and {types[1]} in {other}: their values can't be "
                "compared"
            )
            if matched.goes_on:
                told.append(f"{entry.check.name}: {message}")
                continue
            remedy = f"store both with one type, or list in `{matched.field}:` the columns that can be compared"
            place = find_text(problems, entry.path, name if matched.columns else other)
            problems.add(place, Problem(message, remedy=remedy))
    return told


def _listed(names: Sequence[str]) -> str:
    what = "column" if len(names) == 1 else "columns"
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return f"{what} {and_list([*(repr(name) for name in names[:SHOWN]), *more])}"
