from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.record import CheckRecord, DatasetRecord, Environment, ModelRecord, Policy, Record
from evalspec.evidence.test import Test
from evalspec.lineage.comparability import (
    FIELDS,
    NOT_SHOWN,
    apart,
    asked_unlike,
    comparability_key,
    holds_for,
    own_fields,
    unlike,
)

FACTS = {"cpu": "Xeon", "cores": 8, "gpu0_name": "H200", "gpu0_power_limit_W": 700.0}


def model(**changes: Any) -> ModelRecord:
    given = {
        "name": "candidate", "kind": "onnx", "digest": "ab" * 32, "precision": "int8", "device": "cpu",
        "preprocess": ("cast",), "preprocess_digest": "12" * 32,
        "details": {"framework": "onnxruntime 1.31", "threads": 1},
    }  # fmt: skip
    return ModelRecord(**(given | changes))


def check(**conditions: Any) -> CheckRecord:
    given = {"scenario": "single_stream", "batch": 1} | conditions
    return CheckRecord(
        id="latency", check="latency", dimension="system", status="measured", models=("candidate",),
        datasets=("test",), conditions=given,
    )  # fmt: skip


def record(**facts: Any) -> Record:
    return Record(
        evalspec="1", spec="s", spec_digest="d", spec_file="s.yaml", started="", finished="", seed=0, policy=Policy(),
        datasets=(DatasetRecord(name="test", kind="csv", digest="cd" * 32, rows=9),),
        environment=Environment(facts=FACTS | facts),
    )  # fmt: skip


def test_what_is_measured_alike_has_one_key() -> None:
    one, other = holds_for(record(), check(), model()), holds_for(record(), check(), model(digest="cd" * 32))
    assert unlike(one, other) == ()
    assert comparability_key(one) == comparability_key(other)


@pytest.mark.parametrize(
    ("field", "theirs"),
    [
        ("batch", (record(), check(batch=8), model())),
        ("precision", (record(), check(), model(precision="fp32"))),
        ("hardware", (record(cpu="EPYC"), check(), model())),
        ("scenario", (record(), check(scenario="offline"), model())),
        ("stages", (record(), check(), model(preprocess=("cast", "scale")))),
        ("framework", (record(), check(), model(details={"framework": "torch", "threads": 1}))),
        ("threads", (record(), check(), model(details={"framework": "onnxruntime 1.31", "threads": 2}))),
    ],
)
def test_the_field_that_differs_is_named(field: str, theirs: tuple[Record, CheckRecord, ModelRecord]) -> None:
    ours, other = holds_for(record(), check(), model()), holds_for(*theirs)
    assert unlike(ours, other) == (field,)
    assert comparability_key(ours) != comparability_key(other)


def test_other_shapes_of_input_are_other_data() -> None:
    """28 x 28 pixels against 224 x 224: another dataset digest, so not alike."""
    large = record().model_copy(
        update={"datasets": (DatasetRecord(name="test", kind="csv", digest="ef" * 32, rows=9),)}
    )
    assert unlike(holds_for(record(), check(), model()), holds_for(large, check(), model())) == ("dataset",)


def test_what_nobody_recorded_is_like_nothing() -> None:
    bare = holds_for(record(), check(), model(precision=None))
    assert bare["precision"] == NOT_SHOWN
    assert "precision" in unlike(bare, bare)


def test_a_power_limit_belongs_to_the_gpu_that_was_used() -> None:
    assert holds_for(record(), check(), model())["power limit"] == NOT_SHOWN
    on_gpu = holds_for(record(), check(), model(device="cuda:0"))
    assert (on_gpu["power limit"], "H200" in on_gpu["hardware"]) == ("700.0 W", True)


def test_every_field_has_words() -> None:
    assert tuple(holds_for(record(), check(), model())) == FIELDS


def asked(prompt: str, template: str | None = None) -> dict[str, str]:
    return {"prompt_digest": prompt * 64} | ({} if template is None else {"template_digest": template * 64})


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (asked("a", "b"), asked("a", "b"), ()),
        (asked("a", "b"), asked("a", "c"), ("chat template: bbbbbbbbbbbb, then cccccccccccc",)),
        (asked("a"), asked("b"), ("prompt: aaaaaaaaaaaa, then bbbbbbbbbbbb",)),
        (asked("a"), asked("a", "b"), ("chat template: not shown, then bbbbbbbbbbbb",)),
        ({}, {}, ()),
    ],
)
def test_prompt_and_chat_template_are_named_and_forbid_nothing(
    before: dict[str, str], after: dict[str, str], named: tuple[str, ...]
) -> None:
    test = Test(
        check="latency",
        unit="ms",
        name="latency/latency_p50",
        metric="latency_p50",
        sentence="s",
        op="<=",
        threshold=1.0,
    )
    fields = [
        own_fields(record().model_copy(update={"models": (model(details=one),)}), check(), test)
        for one in (before, after)
    ]
    found = apart("model", *fields)
    assert (found.forbids, found.named) == ((), named)


def test_models_that_were_not_asked_alike_are_told() -> None:
    models = (model(details=asked("a", "b")), model(name="baseline", details=asked("a", "c")))
    held = check().model_copy(update={"models": ("candidate", "baseline"), "baseline_models": ("baseline",)})
    whole = record().model_copy(update={"models": models, "checks": (held,)})
    assert asked_unlike(whole) == (
        "latency: candidate and baseline differ in chat template, so a difference between them is not due to "
        "the model alone",
    )
    alike = whole.model_copy(update={"models": (models[0], model(name="baseline", details=asked("a", "b")))})
    unknown = whole.model_copy(update={"models": (models[0], model(name="baseline", details=asked("a")))})
    assert asked_unlike(alike) == asked_unlike(unknown) == ()


def test_what_a_number_was_counted_over_must_be_alike() -> None:
    """A condition that is called as a metric is; records from before say nothing of it."""
    rows = Test(name="integrity/rows", check="integrity", metric="rows", sentence="rows == 0", op="==", threshold=0.0,
                unit="rows")  # fmt: skip
    before = CheckRecord(id="integrity", check="integrity", dimension="data", status="measured", datasets=("test",))
    after = before.model_copy(update={"conditions": {"rows": "all columns but the key 'id'"}})
    fields = [own_fields(record(), one, rows) for one in (before, after)]
    assert apart("data", *fields).forbids == ("counted over: not shown, then all columns but the key 'id'",)
    assert apart("data", fields[1], fields[1]).forbids == ()
