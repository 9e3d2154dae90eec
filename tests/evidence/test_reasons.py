from __future__ import annotations

import json
import pickle

import pytest

from evalspec.evidence.reasons import (
    BySurroundings,
    Cause,
    EasedOff,
    NoEvidence,
    OnlyWorse,
    Reason,
    beginning,
    cause_of,
    either_way,
    gravest,
    only_worse,
)

BUSY = BySurroundings("other processes used 91% of it", Cause.OTHER_WORK)


def test_a_reason_is_its_sentence_with_a_cause() -> None:
    reason = Reason("answers come from a cache", Cause.CACHE)
    assert reason == "answers come from a cache" and reason.cause == Cause.CACHE
    assert json.dumps({"invalid": reason}) == '{"invalid": "answers come from a cache"}'
    assert Reason("so").cause == ""


@pytest.mark.parametrize("kind", [Reason, BySurroundings, OnlyWorse, EasedOff, NoEvidence])
def test_kind_and_cause_survive_the_way_to_another_process(kind: type[Reason]) -> None:
    back = pickle.loads(pickle.dumps(kind("text", Cause.CACHE)))
    assert (type(back), back, back.cause) == (kind, "text", Cause.CACHE)


def test_the_cause_stays_whatever_becomes_of_the_reason() -> None:
    worse = only_worse(BUSY)
    assert isinstance(worse, OnlyWorse) and worse.cause == Cause.OTHER_WORK
    ratio = either_way(worse)
    assert type(ratio) is BySurroundings and ratio.cause == Cause.OTHER_WORK
    part = beginning("batch 8: ", worse)
    assert isinstance(part, OnlyWorse) and part == "batch 8: other processes used 91% of it"
    assert cause_of(part) == Cause.OTHER_WORK
    eased = EasedOff("it eased off", Cause.OTHER_WORK)
    assert only_worse(eased) is eased
    assert gravest(worse, BUSY) is BUSY


def test_a_plain_sentence_stays_one() -> None:
    assert type(beginning("a: ", "so")) is str and beginning("a: ", "so") == "a: so"
    assert only_worse("so") == either_way("so") == "so" and only_worse(None) is None


def test_the_first_reason_that_is_given_has_the_cause() -> None:
    assert cause_of(None, BUSY, Reason("b", Cause.CACHE)) == Cause.OTHER_WORK
    # What is behind a later one says nothing of the first.
    assert cause_of("no cause", BUSY) == "" and cause_of(None) == cause_of() == ""
