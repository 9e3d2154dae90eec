"""Test rows that a model goes on with in their own words, which nobody told it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Example, Examples
from evalspec.evidence.words import plural
from evalspec.sources.reading.text import tokenised
from evalspec.stats.sets.tokens import Tokens, windows
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.contamination.detector import Mask
    from evalspec.checks.data.contamination.spec import Contamination
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Inputs

METRIC = "recited"
RUN = 8
"""Words that a model must go on with."""
FEWEST_WORDS = 3 * RUN
"""Words of a text that is cut in half."""
WROTE_ENOUGH = 0.5
"""Share of answers with as many words, below which nothing can be told."""
SHOWN = 5
LETTERS = 300


@dataclass(frozen=True, slots=True)
class RecitedRows:
    """Rows whose second half a model was not shown.

    Args:
        judged: shape (m,), long enough, and going on as no other row does.
        rows: shape (m,), the model went on with the row's own words.
        clusters: shape (m,), or None.
        ends: shape (m,), the words that came next.
        texts: shape (m,), what the model wrote.
    """

    judged: Mask
    rows: Mask
    clusters: NDArray[np.int64] | None
    ends: list[str]
    texts: list[str]

    def share(self) -> Estimate:
        """Share of the rows that were judged."""
        clusters = None if self.clusters is None else self.clusters[self.judged]
        return proportion(self.rows[self.judged], clusters)

    def shown(self) -> tuple[Examples, ...]:
        """Some of them."""
        rows = np.flatnonzero(self.rows)
        if not len(rows):
            return ()
        examples = tuple(
            Example(title=f"row {row}", fields={"row": row, "goes on": self.ends[row]}, text=self.texts[row][:LETTERS])
            for row in rows[:SHOWN].tolist()
        )
        caption = f"The model was shown the first half, and wrote the next {RUN} words of the second."
        return (Examples(title="Recited rows", caption=caption, examples=examples, total=len(rows)),)


def recited_rows(check: Contamination, inputs: Inputs) -> RecitedRows:
    """Show a model the first half of each row's longest text, and look for the next words in its answer.

    Raises:
        NotRunError: It can't be asked, no row is long enough, or its answers are too short to hold as many words.
    """
    assert check.recite is not None
    sent = inputs.sent_texts(check.recite)
    if sent is None:
        raise NotRunError(f"model {check.recite} is sent no prompt")
    table = inputs.table(check.test)
    column = _longest(table, [one for one in sent.places.values() if one in table.column_names], check)
    words = [str(one or "").split() for one in table.column(column).to_pylist()]
    long = np.array([len(one) >= FEWEST_WORDS for one in words])
    if not long.any():
        raise NotRunError(f"no row of {check.test} has {FEWEST_WORDS} words in {column}, to be cut in half")
    halves = [len(one) // 2 if enough else len(one) for one, enough in zip(words, long.tolist(), strict=True)]
    begins = pa.array([" ".join(one[:half]) for one, half in zip(words, halves, strict=True)], pa.string())
    rows = table.set_column(table.column_names.index(column), column, begins)
    ends = [" ".join(one[half:]) for one, half in zip(words, halves, strict=True)]
    nexts, runs = _first_runs(tokenised(pa.array(ends, pa.large_string())).tokens)
    answers = inputs.predict(rows, check.test, METRIC, check.recite)
    if answers.texts is None:
        raise NotRunError(f"{check.recite} writes no texts")
    written = tokenised(pa.array(answers.texts.tolist(), pa.large_string())).tokens
    judged = long & runs & _unique(nexts, long & runs)
    enough = written.counts[judged] >= RUN
    if not judged.any():
        raise NotRunError(f"the rows of {check.test} go on alike, so nothing shows that one was known")
    if enough.mean() < WROTE_ENOUGH:
        raise NotRunError(
            f"only {plural(int(enough.sum()), 'answer')} of {len(enough):,} of {check.recite} have {RUN} words, so it "
            "could not have gone on; name a model entry whose prompt is the text alone (`api: completions`)"
        )
    hits = judged & _holds(written, nexts)
    return RecitedRows(
        judged, hits, answers.clusters, [" ".join(one.split()[:RUN]) for one in ends], answers.texts.tolist()
    )


def _longest(table: pa.Table, columns: list[str], check: Contamination) -> str:
    texts = [one for one in columns if pa.types.is_string(table.schema.field(one).type)
             or pa.types.is_large_string(table.schema.field(one).type)]  # fmt: skip
    if not texts:
        raise NotRunError(f"no place of the prompt of {check.recite} is fed by a text of {check.test}")
    lengths = {one: tokenised(table.column(one)).tokens.counts.sum() for one in texts}
    return max(texts, key=lambda one: lengths[one])


def _first_runs(texts: Tokens) -> tuple[NDArray[np.uint64], Mask]:
    """Hash of the first words of each text, shape (m,), and whether it has as many."""
    runs = texts.counts >= RUN
    hashes = np.zeros(len(texts), np.uint64)
    hashes[runs] = windows(texts.hashes, RUN)[texts.offsets[:-1][runs]]
    return hashes, runs


def _unique(hashes: NDArray[np.uint64], counted: Mask) -> Mask:
    """Those that no other row has, shape (m,)."""
    _, back, times = np.unique(np.where(counted, hashes, 0), return_inverse=True, return_counts=True)
    alone: Mask = times[back] == 1
    return alone


def _holds(written: Tokens, nexts: NDArray[np.uint64]) -> Mask:
    """Answers that hold their row's next words, one after the other; shape (m,)."""
    hashes = windows(written.hashes, RUN)
    begins = np.arange(len(hashes))
    text = written.text_of(begins)
    same = (text == written.text_of(begins + RUN - 1)) & (hashes == nexts[text])
    return np.bincount(text[same], minlength=len(written)) > 0
