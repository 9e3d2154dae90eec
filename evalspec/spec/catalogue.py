"""The documentation of checks, kinds of model and kinds of dataset, made from their own classes."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check
from evalspec.language.registry import discover

COMMON = frozenset(("check", "id", "model", "require", "warn", "slo", "sla", "report_only", "why", "owner"))
"""Fields that every check has; documented once."""
WIDTH = 100


def listing() -> list[str]:
    """All checks, a line each, by dimension."""
    registry = discover()
    classes = [registry.check(kind) for kind in registry.kinds("checks")]
    lines: list[str] = []
    for dimension in ("system", "model", "data"):
        lines.append(dimension)
        for check in classes:
            if check.dimension == dimension:
                lines.append(f"  {kind_of(check):<15} {first_line(check)}")
    lines.append("kinds of model    " + ", ".join(registry.kinds("runtimes")))
    lines.append("kinds of dataset  " + ", ".join(registry.kinds("sources")))
    lines.append("evalspec checks NAME prints one check's fields, metrics, method and limits.")
    return lines


def document(name: str) -> list[str]:
    """The documentation of one check.

    Raises:
        SpecError: There is none of this name.
    """
    check = discover().check(name)
    lines = [f"{name} ({check.dimension})", "", *inspect.cleandoc(check.__doc__ or "").splitlines(), "", "## Metrics"]
    lines += [_metric(metric) for metric in check.metrics]
    lines += ["", "## Fields"]
    for field, about in check.model_fields.items():
        key = about.alias or field
        if key in COMMON:
            continue
        default = "required" if about.is_required() else f"default {about.get_default(call_default_factory=True)!r}"
        text = f"{key} ({default}): {about.description or ''}"
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    lines.append("  and those of every check: id, model, require, warn, slo, sla, report_only, why, owner")
    return lines


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


def first_line(check: type[Check]) -> str:
    """What a check is, in one line."""
    return inspect.cleandoc(check.__doc__ or "").partition("\n")[0]


def _metric(metric: Metric) -> str:
    name = f"{metric.name}({metric.parts})" if metric.parts else metric.name
    better = {"lower": "lower is better", "higher": "higher is better", "neither": "no direction"}[metric.better]
    how = "exact" if metric.exact else metric.interval
    return f"  {name} [{metric.unit}, {better}; {how}]: {metric.summary}"


def _as_dict(check: type[Check]) -> dict[str, Any]:
    return {
        "check": kind_of(check),
        "dimension": check.dimension,
        "summary": first_line(check),
        "documentation": inspect.cleandoc(check.__doc__ or ""),
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
