"""Checks that ``init`` may write: which of them fit what was seen, and their sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from evalspec.language.yaml import read_text
from evalspec.starting.sketch import Sketch

SECTIONS = ("system", "model", "data")
MOST_CLASSES = 6
"""Of which each is asked about by itself."""
FEWEST_ROWS = 10
"""Of a class that is asked about by itself."""
PART = re.compile(r"[^()\[\]{},:#\"'\n]+")
"""A class that can stand in a sentence as it is."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A sentence of a check.

    Args:
        start: The sentence without its threshold; with it, where nothing is to be measured.
        blocking: It stands under `require`.
        otherwise: Its threshold where nothing was measured; empty: it is complete.
        times: Multiple of what was measured that becomes the threshold.
        timed: The time of a query becomes the threshold, not what a first run measures.
        threshold: As it is written; empty: not known yet.
        comment: Beside it.
        left_out: Why it is not written; empty: it is.
    """

    start: str
    blocking: bool
    otherwise: str = ""
    times: float = 1.0
    timed: bool = False
    threshold: str = ""
    comment: str = ""
    left_out: str = ""

    @property
    def sentence(self) -> str:
        """The whole sentence."""
        return f"{self.start} {self.threshold}" if self.threshold else self.start


@dataclass(frozen=True, slots=True)
class CheckDraft:
    """A check that may be written.

    Args:
        section: The dimension.
        about: What it looks at, in a sentence.
        entry: Its fields.
        asks: Its sentences.
        left_out: Why it is not written; empty: it is.
    """

    section: Literal["system", "model", "data"]
    about: str
    entry: Mapping[str, Any]
    asks: tuple[Ask, ...]
    left_out: str = ""


def drafts(sketch: Sketch) -> list[CheckDraft]:
    """All checks, those that fit nothing that was seen with the reason."""
    known, resource = facts(sketch), _resource()
    found = []
    for one in resource["checks"]:
        lacking = [fact for fact in one["needs"] if fact not in known]
        about_other = any(fact in lacking for fact in ("classes", "values", "text")) and bool(known & TASKS)
        if about_other:
            continue
        entry = {key: _filled(value, sketch) for key, value in one["entry"].items()}
        asks = tuple(ask for key in ("require", "warn") for ask in _asks(one.get(key, []), key == "require", sketch))
        reason = str(resource["reasons"][lacking[0]]) if lacking else ""
        found.append(CheckDraft(one["section"], one["about"], entry, asks, reason))
    return found


TASKS = {"classes", "values", "text"}
_TASK_OF = {"classes": "classes", "values": "values", "text": "text"}


def facts(sketch: Sketch) -> set[str]:
    """Facts that checks need."""
    test, model = sketch.test, sketch.model
    found = {_TASK_OF[model.task]} if model.task in _TASK_OF else set()
    if not model.task and not model.unopened:
        return found
    if model.unopened:
        found |= {"classes"} if test.values else {"values"}
    shared = test.roles.cluster
    train = sketch.datasets.get("train")
    held = {
        "labels": bool(test.label),
        "probabilities": model.scores,
        "train": train is not None,
        "traffic": "traffic" in sketch.datasets,
        "groups": bool(test.roles.groups),
        "cluster": bool(shared) and train is not None and shared in train.columns,
        "baseline": sketch.baseline is not None and not sketch.baseline.unopened,
    }
    return found | {name for name, there in held.items() if there}


@cache
def _resource() -> Any:
    text = resources.files("evalspec.starting").joinpath("checks.yaml").read_text(encoding="utf-8")
    return read_text(text, "checks.yaml").value


def _filled(value: Any, sketch: Sketch) -> Any:
    roles = sketch.test.roles
    tokens = {"@groups": list(roles.groups) or ["group"], "@cluster": roles.cluster or "patient"}
    return tokens.get(value, value) if isinstance(value, str) else value


def _asks(entries: Sequence[Any], blocking: bool, sketch: Sketch) -> Iterator[Ask]:
    for one in entries:
        if isinstance(one, str):
            yield Ask(one, blocking)
        elif one.get("needs") is None or one["needs"] in facts(sketch):
            for part in _parts(sketch) if one.get("each") else ("",):
                start, times = one["ask"].replace("{}", part), float(one.get("times", 1))
                yield Ask(start, blocking, one["otherwise"], times, "timed" in one)


def _parts(sketch: Sketch) -> tuple[str, ...]:
    """Classes that are asked about one by one."""
    classes = sketch.model.classes or sketch.test.values
    if len(classes) > MOST_CLASSES:
        return ()
    there = [name for name in classes if sketch.test.counts.get(name, 0) >= FEWEST_ROWS]
    return tuple(name for name in there if PART.fullmatch(name))
