"""Differences of a run's demands from an earlier run of the same spec: thresholds, waivers, dropped requirements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from evalspec.evidence.metric import Op
from evalspec.evidence.policy import Waiver
from evalspec.evidence.profile import Without
from evalspec.evidence.record import AskedOtherwise, CheckRecord, Direction, Record
from evalspec.evidence.test import Severity
from evalspec.evidence.words import and_list, plural
from evalspec.lineage.settings import WORDS_OF_A_CHECK, as_text, entries, shortly, slices

SHOWN = 12
"""Lines that stand with the verdict; the record has all."""
STRICTER_WHEN_LARGER = {"confidence": True, "answers_may_differ": False}
STRICTNESS = ("off", "tell", "block")
"""What may come of screens, least strict first."""
KEYS_OF_A_DATASET = ("where", "cluster", "label")


class _Asking(Protocol):
    """Demand of a requirement."""

    @property
    def sentence(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def op(self) -> Op: ...
    @property
    def threshold(self) -> float: ...
    @property
    def unit(self) -> str: ...


class _Found(NamedTuple):
    of: str
    before: str
    after: str
    direction: Direction


def asked_otherwise(before: Record, after: Record, run: str) -> tuple[AskedOtherwise, ...]:
    """Differences between the demands of a record and an earlier one, as far as both of them hold them.

    Args:
        before: The earlier run.
        after: The later run.
        run: What the earlier run is called.
    """
    differences = [
        *_checks(before, after),
        *_set_aside("waiver of ", before.waivers, after.waivers),
        *_set_aside("without ", before.without, after.without),
        *_profile(before, after),
        *_policy(before, after),
    ]
    return _named(differences, run)


def settings_otherwise(before: object, after: object, run: str) -> tuple[AskedOtherwise, ...]:
    """Settings of checks, slices and rows of datasets that a spec has otherwise than an earlier one.

    Args:
        before: The earlier spec as plain values, as it was run.
        after: The later one.
        run: What the earlier run is called.
    """
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return ()
    differences: list[_Found] = []
    ours, theirs = entries(before), entries(after)
    for name in ours.keys() & theirs.keys():
        old, new = ours[name], theirs[name]
        fields = [key for key in {**old, **new} if key not in WORDS_OF_A_CHECK]
        kind = [_Found(f"{name}.check", _text(old["check"]), _text(new["check"]), "changed")]
        differences += kind if old["check"] != new["check"] else _differing(name, old, new, fields)
    named, others = slices(before), slices(after)
    differences += _differing("slice", named, others, [name for name in named if name in others])
    datasets, now = (spec.get("datasets") for spec in (before, after))
    if isinstance(datasets, Mapping) and isinstance(now, Mapping):
        for name, was in datasets.items():
            one = now.get(name)
            if isinstance(was, Mapping) and isinstance(one, Mapping):
                differences += _differing(f"dataset {name}", was, one, KEYS_OF_A_DATASET)
    return _named(sorted(differences), run)


def words(one: AskedOtherwise, run: str = "") -> str:
    """One difference as a sentence.

    Args:
        one: The difference.
        run: What the earlier run is called; empty: by its folder.
    """
    then = f"in run {run or one.run}"
    if not one.after:
        return f"{one.direction}: {one.of} is no longer there, was {one.before} {then}"
    if not one.before:
        return f"{one.direction}: {one.of} is new ({one.after}), was not {then}"
    return f"{one.direction}: {one.of} is {one.after}, was {one.before} {then}"


def weaker(differences: Sequence[AskedOtherwise]) -> list[str]:
    """Sentences about everything that was not tightened, what was loosened first."""
    told = sorted((one for one in differences if one.direction != "tightened"), key=lambda one: one.direction[0] != "l")
    lines = [words(one) for one in told[:SHOWN]]
    if len(told) > SHOWN:
        runs = and_list(list(dict.fromkeys(one.run for one in told[SHOWN:])))
        lines.append(f"{len(told) - SHOWN:,} more differ from run {runs}; the record lists all")
    return lines


def tightened(differences: Sequence[AskedOtherwise]) -> str:
    """Demands that were tightened, in words; empty: none."""
    names = [one.of for one in differences if one.direction == "tightened"]
    return and_list(names) + f", since run {differences[0].run}" if names else ""


def _named(differences: Iterable[_Found], run: str) -> tuple[AskedOtherwise, ...]:
    return tuple(
        AskedOtherwise(run=run, of=one.of, before=one.before, after=one.after, direction=one.direction)
        for one in differences
    )


def _checks(before: Record, after: Record) -> Iterator[_Found]:
    ours, theirs = ({one.id: one for one in record.checks} for record in (before, after))
    for name, check in ours.items():
        if name in theirs:
            yield from _tests(check, theirs[name])
        elif check.tests:
            yield _Found(name, plural(len(check.tests), "requirement"), "", "loosened")
    for name, check in theirs.items():
        if name not in ours and check.tests:
            yield _Found(name, "", plural(len(check.tests), "requirement"), "tightened")


def _tests(before: CheckRecord, after: CheckRecord) -> Iterator[_Found]:
    ours, theirs = ({test.name: test for test in check.tests} for check in (before, after))
    for name, test in ours.items():
        if name not in theirs:
            yield _Found(name, as_asked(test), "", "loosened")
            continue
        way = moved(test, theirs[name])
        if way is not None:
            yield _Found(name, as_asked(test), as_asked(theirs[name]), way)
    for name, test in theirs.items():
        if name not in ours:
            yield _Found(name, "", as_asked(test), "tightened")


def as_asked(test: _Asking) -> str:
    """A requirement as the spec says it, and that it only warns."""
    return f"`{test.sentence}`" + (" (warns)" if test.severity == "warn" else "")


def moved(before: _Asking, after: _Asking) -> Direction | None:
    """Direction in which a requirement moved, by what it asks; None: it asks the same."""
    ways: set[Direction] = set()
    if before.severity != after.severity:
        ways.add("tightened" if after.severity == "require" else "loosened")
    limit = _limit(before, after)
    if limit is not None:
        ways.add(limit)
    return None if not ways else ways.pop() if len(ways) == 1 else "changed"


def _limit(before: _Asking, after: _Asking) -> Direction | None:
    if before.unit != after.unit or before.op[0] != after.op[0]:
        return "changed"
    if before.threshold == after.threshold:
        if before.op == after.op:
            return None
        return "loosened" if after.op.endswith("=") else "tightened"
    if before.op == "==":
        return "changed"
    rises = after.threshold > before.threshold
    return "loosened" if rises == (before.op[0] == "<") else "tightened"


def _set_aside(
    what: str, before: Sequence[Waiver] | Sequence[Without], after: Sequence[Waiver] | Sequence[Without]
) -> Iterator[_Found]:
    """Waivers and their like: one more, or a later last day, asks less."""
    ours, theirs = ({one.of: one.expires or "" for one in many} for many in (before, after))
    for name in {**ours, **theirs}:
        old, new = (_until(many[name]) if name in many else "" for many in (ours, theirs))
        if old == new:
            continue
        later = not old or (bool(new) and (not theirs[name] or (bool(ours[name]) and theirs[name] > ours[name])))
        yield _Found(what + name, old, new, "loosened" if later else "tightened")


def _until(day: str) -> str:
    return f"until {day}" if day else "for good"


def _profile(before: Record, after: Record) -> Iterator[_Found]:
    old, new = before.profile, after.profile
    if old is not None and new is None:
        yield _Found("profile", old.name, "", "loosened")
    elif old is None and new is not None:
        yield _Found("profile", "", new.name, "tightened")
    elif old is not None and new is not None and old.digest != new.digest:
        names = f"{old.name} {old.digest[:8]}", f"{new.name} {new.digest[:8]}"
        yield _Found("profile", *names, "changed")


def _policy(before: Record, after: Record) -> Iterator[_Found]:
    old, new = before.policy.model_dump(), after.policy.model_dump()
    for name in {**old, **new}:
        ours, theirs = old.get(name), new.get(name)
        if ours == theirs:
            continue
        way: Direction = "changed"
        if name == "inconclusive":
            way = "loosened" if theirs == "allow" else "tightened"
        elif name == "screens":
            way = "loosened" if STRICTNESS.index(str(theirs)) < STRICTNESS.index(str(ours)) else "tightened"
        elif name in STRICTER_WHEN_LARGER and isinstance(ours, int | float) and isinstance(theirs, int | float):
            way = "tightened" if (theirs > ours) == STRICTER_WHEN_LARGER[name] else "loosened"
        yield _Found(f"policy.{name}", _text(ours), _text(theirs), way)


def _differing(of: str, old: Mapping[str, object], new: Mapping[str, object], keys: Iterable[str]) -> Iterator[_Found]:
    for key in keys:
        if old.get(key) != new.get(key):
            before, after = (_text(one[key]) if key in one else "" for one in (old, new))
            name = f"{of} {key}" if of == "slice" else f"{of}.{key}"
            yield _Found(name, before, after, "changed")


def _text(value: object) -> str:
    return shortly(as_text(value))
