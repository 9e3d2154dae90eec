"""Contributions of each row of text to a score: hits, overlaps, counts of n-grams; and corpora from their sums."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.answers.canonical import canonical
from evalspec.imports import rouge_alone
from evalspec.scoring.catalogue.text import missing_package
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.stats.sets.texts import is_exact, overlap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.predictions import AnswerKind

    FloatArray = NDArray[np.float64]

ORDERS_BLEU = 4
ORDERS_CHRF = 6
BETA_CHRF = 2.0
AGREES = 1e-9
LOST_SHARE = 0.01
"""Share of rows whose references may be lost to the tokenizer of rouge-score; beyond it there is no ROUGE."""


def references(rows: Scored) -> list[tuple[str, ...]]:
    """References of each row, at least one; in the form in which answers inside texts are compared."""
    several = [(one,) if isinstance(one, str) else one for one in rows.truth.tolist()]
    kind = rows.options.answer
    if kind is None or kind == "text":
        return several
    return [tuple(_reference(one, kind) for one in references) for references in several]


@lru_cache(maxsize=1 << 16)
def _reference(text: str, kind: AnswerKind) -> str:
    """A reference in the form in which it is compared: each metric reads all of them."""
    return canonical(text, kind, whole=True) or text


def _distinct(rows: Scored) -> tuple[list[tuple[str, tuple[str, ...]]], list[int]]:
    """Texts with their references, each pair once, as answers and references come again; and the pair of each row."""
    pairs = list(zip(said(rows), references(rows), strict=True))
    place = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    return list(place), [place[pair] for pair in pairs]


def said(rows: Scored) -> list[str]:
    """Texts that are scored: the answer inside each (empty where there is none), else all that the model wrote.

    Raises:
        Undefined: It gives no texts.
    """
    if rows.texts is None:
        raise Undefined(f"model {rows.model!r} gives no texts")
    if rows.extracted is None:
        return list(rows.texts.tolist())
    return ["" if one is None else one for one in rows.extracted.tolist()]


def parsed(rows: Scored) -> NDArray[np.bool_]:
    """Rows whose text has an answer, shape (n,): all where no place for it is named."""
    if rows.extracted is None:
        return np.ones(rows.n, dtype=np.bool_)
    return np.array([one is not None for one in rows.extracted.tolist()], dtype=np.bool_)


def exact_hits(rows: Scored) -> NDArray[np.bool_]:
    """Rows whose text is one of the references, shape (n,); a row without an answer is none of them."""
    how = rows.options.normalize if rows.options.answer in (None, "text") else "none"
    pairs, of_rows = _distinct(rows)
    hits = np.array([is_exact(text, several, how) for text, several in pairs], dtype=np.bool_)
    return parsed(rows) & hits[of_rows]


def token_overlap(rows: Scored) -> FloatArray:
    """F1 of words with the nearest reference, as SQuAD counts it, shape (n,); 1 where both have no words.

    A row without an answer has 0.
    """
    pairs, of_rows = _distinct(rows)
    overlaps = np.array([max(overlap(text, one) for one in several) for text, several in pairs], dtype=np.float64)
    return np.where(parsed(rows), overlaps[of_rows], 0.0)


def rouge(rows: Scored, metric: str) -> FloatArray:
    """F1 of a ROUGE with the nearest reference, shape (n,).

    Args:
        rows: The rows.
        metric: ``rouge1``, ``rouge2`` or ``rouge_l``.

    Raises:
        Undefined: rouge-score is not installed, or its tokenizer leaves nothing of too many references.
    """
    _need(metric)
    rouge_alone()
    from rouge_score import rouge_scorer, tokenizers

    lost = lost_references(rows)
    if lost > LOST_SHARE * rows.n:
        raise Undefined(
            f"the tokenizer of rouge-score keeps a to z and 0 to 9 only, and leaves nothing of the references of "
            f"{lost:,} of {rows.n:,} rows; use chrf"
        )
    kind = {"rouge_l": "rougeL"}.get(metric, metric)
    scorer = rouge_scorer.RougeScorer([kind], tokenizer=tokenizers.DefaultTokenizer(False))
    pairs, of_rows = _distinct(rows)
    best = [max(scorer.score(one, text)[kind].fmeasure for one in several) for text, several in pairs]
    return np.array(best, dtype=np.float64)[of_rows]


def lost_references(rows: Scored) -> int:
    """Rows whose references have letters or digits, but none that rouge-score keeps."""
    kept = re.compile(r"[a-z0-9]")

    def lost(several: Sequence[str]) -> bool:
        return not any(kept.search(one.lower()) for one in several) and any(c.isalnum() for one in several for c in one)

    return sum(lost(several) for several in references(rows))


def bleu_counts(rows: Scored) -> FloatArray:
    """Length, length of the reference, n-grams that match and n-grams for n of 1 to 4; shape (n, 10)."""
    return _counts(rows, "bleu", bleu_of)


def chrf_counts(rows: Scored) -> FloatArray:
    """N-grams of characters written, of the nearest reference, and in both, for n of 1 to 6; shape (n, 18)."""
    return _counts(rows, "chrf", chrf_of)


def signature(rows: Scored, metric: str) -> str:
    """Signature of sacrebleu for a metric: case, tokenizer, smoothing, version, references a row.

    Args:
        rows: The rows.
        metric: ``bleu`` or ``chrf``.
    """
    scorer = _scorer(rows, metric)
    # Only of what it has seen can it tell how many references a row has.
    scorer.corpus_score(said(rows)[:1], _streams(references(rows)[:1]))
    counts = {len(several) for several in references(rows)}
    scorer.num_refs = counts.pop() if len(counts) == 1 else -1
    return str(scorer.get_signature())


def _scorer(rows: Scored, metric: str) -> Any:
    _need(metric)
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # Texts that look tokenized would be warned of on the terminal.
    return BLEU(tokenize=rows.options.tokenize, force=True) if metric == "bleu" else CHRF()


def _counts(rows: Scored, metric: str, whole: Callable[[FloatArray], FloatArray]) -> FloatArray:
    scorer = _scorer(rows, metric)
    pairs, of_rows = _distinct(rows)
    texts, several = zip(*pairs, strict=True)
    # Its base class asks every metric of sacrebleu for these two, which its own bootstrap uses.
    counts = scorer._extract_corpus_statistics(list(texts), _streams(several))
    statistics = np.array(counts, dtype=np.float64)[of_rows]
    theirs = scorer._compute_score_from_stats([int(total) for total in statistics.sum(axis=0)]).score
    ours = float(whole(statistics.sum(axis=0)))
    if abs(theirs - ours) > AGREES * max(1.0, abs(theirs)):
        raise Undefined(f"the installed sacrebleu computes {metric} differently: {theirs:.6g}, not {ours:.6g}")
    return statistics


def _streams(several: Sequence[tuple[str, ...]]) -> list[list[str | None]]:
    """References as sacrebleu takes them: the first of each row, the second of each row, ..."""
    width = max(len(one) for one in several)
    return [[one[at] if at < len(one) else None for one in several] for at in range(width)]


def bleu_of(sums: FloatArray) -> FloatArray:
    """Corpus BLEU from sums of `bleu_counts`, with sacrebleu's exponential smoothing; shape (..., 10) to (...).

    References:
        Papineni, Roukos, Ward and Zhu (2002), ACL. Post (2018), WMT.
    """
    length, reference = sums[..., 0], sums[..., 1]
    right, total = sums[..., 2 : 2 + ORDERS_BLEU], sums[..., 2 + ORDERS_BLEU :]
    # Each order without a match counts half of the one before it would.
    halved = 2.0 ** np.cumsum(right == 0, axis=-1)
    counted = np.where(right > 0, right, 1.0 / halved)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(total > 0, np.log(counted / total), -np.inf)
        brevity = np.where(length < reference, 1.0 - reference / length, 0.0)
    score = 100.0 * np.exp(np.where(length > 0, brevity, -np.inf) + logs.mean(axis=-1))
    return np.where((right > 0).any(axis=-1), score, 0.0)


def chrf_of(sums: FloatArray) -> FloatArray:
    """Corpus chrF2 from sums of `chrf_counts`; shape (..., 18) to (...).

    References:
        Popovic (2015), WMT.
    """
    counts = sums.reshape(*sums.shape[:-1], ORDERS_CHRF, 3)
    ours, theirs, both = counts[..., 0], counts[..., 1], counts[..., 2]
    used = (ours > 0) & (theirs > 0)
    orders = np.maximum(used.sum(axis=-1), 1)
    precision = np.where(used, both / np.maximum(ours, 1.0), 0.0).sum(axis=-1) / orders
    recall = np.where(used, both / np.maximum(theirs, 1.0), 0.0).sum(axis=-1) / orders
    below = BETA_CHRF**2 * precision + recall
    return np.where(below > 0, 100.0 * (1.0 + BETA_CHRF**2) * precision * recall / np.where(below > 0, below, 1.0), 0.0)


def _need(metric: str) -> None:
    missing = missing_package(metric)
    if missing is not None:
        raise Undefined(missing)
