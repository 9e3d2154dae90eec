"""JSON Schemas, made from the classes that validate: of a spec, for editors, and of a record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from evalspec.errors import Problem, SpecError
from evalspec.evidence.attestation import Statement
from evalspec.evidence.model_card import EvalResults
from evalspec.evidence.monitoring import Monitoring
from evalspec.evidence.record import RECORD_VERSION, Record
from evalspec.language.parts import Part
from evalspec.language.registry import DIMENSIONS, Group, Registry
from evalspec.loading.profile import profile_names
from evalspec.loading.spec import SpecFields

SPEC_VERSION = 1
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NAME = r"^[a-z][a-z0-9_]*$"
_DIMENSION_WORDS = {
    "system": "Checks of the system that serves the model.",
    "model": "Checks of the model itself.",
    "data": "Checks of the data that it was judged on.",
}


def spec_schema(registry: Registry) -> dict[str, Any]:
    """The JSON Schema of a spec with every kind of a registry.

    An editor completes checks, their fields and the beginnings of requirement sentences from it. What depends on
    other parts of a spec (names, columns, units against metrics) is left to `evalspec.loading.load`.
    """
    definitions: dict[str, Any] = {}
    top = _inlined(SpecFields, definitions, "spec")
    properties = top["properties"]
    properties["models"] = _named(
        "runtimes", "The models under test, by name.", registry, registry.runtime, definitions
    )
    properties["datasets"] = _named("sources", "The datasets, by name.", registry, registry.source, definitions)
    properties["trainings"] = _named(
        "trainings", "Logs of training runs, by name.", registry, registry.training, definitions
    )
    for dimension in DIMENSIONS:
        properties[dimension] = _dimension(dimension, registry, definitions)
    properties["profile"]["examples"] = list(profile_names())
    order = ["evalspec", "name", "seed", "models", "datasets", "trainings", "slices", *DIMENSIONS]
    top["properties"] = {key: properties[key] for key in (*order, *(key for key in properties if key not in order))}
    return {
        "$schema": DIALECT,
        "$id": f"spec.v{SPEC_VERSION}.json",
        "title": "An evalspec spec",
        **{key: top[key] for key in ("description", "type", "required", "additionalProperties", "properties")},
        "$defs": dict(sorted(definitions.items())),
    }


def record_schema() -> dict[str, Any]:
    """The JSON Schema of ``record.json``."""
    schema: dict[str, Any] = _tidy(Record.model_json_schema(mode="serialization"))
    return {"$schema": DIALECT, "$id": f"record.v{RECORD_VERSION}.json", **schema, "title": "An evalspec record"}


def monitoring_schema() -> dict[str, Any]:
    """The JSON Schema of ``monitoring.json``."""
    schema: dict[str, Any] = _tidy(Monitoring.model_json_schema(mode="serialization"))
    return {"$schema": DIALECT, "$id": "monitoring.v1.json", **schema, "title": "Limits for monitoring production"}


def model_card_schema() -> dict[str, Any]:
    """The JSON Schema of a file of ``.eval_results/``, as a run gives it."""
    schema: dict[str, Any] = _tidy(EvalResults.model_json_schema(mode="serialization"))
    return {"$schema": DIALECT, "$id": "model_card.v1.json", **schema, "title": "Scores for a model's page on its hub"}


def attestation_schema() -> dict[str, Any]:
    """The JSON Schema of what ``report --attestation`` prints."""
    schema: dict[str, Any] = _tidy(Statement.model_json_schema(mode="serialization"))
    return {"$schema": DIALECT, "$id": "attestation.v1.json", **schema, "title": "The verdict as an in-toto statement"}


def dump(schema: Mapping[str, Any]) -> str:
    """A schema as the text of a file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def save(text: str, path: Path) -> None:
    """Write a schema to a file.

    Raises:
        SpecError: It can't be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(Problem(f"can't be written: {error.strerror or error}", file=str(path))) from error


def _named(
    group: Group, description: str, registry: Registry, find: Callable[[str], type[Part]], definitions: dict[str, Any]
) -> dict[str, Any]:
    kinds = {kind: find(kind) for kind in registry.kinds(group)}
    return {
        "type": "object",
        "description": description,
        "propertyNames": {"pattern": _NAME},
        "additionalProperties": _tagged("kind", group, kinds, definitions),
    }


def _dimension(dimension: str, registry: Registry, definitions: dict[str, Any]) -> dict[str, Any]:
    kinds = {kind: registry.check(kind) for kind in registry.kinds("checks")}
    standing = {kind: part.under(dimension) for kind, part in kinds.items()}
    own = {kind: part for kind, part in standing.items() if part.dimension == dimension}
    return {
        "type": "array",
        "description": _DIMENSION_WORDS[dimension],
        "items": _tagged("check", "checks", own, definitions),
    }


def _tagged(tag: str, group: str, kinds: Mapping[str, type[Part]], definitions: dict[str, Any]) -> dict[str, Any]:
    """The tag first; then the one class that it names."""
    branches = []
    for kind, part in kinds.items():
        name = f"{group}.{kind}"
        # One that stands under several dimensions has other fields there.
        name = f"{name}.{getattr(part, 'dimension', '')}" if name in definitions else name
        schema = _inlined(part, definitions, name)
        schema["required"] = [tag, *(key for key in schema.get("required", ()) if key != tag)]
        # The docstring's first paragraph is what an editor shows beside the kind.
        schema["description"] = _first(part, kind)
        _share_sentence(schema, definitions, name)
        definitions[name] = schema
        branches.append(
            {"if": {"properties": {tag: {"const": kind}}, "required": [tag]}, "then": {"$ref": f"#/$defs/{name}"}}
        )
    if not kinds:
        return {"type": "object", "required": [tag], "properties": {tag: False}}
    choices = {"anyOf": [{"const": kind, "description": _first(part, kind)} for kind, part in kinds.items()]}
    return {"type": "object", "required": [tag], "properties": {tag: choices}, "allOf": branches}


def _first(part: type[Part], kind: str) -> str:
    return (part.__doc__ or kind).strip().partition("\n\n")[0].replace("\n    ", " ")


def _share_sentence(schema: dict[str, Any], definitions: dict[str, Any], name: str) -> None:
    """Put the sentences of a check into one definition, since several of its keys hold them."""
    properties = schema["properties"]
    if "slo" not in properties:
        return
    shared = f"{name}.sentence"
    definitions[shared] = {key: value for key, value in properties["slo"].items() if key != "description"}
    for key in ("require", "warn"):
        properties[key]["items"] = {"$ref": f"#/$defs/{shared}"}
    for key in ("slo", "sla"):
        properties[key] = {"$ref": f"#/$defs/{shared}", "description": properties[key]["description"]}


def _inlined(part: type[BaseModel], definitions: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema of a class; the definitions that it brings are added, once where several kinds share them."""
    group = name.partition(".")[0]
    schema, brought = _schema_of(part, group)
    if any(definitions.get(key, inner) != inner for key, inner in brought.items()):
        schema, brought = _schema_of(part, name)
    definitions.update(brought)
    return schema


def _schema_of(part: type[BaseModel], prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    schema: dict[str, Any] = _tidy(part.model_json_schema(by_alias=True, ref_template=f"#/$defs/{prefix}.{{model}}"))
    return schema, {f"{prefix}.{inner}": definition for inner, definition in schema.pop("$defs", {}).items()}


def _tidy(schema: Any) -> Any:
    """Without the titles that pydantic makes of field names, and with quantities as defaults where text is asked."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidied = {
        key: {name: _tidy(item) for name, item in value.items()}
        if key in ("properties", "$defs")
        else value
        if key in ("default", "examples", "enum", "const")
        else _tidy(value)
        for key, value in schema.items()
        if key not in ("title", "x-names")
    }
    return _with_unit(tidied)


def _with_unit(schema: dict[str, Any]) -> dict[str, Any]:
    default, examples = schema.get("default"), schema.get("examples")
    if isinstance(default, float) and examples and isinstance(examples[0], str) and " " in examples[0]:
        unit = examples[0].partition(" ")[2]
        return schema | {"default": f"{default * (100 if unit == '%' else 1):g} {unit}"}
    return schema
