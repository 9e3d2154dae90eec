"""Lines of a journal, as they may be trusted when a run is gone on with: a file that anything may have happened to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalspec.evidence.record import CheckRecord

MOST_BYTES = 64 * 2**20
"""Longest line of a journal; a longer one is no event."""
_CELL = (str, int, float, bool, type(None))


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Every event of a journal that is whole; what rests on others is made again.

    Torn lines, lines that are no JSON, and events that lack something that their kind has are left out.

    Raises:
        OSError: The file can't be read.
    """
    with path.open("rb") as stream:
        while line := stream.readline(MOST_BYTES):
            if not line.endswith(b"\n") and len(line) == MOST_BYTES:
                _skip(stream.readline)
                continue
            try:
                event = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict) and _is_whole(event):
                yield event


def _skip(readline: Callable[[int], bytes]) -> None:
    """Go on to the next line."""
    while (rest := readline(MOST_BYTES)) and not rest.endswith(b"\n"):
        pass


def _is_whole(event: Mapping[str, Any]) -> bool:
    kind = event.get("event")
    return isinstance(kind, str) and (kind not in _KINDS or _KINDS[kind](event))


def _start(event: Mapping[str, Any]) -> bool:
    return isinstance(event.get("remeasures", ""), str)


def _predictions(event: Mapping[str, Any]) -> bool:
    rows = event.get("rows")
    texts = (event.get("key"), event.get("digest"))
    is_count = isinstance(rows, int) and not isinstance(rows, bool) and 0 <= rows < 2**63
    return all(isinstance(one, str) for one in texts) and is_count and _is_observed(event.get("observed"))


def _check(event: Mapping[str, Any]) -> bool:
    observed = event.get("observed", {})
    if not all(isinstance(event.get(key), str) for key in ("key", "id")) or not isinstance(observed, dict):
        return False
    try:
        record = CheckRecord.model_validate(event.get("record"))
    except (ValidationError, RecursionError):
        return False
    return record.id == event["id"] and all(_is_observed(facts) for facts in observed.values())


def _is_observed(facts: object) -> bool:
    """True for facts got when a model ran: names with plain values, of which precision and device are words."""
    if not isinstance(facts, dict):
        return False
    words = (facts.get("precision"), facts.get("device"))
    return all(isinstance(value, _CELL) for value in facts.values()) and all(
        word is None or isinstance(word, str) for word in words
    )


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "start": _start,
    "predictions": _predictions,
    "check": _check,
}
