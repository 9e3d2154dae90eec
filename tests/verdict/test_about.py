"""F15: what is to ship and was not judged weakens the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.policy import Waiver
from evalspec.evidence.record import ModelRecord, Record
from evalspec.verdict import decide
from tests.verdict.test_decide import a_check, a_record, a_test


def weakened(record: Record) -> tuple[str, ...]:
    verdict = decide(record)
    assert verdict.word == "READY"
    return tuple(line for line in verdict.weakened if "about" in line)


def passing(check: str, *models: str, severity: Any = "require", dimension: Any = "model", **fields: Any) -> Any:
    one = a_check(a_test(check, severity=severity), id=check, dimension=dimension)
    return one.model_copy(update={"models": models, **fields})


def of(*checks: Any, named: tuple[str, ...] = (), **fields: Any) -> Record:
    used = {name for check in checks for name in check.models}
    models = tuple(ModelRecord(name=name, kind="onnx", digest=name) for name in sorted(used))
    return a_record(*checks, models=models, models_named=named, subject="s", **fields)


NOBODY = "no blocking requirement is about candidate, which the spec names: they are about {}"


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (of(passing("quality", "other"), named=("candidate", "other")), NOBODY.format("other")),
        (
            of(passing("quality", "other"), passing("latency", "candidate", severity="warn"), named=("candidate",)),
            NOBODY.format("other"),
        ),
        (
            of(passing("quality", "other", "candidate", baseline_models=("candidate",)), named=("candidate",)),
            NOBODY.format("other"),
        ),
        (
            of(passing("leakage", dimension="data"), named=("candidate",)),
            NOBODY.format("data alone"),
        ),
        # Records from before the spec's models were recorded.
        (of(passing("quality", "other"), passing("latency", "candidate", severity="warn")), NOBODY.format("other")),
        (
            of(passing("quality", "one"), passing("speed", "two"), named=("one", "two")),
            "the requirements are about several models (one, two), and only one of them is the subject",
        ),
    ],
)
def test_f15_a_candidate_that_no_requirement_is_about_weakens(record: Record, said: str) -> None:
    assert weakened(record) == (said,)


def test_f15_one_whose_only_requirement_is_waived_was_not_judged() -> None:
    waiver = Waiver(of="speed/accuracy", why="later", owner="me", expires="2099-01-01")
    record = of(passing("quality", "other"), passing("speed", "candidate"), named=("candidate",), waivers=(waiver,))
    assert NOBODY.format("other") in weakened(record)


def test_a_candidate_that_was_judged_or_is_not_there_weakens_nothing() -> None:
    assert weakened(of(passing("quality", "candidate"), named=("candidate", "other"))) == ()
    assert weakened(of(passing("quality", "mine"), named=("mine",))) == ()
