"""Families of metrics, which compute and show a task's metrics: one `Family` a file, all listed in `tasks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.scoring.catalogue.metrics import METRICS

if TYPE_CHECKING:
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.frozen import Cell
    from evalspec.evidence.metric import Metric
    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement
    from evalspec.scoring.scored_rows import Scored
    from evalspec.scoring.scores import Estimators, Score


class ScoringFields(Protocol):
    """Fields of a check that scoring reads."""

    @property
    def requirements(self) -> Sequence[Requirement]:
        """Requirements of the check."""
        ...

    @property
    def top_k(self) -> tuple[int, ...]:
        """Values of k, besides the required ones."""
        ...

    @property
    def query(self) -> str | None:
        """Column that says which rows are the candidates of one query."""
        ...

    @property
    def show_examples(self) -> bool:
        """Rows are shown in the report."""
        ...


if TYPE_CHECKING:
    ScoreOf = Callable[[str, str | None, Scored], Score]
    """Metric, part, rows to how it is scored; raises `Undefined` where these rows have no such value."""
    Listed = Callable[[Scored, ScoringFields], tuple[str, ...]]
    """Metrics that are computed where the check lists none."""
    PartsOf = Callable[[str, Scored, ScoringFields], Sequence[str]]
    """Metric to the parts that it is computed of, whether or not a requirement asks for them."""
    Blind = Callable[[Scored, str, str | None], float | None]
    """Rows, metric, part to what an answer scores that never looks at the row; None: not defined."""

PART_KINDS = {metric.name: metric.parts for metric in METRICS}


@dataclass(slots=True)
class ScoredMetrics:
    """Estimates so far, and the reasons for those that are missing.

    Args:
        estimates: Metric: estimate or parts.
        missing: Metric or ``metric(part)``: why there is none.
        blind: Name of an answer that never looks at the row, metric and part: its score.
    """

    estimates: dict[str, Estimate | Parts] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    blind: dict[tuple[str, str, str | None], float | None] = field(default_factory=dict)

    def flat(self) -> list[tuple[str, str | None, Estimate]]:
        """(metric, part, estimate) of everything but classes."""
        rows: list[tuple[str, str | None, Estimate]] = []
        for metric, estimate in self.estimates.items():
            if not isinstance(estimate, Parts):
                rows.append((metric, None, estimate))
            elif PART_KINDS[metric] != "class":
                rows += [(metric, part, one) for part, one in estimate.parts.items() if isinstance(one, Estimate)]
        return rows

    def parts(self) -> dict[str, Parts]:
        """Metrics that have parts."""
        return {metric: estimate for metric, estimate in self.estimates.items() if isinstance(estimate, Parts)}


@dataclass(frozen=True, slots=True)
class QualityContext:
    """Rows and estimates that blocks and notes are made from.

    Args:
        check: The check.
        inputs: What it was handed.
        rows: The candidate's rows.
        found: Its estimates.
        tools: What estimates need beside rows.
    """

    check: ScoringFields
    inputs: Inputs
    rows: Scored
    found: ScoredMetrics
    tools: Estimators

    def whole(self, metric: str, score: Score) -> Estimate | None:
        """The estimate of a metric, whether or not it was asked for; None: it is not defined here."""
        estimate = self.found.estimates.get(metric)
        if isinstance(estimate, Estimate):
            return estimate
        try:
            return score.estimate(self.rows, self.tools)
        except NotRunError:
            return None

    def blind(self, name: str, score: Blind, metric: str, part: str | None = None) -> float | None:
        """Score of an answer that never looks at the row; computed once.

        Args:
            name: Of the answer.
            score: Computes it.
            metric: Name of the metric.
            part: One of its parts.
        """
        key = (name, metric, part)
        if key not in self.found.blind:
            self.found.blind[key] = score(self.rows, metric, part)
        return self.found.blind[key]


def blind_sentence(metric: str, value: float, blind: float, answer: str, *, worse: bool) -> str:
    """Sentence that a model is not (shown to be) better than an answer that never looks at the row."""
    verb = "is not better" if worse else "is not shown to be better"
    return f"{metric} {value:.4g} {verb} than the {blind:.4g} of answering always {answer}"


def plain_parts(metric: str, rows: Scored, check: ScoringFields) -> Sequence[str]:
    """Every class; each k of ``top_k``; of other kinds none but those that are asked for."""
    kind = PART_KINDS[metric]
    if kind == "class":
        return rows.classes or ()
    return tuple(str(k) for k in check.top_k) if kind == "k" else ()


def _no_sentences(seen: QualityContext) -> Sequence[str]:
    return ()


def _no_blocks(seen: QualityContext) -> Sequence[AnyBlock]:
    return ()


def _no_conditions(seen: QualityContext) -> Mapping[str, Cell]:
    return {}


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics of one task, or of a kind within it.

    Args:
        metrics: Those that ``score`` knows, as declared in the catalogue.
        score: How one is scored.
        listed: Those that are computed where the check lists none.
        parts: What a metric that has parts is computed of, beside the parts that requirements name.
        blind: Name of an answer that never looks at the row: what it scores. A column each in the table of scores.
        blind_caption: What these answers are.
        blocks: What is shown beside the table of scores.
        weakens: Sentences that stand with the verdict: that the model does no better than a blind answer.
        notes: Sentences for the reader.
        conditions: What the numbers hold for.
        of_lists: Its metrics are of lists of rows, so only rows that have queries are shown to it.
    """

    metrics: tuple[Metric, ...]
    score: ScoreOf
    listed: Listed
    parts: PartsOf = plain_parts
    blind: Mapping[str, Blind] = field(default_factory=dict)
    blind_caption: str = ""
    blocks: Callable[[QualityContext], Sequence[AnyBlock]] = _no_blocks
    weakens: Callable[[QualityContext], Sequence[str]] = _no_sentences
    notes: Callable[[QualityContext], Sequence[str]] = _no_sentences
    conditions: Callable[[QualityContext], Mapping[str, Cell]] = _no_conditions
    of_lists: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its metrics."""
        return tuple(metric.name for metric in self.metrics)
