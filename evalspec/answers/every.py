"""All answers that a model gives to the same rows: further samples, further orders of options, further templates."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import NotRunError
from evalspec.language.inputs import Predictions

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def all_answers(answers: Predictions) -> Predictions:
    """Those that ship, and below them all further ones; a row is a cluster.

    ``asked`` says how many there are to each row; the answers to a row stand ``n / asked`` apart.

    Args:
        answers: With further ones in ``again``, or without.
    """
    every = (answers, *answers.again)
    if len(every) == 1:
        return answers
    clusters = np.arange(answers.n) if answers.clusters is None else answers.clusters
    joined: dict[str, Any] = {}
    for field in fields(answers):
        arrays = [getattr(one, field.name) for one in every]
        if all(isinstance(array, np.ndarray) for array in arrays):
            joined[field.name] = np.concatenate(arrays)
    joined |= {"clusters": np.tile(clusters, len(every)), "n": answers.n * len(every)}
    return replace(answers, **joined, again=(), written=None, asked=len(every))


def of_template(answers: Predictions, template: int) -> Predictions:
    """Answers by one template of the prompt; of a model with one, these.

    Args:
        answers: By the first, with all others.
        template: Place in the prompt's list.

    Raises:
        NotRunError: There is no such template.
    """
    if template == 0 or not answers.by_template:
        return answers
    if template > len(answers.by_template):
        raise NotRunError(
            f"{answers.model} has {1 + len(answers.by_template)} templates, and number {template + 1} is needed; "
            "give both models the same number of templates, or one of them a single one"
        )
    return answers.by_template[template - 1]


def with_clusters(answers: Predictions, clusters: NDArray[np.int64] | None) -> Predictions:
    """The same, all sets of answers with these clusters.

    Args:
        answers: With further ones.
        clusters: shape (n,), or None.
    """
    return each_set(answers, lambda one: replace(one, clusters=clusters))


def as_often(answers: Predictions, times: int) -> Predictions:
    """All answers, so many to each row: of a model that was asked once, its one answer so many times.

    Args:
        answers: With further ones, or without.
        times: Answers of the model that these are set beside.

    Raises:
        NotRunError: There is another number of them.
    """
    if not answers.again:
        return all_answers(replace(answers, again=(answers,) * (times - 1)))
    if 1 + len(answers.again) != times:
        raise NotRunError(
            f"{answers.model} gives {1 + len(answers.again)} answers to each row, and the other model {times}: "
            "give both the same `orders` and `samples`, or make the other model give one answer"
        )
    return all_answers(answers)


def each_set(answers: Predictions, change: Callable[[Predictions], Predictions]) -> Predictions:
    """The same with a change to every set of answers: samples, orders, templates.

    Args:
        answers: With further ones, or without.
        change: Of one set.
    """
    again = tuple(each_set(one, change) for one in answers.again)
    by_template = tuple(each_set(one, change) for one in answers.by_template)
    written = None if answers.written is None else each_set(answers.written, change)
    alone = replace(answers, again=(), by_template=(), written=None)
    return replace(change(alone), again=again, by_template=by_template, written=written)
