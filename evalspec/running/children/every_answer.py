"""Every answer that a language model gives to a row: by each template of its prompt, each sample, each order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from evalspec.language.inputs import FIRST, Variant

if TYPE_CHECKING:
    from evalspec.answers.file import Answers
    from evalspec.language.parts import Model

FAILED = ("requests_failed", "requests_failed_how")
"""Facts that count from the first request of a process on."""


def variants(model: Model) -> list[list[Variant]]:
    """Template after template: all ways in which a row is asked by it, those that ship first.

    Options are shown in several orders, texts are drawn several times.
    """
    ways = [{"order": order} for order in range(model.orders)]
    if model.chooses is None:
        ways = [{"sample": sample} for sample in range(model.samples)]
    return [[Variant(template=template, **one) for one in ways] for template in range(model.templates)]


def with_others(first: Answers, model: Model, ask: Callable[[Variant, str], Answers]) -> Answers:
    """The answers that ship, with all others to the same rows.

    Args:
        first: Those that ship.
        model: As the spec has it.
        ask: Asks all rows once more; the text says in which way.
    """
    every = variants(model)
    count = sum(map(len, every))
    made: list[list[Answers]] = []
    for ways in every:
        done = sum(map(len, made))
        said = [f"way {done + at + 1} of {count} to ask" for at in range(len(ways))]
        made.append([first if one == FIRST else ask(one, text) for one, text in zip(ways, said, strict=True)])
    last = made[-1][-1].details
    first = replace(first, details={**first.details, **{name: last[name] for name in FAILED if name in last}})
    by_template = [replace(one, again=tuple(others)) for one, *others in [[first, *made[0][1:]], *made[1:]]]
    return replace(by_template[0], by_template=tuple(by_template[1:]))
