"""The documentation of checks, kinds of model and kinds of dataset, made from their own classes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic.fields import FieldInfo

from evalspec.evidence.metric import Metric
from evalspec.language.docstring import first_line, text_of
from evalspec.language.parts import Check, Part
from evalspec.language.registry import Registry, discover

COMMON = frozenset(Check.model_fields)
"""Fields that every check has; documented once."""
WIDTH = 100
EXAMPLE = "Example"
"""Heading of the section that a reader sees first."""


def listing() -> list[str]:
    """All checks, a line each, by dimension."""
    registry = discover()
    classes = [registry.check(kind) for kind in registry.kinds("checks")]
    lines: list[str] = []
    for dimension in ("system", "model", "data"):
        lines.append(dimension)
        for check in classes:
            if check.dimension == dimension:
                lines.append(f"  {kind_of(check):<17} {first_line(check)}")
    lines.append("kinds of model    " + ", ".join(registry.kinds("runtimes")))
    lines.append("kinds of dataset  " + ", ".join(registry.kinds("sources")))
    lines.append("kinds of training " + ", ".join(registry.kinds("trainings")))
    lines.append("evalspec checks NAME prints one check's fields, metrics, method and limits.")
    return lines


def document(name: str) -> list[str]:
    """The documentation of one check.

    Raises:
        SpecError: There is none of this name.
    """
    check = discover().check(name)
    first, *sections = re.split(r"^## ", text_of(check), flags=re.MULTILINE)
    sections.sort(key=lambda section: not section.startswith(EXAMPLE))
    example, *others = (section.rstrip() for section in sections)
    lines = [f"{name} ({check.dimension})", "", *first.rstrip().splitlines(), "", *example.splitlines(), "", "Metrics"]
    lines += [line for metric in check.metrics for line in _wrapped(_metric(metric))]
    lines += ["", "Fields"]
    for key, about in _fields(check):
        lines += _wrapped(f"{key} ({_default(about)}): {about.description or ''}")
    lines.append("  and the fields of every check: id, model, require, warn, slo, sla, report_only, why, owner")
    lines += [line for section in others for line in ("", *section.splitlines())]
    lines += ["", "How each interval is computed"]
    lines += [line for metric in check.metrics for line in _wrapped(f"{metric.name}: {_how(metric)}")]
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def markdown(name: str, registry: Registry, schema: Mapping[str, Any]) -> str:
    """The documentation of one check as a page in Markdown.

    Args:
        name: The check's kind.
        registry: Where it is looked up.
        schema: Of specs, by `evalspec.loading.schema.spec_schema`.

    Raises:
        SpecError: There is none of this name.
    """
    check = registry.check(name)
    text = text_of(check)
    # A list of checks stands under its dimension; the comment tells a reader of the page's source, and the tests.
    text = text.replace("```yaml\n- ", f"<!-- fragment: {check.dimension} -->\n```yaml\n- ")
    text = text.replace("```yaml\ndata:", "<!-- fragment -->\n```yaml\ndata:")
    text = re.sub(r"^(## .*)\n(?!\n)", r"\1\n\n", text, flags=re.MULTILINE)
    described = dict(_fields(check))
    metrics = [_row(_signature(one), one.unit, one.better, _how(one), one.summary) for one in check.metrics]
    shown = _shown(schema["$defs"], f"checks.{name}")
    fields = [_row(f"`{key}`", *_field(about, described[key])) for key, about in shown]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"A `{check.dimension}` check. Fields that every check has: [spec.md](../spec.md#checks).",
            "",
            text,
            "",
            "## Metrics",
            "",
            "| metric | unit | better | interval | what it is |",
            "|---|---|---|---|---|",
            *metrics,
            "",
            "## Fields",
            "",
            "| field | values | default | what it is |",
            "|---|---|---|---|",
            *fields,
            "",
        ]
    )


def values_of(about: Mapping[str, Any]) -> str:
    """Values that a field may have, in words, from its JSON Schema."""
    if "const" in about:
        return f"`{about['const']}`"
    if "enum" in about:
        return ", ".join(f"`{value}`" for value in about["enum"])
    if "$ref" in about:
        return "a mapping"
    if "anyOf" in about:
        return _any_of(about)
    if about.get("type") == "array":
        return f"list of {values_of(about.get('items', {}))}"
    word = {"integer": "whole number", "number": "number", "boolean": "true, false", "object": "a mapping"}
    return word.get(str(about.get("type")), "text") + _bounds(about)


def _any_of(about: Mapping[str, Any]) -> str:
    if about.get("examples"):
        return f"a quantity: `{about['examples'][0]}`"
    members = [one for one in about["anyOf"] if one.get("type") != "null"]
    return " or ".join(dict.fromkeys(values_of(one) for one in members))


def _bounds(about: Mapping[str, Any]) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    found = [f"{word} {about[key]:g}" for key, word in words.items() if key in about]
    return f", {', '.join(found)}" if found else ""


def _fields(part: type[Part], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Fields of a part and of the parts in it, by key: ``arrivals``, ``arrivals.kind``."""
    for field, about in part.model_fields.items():
        key = about.alias or field
        if not prefix and key in COMMON:
            continue
        yield prefix + key, about
        for inner in (about.annotation, *get_args(about.annotation)):
            if isinstance(inner, type) and issubclass(inner, Part):
                yield from _fields(inner, f"{prefix}{key}.")


def _shown(schema: Mapping[str, Any], name: str, prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The same from the JSON Schema."""
    for key, about in schema[name]["properties"].items():
        if not prefix and key in COMMON:
            continue
        yield prefix + key, about
        for one in (about, *about.get("anyOf", ())):
            if "$ref" in one:
                yield from _shown(schema, str(one["$ref"]).rpartition("/")[2], f"{prefix}{key}.")


def _default(about: FieldInfo) -> str:
    if about.is_required():
        return "required"
    default = about.get_default(call_default_factory=True)
    return "a mapping" if isinstance(default, Part) else f"default {default!r}"


def _field(about: Mapping[str, Any], field: FieldInfo) -> tuple[str, str, str]:
    default = about.get("default")
    shown = "required" if field.is_required() else "" if default in (None, []) else f"`{default}`"
    words = shown.replace("`True`", "`true`").replace("`False`", "`false`")
    return values_of(about), words, field.description or ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _signature(metric: Metric) -> str:
    return f"`{metric.name}({metric.parts})`" if metric.parts else f"`{metric.name}`"


def _how(metric: Metric) -> str:
    return "exact" if metric.exact else metric.interval or "none: shown only"


def to_json(name: str | None) -> list[dict[str, Any]]:
    """One check, or all, for machines.

    Raises:
        SpecError: There is none of this name.
    """
    registry = discover()
    kinds = registry.kinds("checks") if name is None else (name,)
    return [_as_dict(registry.check(kind)) for kind in kinds]


def kind_of(check: type[Check]) -> str:
    """A check's kind."""
    return str(check.model_fields["check"].default)


def _metric(metric: Metric) -> str:
    better = {"lower": "lower is better", "higher": "higher is better", "neither": "no direction"}[metric.better]
    return f"{_signature(metric).strip('`')} [{metric.unit}, {better}]: {metric.summary}"


def _as_dict(check: type[Check]) -> dict[str, Any]:
    return {
        "check": kind_of(check),
        "dimension": check.dimension,
        "summary": first_line(check),
        "documentation": text_of(check),
        "metrics": [
            {
                "name": metric.name,
                "unit": metric.unit,
                "better": metric.better,
                "summary": metric.summary,
                "parts": metric.parts,
                "interval": metric.interval or None,
                "exact": metric.exact,
            }
            for metric in check.metrics
        ],
        "fields": {
            (about.alias or field): about.description
            for field, about in check.model_fields.items()
            if (about.alias or field) not in COMMON
        },
    }
