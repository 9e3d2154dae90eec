"""Events in the journal of a run that another run may go on from; lines of any other form don't count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import CheckRecord


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


Kind = TypeVar("Kind", bound=_Event)


class ModelAnswered(_Event):
    """Event: a model's answers on a dataset were written."""

    key: str
    dataset: str
    model: str
    rows: int
    digest: str = Field(description="Of the file of answers.")
    observed: dict[str, Cell] = Field(default_factory=dict)
    basis: dict[str, str] = Field(description="All that they rest on, by name: its digest.")
    read: dict[str, str] = Field(description="Files that were seen to be read for them, and their digests.")


class CheckMeasured(_Event):
    """Event: a check has ended."""

    key: str
    id: str
    record: CheckRecord
    observed: dict[str, dict[str, Cell]] = Field(default_factory=dict)
    basis: dict[str, str] = Field(description="All that it rests on, by name: its digest.")
    answers: dict[str, str] = Field(description="dataset/model: digest of the file of answers that it read.")
    read: dict[str, dict[str, str]] = Field(description="Model: files that its code was seen to read.")


class Witnessed(_Event):
    """Event: a server was asked at the start of a run."""

    model: str
    rows: int
    digest: str = Field(description="Of the file of its answers.")
    stands_for: str = Field(description="That of the first run in which it answered so; part of every key.")


class JournalEvents:
    """Events of a journal, by what they are about.

    Args:
        events: Lines of the journal, oldest first.
    """

    def __init__(self, events: Iterable[Mapping[str, Any]] = ()) -> None:
        events = tuple(events)
        checks = tuple(_read(events, "check", CheckMeasured))
        self.answers = {one.key: one for one in _read(events, "predictions", ModelAnswered)}
        self.checks = {one.key: one for one in checks}
        self.last = {one.id: one for one in checks}
        """Last event of each check, by check."""
        self.servers = {one.model: one for one in _read(events, "server", Witnessed)}
        self.again = {str(one["id"]): str(one.get("why")) for one in events if one["event"] == "again" and "id" in one}
        """Reasons why checks were measured again before, by check."""


def _read(events: Iterable[Mapping[str, Any]], name: str, kind: type[Kind]) -> Iterator[Kind]:
    for event in events:
        if event["event"] == name:
            try:
                yield kind.model_validate(event)
            except ValidationError:
                continue


def otherwise(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Difference between what two measurements rest on that don't go together, in words."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    if not names:
        return "what it depends on is not known"
    first = names[0] if names[0] in now and names[0] in before else f"{names[0]}, which was or is missing,"
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"{first} has changed{more}"
