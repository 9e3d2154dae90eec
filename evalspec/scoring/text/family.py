"""Texts: how their metrics are scored, what a constant answer would score, the worst rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.words import plural, verb
from evalspec.scoring.catalogue.text import TEXTS, missing_package
from evalspec.scoring.classification import all_rows, no_rows
from evalspec.scoring.family import Family, QualityContext, blind_sentence
from evalspec.scoring.resampled import OfSums
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.scores import MeanLoss, Resampled, Score, Share, of_shares
from evalspec.scoring.text import rows as text
from evalspec.scoring.text.show import worst_texts

if TYPE_CHECKING:
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.frozen import Cell
    from evalspec.scoring.family import ScoringFields


def _some(rows: Scored) -> None:
    if rows.n == 0:
        raise Undefined(no_rows(rows))


BLEU, CHRF = OfSums(text.bleu_counts, text.bleu_of), OfSums(text.chrf_counts, text.chrf_of)
_SCORES: dict[str, Score] = {
    "exact_match": Share("exact_match", text.exact_hits, all_rows, no_rows),
    "token_f1": MeanLoss("token_f1", text.token_overlap, of_shares),
    **{name: MeanLoss(name, partial(text.rouge, metric=name), of_shares) for name in ("rouge1", "rouge2", "rouge_l")},
    "bleu": Resampled("bleu", BLEU, _some),
    "chrf": Resampled("chrf", CHRF, _some),
}


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score as `evalspec.scoring.tasks.score`."""
    missing = missing_package(metric)
    if missing is not None:
        raise Undefined(missing)
    return _SCORES[metric]


def listed(rows: Scored, check: ScoringFields) -> tuple[str, ...]:
    """Names of the metrics whose packages are installed."""
    return tuple(name for name in _SCORES if missing_package(name) is None)


def _value(metric: str, rows: Scored) -> float | None:
    definition = _SCORES.get(metric)
    try:
        if isinstance(definition, Share):
            return float(definition.hit(rows).mean())
        if isinstance(definition, MeanLoss):
            return float(definition.losses(rows).mean())
        if definition is None:
            return None
        assert isinstance(definition, Resampled)
        return float(definition.statistic(definition.statistic.arrays(rows), np.ones((1, rows.n)))[0])
    except Undefined:
        return None


def constant(rows: Scored, metric: str, part: str | None = None) -> float | None:
    """Score of answering every row with the most frequent first reference; None: it is no metric of single texts.

    Args:
        rows: Rows with their references.
        metric: Name of the metric.
        part: None.
    """
    answer = Counter(several[0] for several in text.references(rows)).most_common(1)[0][0]
    texts = np.full(rows.n, answer, dtype=object)
    return _value(metric, replace(rows, texts=texts, extracted=None))


def weakens(seen: QualityContext) -> Sequence[str]:
    """Sentences on each required metric that is not shown to be better than a constant answer's."""
    sentences = []
    for metric in dict.fromkeys(r.metric for r in seen.check.requirements if r.metric in _SCORES):
        estimate = seen.whole(metric, _SCORES[metric])
        blind = seen.blind("constant", constant, metric)
        if estimate is None or estimate.value is None or blind is None:
            continue
        bound = estimate.bound(seen.inputs.confidence, "lower")
        if bound is None or bound <= blind:
            worse = estimate.value <= blind
            sentences.append(blind_sentence(metric, estimate.value, blind, "the most frequent reference", worse=worse))
    return sentences


def notes(seen: QualityContext) -> Sequence[str]:
    """Rows that rouge-score can't read; empty texts."""
    sentences = []
    lost = text.lost_references(seen.rows)
    if lost and any(name in seen.found.estimates for name in ("rouge1", "rouge2", "rouge_l")):
        sentences.append(
            f"rouge-score keeps a to z and 0 to 9 only: {plural(lost, 'row')}, whose references "
            f"hold none, {verb(lost, 'counts', 'count')} as 0 in ROUGE"
        )
    unparsed = int(np.count_nonzero(~text.parsed(seen.rows)))
    if unparsed:
        wrong = verb(unparsed, "counts", "count")
        sentences.append(
            f"{unparsed:,} of {seen.rows.n:,} texts have no answer where `answer:` says, and {wrong} as wrong"
        )
    empty = sum(not one.strip() for one in seen.rows.texts.tolist()) if seen.rows.texts is not None else 0
    if empty:
        sentences.append(f"{empty:,} of {seen.rows.n:,} texts are empty")
    return sentences


def conditions(seen: QualityContext) -> Mapping[str, Cell]:
    """Form in which texts were read by each metric that was computed."""
    rows, estimates = seen.rows, seen.found.estimates
    several = [len(one) for one in text.references(rows)]
    told: dict[str, Cell] = {"references a row": _range(min(several), max(several))}
    if rows.options.answer is not None:
        told["answers inside texts"] = f"compared as {rows.options.answer}"
    if "exact_match" in estimates:
        told["exact_match"] = (
            "as SQuAD normalizes" if rows.options.normalize == "squad" else "as written, white space at the ends aside"
        )
    if any(name.startswith("rouge") for name in estimates):
        from importlib.metadata import version

        told["rouge"] = f"rouge-score {version('rouge-score')}, F1 of the nearest reference, no stemming"
    return told | {name: text.signature(rows, name) for name in ("bleu", "chrf") if name in estimates}


def _range(fewest: int, most: int) -> str:
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def blocks(seen: QualityContext) -> Sequence[AnyBlock]:
    """The rows with the least overlap."""
    examples = worst_texts(seen.inputs, seen.rows) if seen.check.show_examples else None
    return [examples] if examples is not None else []


TEXT = Family(
    TEXTS,
    score,
    listed,
    blind={"constant": constant},
    blind_caption="constant: the most frequent reference for every row.",
    blocks=blocks,
    weakens=weakens,
    notes=notes,
    conditions=conditions,
)
