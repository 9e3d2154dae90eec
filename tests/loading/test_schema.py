from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from evalspec.evidence.policy import Policy
from evalspec.evidence.record import Record
from evalspec.language.registry import Registry, discover
from evalspec.language.yaml import read_text
from evalspec.loading.schema import (
    attestation_schema,
    dump,
    model_card_schema,
    monitoring_schema,
    record_schema,
    spec_schema,
)
from tests.loading.doubles import REGISTRY, SPEC

SCHEMAS = Path(__file__).parents[2] / "schemas"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return spec_schema(REGISTRY)


def errors(schema: dict[str, Any], text: str) -> list[str]:
    return [error.message for error in Draft202012Validator(schema).iter_errors(read_text(text, "s").value)]


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("spec", ""),
        ("record", " --record"),
        ("monitoring", " --monitoring"),
        ("model_card", " --model-card"),
        ("attestation", " --attestation"),
    ],
)
def test_the_committed_schema_is_that_of_the_classes(name: str, option: str) -> None:
    schemas = {
        "record": record_schema,
        "monitoring": monitoring_schema,
        "model_card": model_card_schema,
        "attestation": attestation_schema,
    }
    made = dump(schemas[name]() if name in schemas else spec_schema(discover(plugins=False)))
    name = f"{name}.v1.json"
    assert (SCHEMAS / name).read_text(encoding="utf-8") == made, (
        f"run: python -m evalspec schema{option} --no-plugins --output schemas/{name}"
    )


@pytest.mark.proof
def test_schemas_are_schemas() -> None:
    for one in (
        spec_schema(discover(plugins=False)),
        record_schema(),
        monitoring_schema(),
        model_card_schema(),
        attestation_schema(),
        spec_schema(Registry({}, {}, {})),
    ):
        Draft202012Validator.check_schema(one)


def test_every_kind_is_in_the_schema() -> None:
    registry = discover(plugins=False)
    definitions = spec_schema(registry)["$defs"]
    for group in ("checks", "runtimes", "sources"):
        for kind in registry.kinds(group):
            assert f"{group}.{kind}" in definitions
            fields = definitions[f"{group}.{kind}"]["properties"]
            undescribed = [key for key, field in fields.items() if not (field.get("description") or "const" in field)]
            assert not undescribed, f"{group}.{kind} has fields without a description: {undescribed}"


def test_a_right_spec_fits(schema: dict[str, Any]) -> None:
    assert errors(schema, SPEC) == []


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("name: demo", "name: Demo"),
        ("name: demo", "nam: demo"),
        ("evalspec: 1", "evalspec: 2"),
        ("kind: file", "kind: fil"),
        ("path: old.bin", "pth: old.bin"),
        ("check: score", "check: timing"),
        ("duration: 10 s", "duration: 10"),
        ("duration: 10 s", "duraton: 10 s"),
        ("accuracy >= 90 %", "acuracy >= 90 %"),
        ("accuracy >= 90 %", "latency_p99 <= 5 ms"),
        ("dataset: test\n    require", "require"),
        ("train: [train]", "train: train"),
        ("test: test\n", "test: test\n    model: candidate\n"),
        ("  baseline:", "  Base:"),
    ],
)
def test_what_an_editor_can_know_is_refused(schema: dict[str, Any], written: str, instead: str) -> None:
    text = SPEC.replace(written, instead, 1)
    assert text != SPEC
    assert errors(schema, text)


def test_an_editor_completes_kinds_fields_and_sentences(schema: dict[str, Any]) -> None:
    entry = schema["properties"]["model"]["items"]
    assert [choice["const"] for choice in entry["properties"]["check"]["anyOf"]] == ["score"]
    (branch,) = entry["allOf"]
    assert branch["then"] == {"$ref": "#/$defs/checks.score"}
    check = schema["$defs"]["checks.score"]
    assert check["description"] == "How often a model is right."
    assert check["required"] == ["check", "dataset"]
    sentence = check["properties"]["require"]["items"]["$ref"].removeprefix("#/$defs/")
    assert schema["$defs"][sentence]["anyOf"][0]["enum"] == ["accuracy >= ", "accuracy(", "ece <= ", "mae <= "]


def test_quantities_show_their_unit(schema: dict[str, Any]) -> None:
    duration = schema["$defs"]["checks.timing"]["properties"]["duration"]
    assert (duration["default"], duration["examples"]) == ("60 s", ["60 s"])


def test_a_record_fits_its_schema() -> None:
    record = Record(
        evalspec="0", spec="x", spec_digest="d", spec_file="f", started="s", finished="f", seed=0, policy=Policy()
    )
    Draft202012Validator(record_schema()).validate(json.loads(record.model_dump_json()))
