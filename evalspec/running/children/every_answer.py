"""Every answer that a language model gives to a row: by each template of its prompt, each sample, each order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from evalspec.language.inputs import FIRST, Variant

if TYPE_CHECKING:
    from evalspec.answers.file import Answers
    from evalspec.language.parts import Model

FAILED = ("requests_failed", "requests_failed_how")
"""Facts that count from the first request of a process on."""


def chosen(model: Model, template: int) -> list[Variant]:
    """Ways in which a row is asked by one template, the one that ships first: orders of options, or samples."""
    if model.chooses is None:
        return [Variant(template=template, sample=sample) for sample in range(model.samples)]
    return [Variant(template=template, order=order) for order in range(model.orders)]


def written(model: Model, template: int) -> list[Variant]:
    """Ways in which a model that chooses is asked for a text beside; none where it writes none."""
    if model.chooses is None or not model.writes_texts:
        return []
    return [Variant(template=template, sample=sample, writes=True) for sample in range(model.samples)]


def with_others(first: Answers, model: Model, ask: Callable[[Variant, str], Answers]) -> Answers:
    """The answers that ship, with all others to the same rows.

    Args:
        first: Those that ship.
        model: As the spec has it.
        ask: Asks all rows once more; the text says in which way.
    """
    ways = [(chosen(model, template), written(model, template)) for template in range(model.templates)]
    every = list(chain.from_iterable((*answers, *texts) for answers, texts in ways))
    made = {
        one: first if one == FIRST else ask(one, f"way {at + 1} of {len(every)} to ask") for at, one in enumerate(every)
    }
    last = made[every[-1]].details
    made[FIRST] = replace(first, details={**first.details, **{name: last[name] for name in FAILED if name in last}})
    by_template = [
        replace(_joined(answers, made), written=_joined(texts, made) if texts else None) for answers, texts in ways
    ]
    return replace(by_template[0], by_template=tuple(by_template[1:]))


def _joined(ways: list[Variant], made: dict[Variant, Answers]) -> Answers:
    first, *further = [made[one] for one in ways]
    return replace(first, again=tuple(further))
