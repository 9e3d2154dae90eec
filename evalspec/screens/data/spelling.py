"""Entities on both sides that are written in another way: case, spaces, punctuation, zero padding."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from evalspec.evidence.screens import Suspicion
from evalspec.screens.evidence import Look
from evalspec.screens.pairs import train_and_test

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evalspec.screens.evidence import Evidence

DIFFERENT = 20
"""Values of a column of entities, at least."""
SHARE = 0.01
"""Least share of test rows."""
LONGEST = 40
DISTINCT = 0.99
"""Of the values that stay different when they are written plainly; fewer, and the spelling says who it is."""

_MARKS = re.compile(r"[^\w]|_")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")


def look(evidence: Evidence) -> Look:
    """Columns of text of training and test rows; all of it are facts."""
    found: list[Suspicion] = []
    for train, test in train_and_test(evidence.checks):
        if {train, test} <= set(evidence.datasets):
            ours, theirs = evidence.rows(train), evidence.rows(test)
            label = evidence.dataset(test).label
            for name in theirs.column_names:
                if name != label and name in ours.column_names:
                    one = _spelt(evidence, (train, test), name, ours.column(name), theirs.column(name))
                    found += [] if one is None else [one]
    return Look(tuple(found))


def _spelt(
    evidence: Evidence, pair: tuple[str, str], name: str, train: pa.ChunkedArray, test: pa.ChunkedArray
) -> Suspicion | None:
    if not any(_is_text(one) for one in (train, test)):
        return None
    known, rows = _counts(train), _counts(test)
    if min(len(known), len(rows)) < DIFFERENT:
        return None
    plain = {_plain(value): value for value in known}
    own = {_plain(value) for value in rows}
    if len(plain) < DISTINCT * len(known) or len(own) < DISTINCT * len(rows):
        return None
    other = {value: plain[_plain(value)] for value in rows if value not in known and _plain(value) in plain}
    count = sum(rows[value] for value in other)
    if count < max(5.0, SHARE * len(test)):
        return None
    first = min(other)
    sentence = (
        f"{len(other):,} values of {name} in {count:,} of {len(test):,} rows of {pair[1]} are in {pair[0]} in a "
        f"different spelling, such as {first!r} and {other[first]!r}"
    )
    fields: dict[str, object] = {"train": [pair[0]], "test": pair[1], "column": [name]}
    suggestion = evidence.requirement("data", "contamination", "exact_duplicates == 0 rows", fields)
    return evidence.suspicion(name, sentence, suggestion)


def _is_text(values: pa.ChunkedArray) -> bool:
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _counts(values: pa.ChunkedArray) -> Mapping[str, int]:
    """Value: its rows; empty where it is a column of long texts or of anything but text and whole numbers."""
    if not (_is_text(values) or pa.types.is_integer(values.type)):
        return {}
    texts = values.cast(pa.string()).drop_null()
    if not len(texts) or (pc.max(pc.utf8_length(texts)).as_py() or 0) > LONGEST:
        return {}
    return {one["values"]: one["counts"] for one in pc.value_counts(texts).to_pylist()}


def _plain(value: str) -> str:
    return _ZEROS.sub("", _MARKS.sub("", value.casefold()))
