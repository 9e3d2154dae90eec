"""A check of a language model whose prompt puts the question in several ways: measured by each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evalspec.errors import InputError, InvalidError, NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.names import template_name
from evalspec.language.parts import Check, CheckResult
from evalspec.running.requirements import measured_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from evalspec.evidence.frozen import Cell
    from evalspec.running.children.inputs import RunInputs


def over_templates(check: Check, inputs: RunInputs, measured: Callable[[], CheckResult]) -> CheckResult:
    """The check's result for the template that ships, with those for the others beside it.

    Args:
        check: The check.
        inputs: Where answers come from.
        measured: Runs the check on these inputs, as they answer then.

    Raises:
        NotRunError: It does not run for one of them.
        InvalidError: What one of them gives is no answer.
        InputError: Answers by one of them can't be used.
    """
    count = inputs.model_facts().get("templates") if check.each_template else 1
    if not isinstance(count, int) or count < 2:
        return measured()
    results: dict[str, CheckResult] = {}
    # Backwards: a file that the check writes is then that of the template that ships.
    for place in range(count - 1, -1, -1):
        name = template_name(place)
        inputs.ask_by(place)
        try:
            results[name] = measured()
        except (NotRunError, InvalidError, InputError) as error:
            raise type(error)(f"{name} of {check.model}: {error}") from error
    first = results.pop(template_name(0))
    others = {name: results[name] for name in reversed(results)}
    told = [f"{name}: {sentence}" for name, one in others.items() for sentence in one.weakens]
    whole = replace(first, by_template=others, weakens=(*first.weakens, *told))
    return replace(whole, blocks=(_table(check, first, others), *first.blocks))


def _table(check: Check, first: CheckResult, others: dict[str, CheckResult]) -> Table:
    """Values of all metrics without a part, template by template."""
    values, units = measured_values(check, first)
    columns = [Column(name="metric"), *(Column(name=name) for name in (template_name(0), *others)), Column(name="unit")]
    theirs = {name: measured_values(check, one)[0] for name, one in others.items()}
    lines: list[tuple[Cell, ...]] = [
        (name, value, *(theirs[other].get(name) for other in others), units[name])
        for name, value in values.items()
        if name not in check.between_templates and "(" not in name
    ]
    caption = "Each of them must meet the requirements; the first one ships."
    return Table(title="By template", caption=caption, columns=tuple(columns), rows=tuple(lines))
