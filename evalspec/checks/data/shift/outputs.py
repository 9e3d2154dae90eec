"""Shift of a model's answers: how they moved, and how far its embeddings tell the rows apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.data.shift import classifier
from evalspec.evidence.blocks import AnyBlock, Interval, Intervals, Reference
from evalspec.evidence.estimate import Estimate, Measured, Parts
from evalspec.evidence.words import in_percent
from evalspec.language.predictions import GIVES
from evalspec.stats.drift import distances as stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.shift.spec import Shift
    from evalspec.language.inputs import Inputs, Predictions

CONFIDENCE, PREDICTED = "confidence", "predicted"
MOST_CLASSES = 1_000
ROWS_SHOWN = 40


@dataclass(slots=True)
class Outputs:
    """Shift of a model's answers and embeddings.

    Args:
        estimates: Metric: estimate or parts.
        missing: Metric: why there is none.
        blocks: What to show.
        notes: Sentences for the reader.
    """

    estimates: dict[str, Estimate | Parts | Measured] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    blocks: list[AnyBlock] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Output:
    """One thing that a model's answers are compared by.

    Args:
        values: shape (k,), numbers or names.
        named: They are names.
        rows: shape (k,), rows that they are of; None: all.
    """

    values: NDArray[Any]
    named: bool = False
    rows: NDArray[np.int64] | None = None

    def among(self, clusters: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """Clusters of its rows, shape (k,)."""
        return clusters if clusters is None or self.rows is None else clusters[self.rows]


def compare_outputs(check: Shift, inputs: Inputs) -> Outputs:
    """`prediction_shift` of a model's answers and `embedding_shift` of its embeddings.

    Raises:
        InputError: The model's answers can't be read, or have no rows.
    """
    found = Outputs()
    if check.predictions is None:
        found.missing["prediction_shift"] = "no model's answers are compared: name one, `predictions: candidate`"
    else:
        _compare_answers(check, inputs, check.predictions, found)
    if check.embedding is None:
        found.missing["embedding_shift"] = "no model's embeddings are compared: name one, `embedding: candidate`"
    else:
        _compare_embeddings(check, inputs, check.embedding, found)
    return found


def outputs_of(answers: Predictions) -> dict[str, Output]:
    """Outputs by which a model's answers are compared, by name.

    Args:
        answers: Of any task.

    Returns:
        ``predicted``, ``confidence`` and ``probability:CLASS`` of classes; ``value``; ``label:CLASS`` of several
        labels; ``length`` of texts; ``boxes`` and their mean ``score``; ``share:CLASS`` of a mask's pixels.
    """
    if answers.task == "classes":
        return _of_classes(answers)
    if answers.values is not None:
        return {"value": Output(answers.values)}
    if answers.members is not None:
        numbers = answers.members.astype(np.float64) if answers.probabilities is None else answers.probabilities
        return _by_class("label", answers, numbers)
    if answers.texts is not None:
        return {"length": Output(np.array([len(text) for text in answers.texts], dtype=np.float64))}
    if answers.masks is not None:
        flat = answers.masks.reshape(answers.n, -1)
        count = len(answers.classes or ())
        return _by_class("share", answers, np.stack([(flat == index).mean(axis=1) for index in range(count)], axis=1))
    if answers.boxes is not None:
        each: NDArray[np.float64] = np.bincount(answers.boxes.row, minlength=answers.n).astype(np.float64)
        found = {"boxes": Output(each)}
        if answers.boxes.scores is not None:
            sums = np.bincount(answers.boxes.row, weights=answers.boxes.scores, minlength=answers.n)
            some = np.flatnonzero(each)
            found["score"] = Output(sums[some] / each[some], rows=some)
        return found
    return {}


def _of_classes(answers: Predictions) -> dict[str, Output]:
    found: dict[str, Output] = {}
    if answers.predicted is not None:
        names = np.asarray(answers.classes, dtype=np.str_)
        found[PREDICTED] = Output(names[answers.predicted], named=True)
    if answers.probabilities is not None:
        found[CONFIDENCE] = Output(answers.probabilities.max(axis=1))
        if answers.probabilities.shape[1] == 2:
            # The other one's moves as far.
            found |= dict([list(_by_class("probability", answers, answers.probabilities).items())[1]])
        elif answers.probabilities.shape[1] <= MOST_CLASSES:
            found |= _by_class("probability", answers, answers.probabilities)
    return found


def _by_class(what: str, answers: Predictions, numbers: NDArray[np.float64]) -> dict[str, Output]:
    return {
        f"{what}:{name}": Output(column) for name, column in zip(answers.classes or (), numbers.T, strict=True)
    }  # fmt: skip


def _compare_answers(check: Shift, inputs: Inputs, model: str, found: Outputs) -> None:
    first, second = (inputs.predictions(name, model) for name in (check.reference, check.current))
    ours, theirs = outputs_of(first), outputs_of(second)
    if not ours or not theirs:
        found.missing["prediction_shift"] = f"model {model!r} gives {GIVES[first.task]}, which are not compared here"
        return
    parts: dict[str, Estimate] = {
        name: _distance(output, theirs[name], (first.clusters, second.clusters), inputs)
        for name, output in ours.items()
        if name in theirs
    }
    found.estimates["prediction_shift"] = Parts(parts)
    found.blocks.append(_forest(check, parts, inputs.confidence))


def _distance(
    first: Output, second: Output, clusters: tuple[NDArray[np.int64] | None, NDArray[np.int64] | None], inputs: Inputs
) -> stats.Distance:
    if first.named:
        _, a, b = stats.category_counts(first.values, second.values)
        distance = stats.total_variation(a, b, rng=inputs.rng, alpha=inputs.alpha_fail)
    else:
        distance = stats.ks_distance(first.values, second.values)
    fitting = first.among(clusters[0]), second.among(clusters[1])
    if all(ids is None for ids in fitting):
        return distance
    events = stats.indicators(first.values, second.values)
    effects = [stats.largest_design_effect(event, ids) for event, ids in zip(events, fitting, strict=True)]
    return stats.clustered(distance, len(first.values), len(second.values), effects[0], effects[1])


def _forest(check: Shift, parts: Mapping[str, Estimate], confidence: float) -> Intervals:
    ordered = sorted(parts, key=lambda name: -(parts[name].value or 0.0))
    more = f" The {ROWS_SHOWN} largest of {len(ordered)}." if len(ordered) > ROWS_SHOWN else ""
    rows = tuple(
        Interval(
            label=name, value=parts[name].value, lower=parts[name].bound(confidence, "lower"),
            upper=parts[name].bound(confidence, "upper"), n=parts[name].n,
        )
        for name in ordered[:ROWS_SHOWN]
    )  # fmt: skip
    return Intervals(
        title=f"Answers of {check.predictions} on {check.reference} and {check.current}",
        caption=(
            f"Distance of what {check.predictions} says, with {in_percent(confidence)} bounds on either side: total "
            f"variation of the predicted classes, Kolmogorov-Smirnov of all else.{more}"
        ),
        rows=rows,
        references=(Reference(label="tolerance", value=check.tolerance, axis="x"),),
    )


def _compare_embeddings(check: Shift, inputs: Inputs, model: str, found: Outputs) -> None:
    first, second = (inputs.predictions(name, model) for name in (check.reference, check.current))
    if first.embeddings is None or second.embeddings is None:
        found.missing["embedding_shift"] = (
            f"model {model!r} gives no embedding: name one in its `outputs: {{embedding: ...}}`"
        )
        return
    why = classifier.why_not(min(first.n, second.n))
    if why is not None:
        found.missing["embedding_shift"] = why
        return
    tolerance = classifier.planted_at(check.requirements, "embedding_shift")
    clusters = first.clusters, second.clusters
    pool = classifier.embedding_pool(first.embeddings, second.embeddings, clusters, inputs.rng)
    told = classifier.tell_apart(pool, tolerance, inputs.confidence, inputs.rng, gains=False)
    found.estimates["embedding_shift"] = Measured(told.auc, withhold=told.withhold(tolerance))
    found.notes.append(
        f"embedding_shift is that of {pool.values.shape[1]} principal components of {first.embeddings.shape[1]} "
        f"numbers a row, of {told.rows:,} rows a side."
    )
