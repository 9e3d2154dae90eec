"""Test rows that a model goes on with in their own words, less those of their twins: two words of them swapped.

References:
    Carlini and others (2021), Extracting training data from large language models. Golchin and Surdeanu (2023), Time
    travel in LLMs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Column, Example, Examples, Table
from evalspec.evidence.words import plural
from evalspec.language.inputs import Variant
from evalspec.sources.reading.text import tokenised
from evalspec.stats.sets.tokens import Tokens, windows
from evalspec.stats.shares.paired import paired_proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.contamination.detector import Mask
    from evalspec.checks.data.contamination.spec import Contamination
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Inputs, SentTexts

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
        judged: shape (m,), long enough, going on as no other row does, and with words that the model is not sent.
        rows: shape (m,), the model went on with the row's own words.
        twins: shape (m,), it went on with them after two neighbours among them were swapped.
        left_out: Why rows are not judged: how many.
        clusters: shape (m,), or None.
        ends: shape (m,), the words that came next.
        texts: shape (m,), what the model wrote.
    """

    judged: Mask
    rows: Mask
    twins: Mask
    left_out: dict[str, int]
    clusters: NDArray[np.int64] | None
    ends: list[str]
    texts: list[str]

    def share(self) -> Estimate:
        """Share of the rows that were judged, less that of their twins."""
        clusters = None if self.clusters is None else self.clusters[self.judged]
        return paired_proportion(self.rows[self.judged], self.twins[self.judged], clusters).difference()

    def table(self) -> Table:
        """Counts behind the share."""
        counts = {
            "judged": int(self.judged.sum()),
            f"went on with the row's next {RUN} words": int(self.rows.sum()),
            "went on with them, two of them swapped": int(self.twins.sum()),
            **{f"left out: {why}": count for why, count in self.left_out.items() if count},
        }
        columns = (Column(name="of the test set"), Column(name="rows", unit="rows"))
        return Table(title="Recitation", columns=columns, rows=tuple(counts.items()))

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
    if sent.chooses and not sent.writes:
        raise NotRunError(
            f"{check.recite} chooses from options and writes no text; give it `generate:`, or name a model that writes"
        )
    table = inputs.table(check.test)
    column = longest_column(check, table, sent)
    words = [str(one or "").split() for one in table.column(column).to_pylist()]
    long = np.array([len(one) >= FEWEST_WORDS for one in words])
    if not long.any():
        raise NotRunError(f"no row of {check.test} has {FEWEST_WORDS} words in {column}, to be cut in half")
    halves = [len(one) // 2 if enough else len(one) for one, enough in zip(words, long.tolist(), strict=True)]
    shown = [" ".join(one[:half]) for one, half in zip(words, halves, strict=True)]
    rows = table.set_column(table.column_names.index(column), column, pa.array(shown, pa.string()))
    ends = [" ".join(one[half:]) for one, half in zip(words, halves, strict=True)]
    following = tokenised(pa.array(ends, pa.large_string())).tokens
    nexts, twins, swapped = _first_runs(following)
    told = _holds(tokenised(pa.array(shown, pa.large_string())).tokens, nexts) | _sent_to_all(sent, nexts)
    alone = _unique(nexts, long & swapped)
    judged = long & swapped & alone & ~told
    if not judged.any():
        raise NotRunError(
            f"the rows of {check.test} go on alike, or with words that {check.recite} is sent, so they can't show that "
            "one was known"
        )
    answers = inputs.predict(rows, check.test, METRIC, check.recite, variant=Variant(writes=sent.chooses))
    if answers.texts is None:
        raise NotRunError(f"{check.recite} writes no texts")
    written = tokenised(pa.array(answers.texts.tolist(), pa.large_string())).tokens
    enough = written.counts[judged] >= RUN
    if enough.mean() < WROTE_ENOUGH:
        raise NotRunError(
            f"only {plural(int(enough.sum()), 'answer')} of {len(enough):,} of {check.recite} have {RUN} words, so it "
            "could not have continued; name a model entry whose prompt is the text alone (`api: completions`)"
        )
    left_out = {
        "too few words": int((~long | ~swapped).sum()),
        "goes on as another row does": int((long & swapped & ~alone).sum()),
        "its next words are in what the model is sent": int((long & swapped & alone & told).sum()),
    }
    return RecitedRows(
        judged,
        judged & _holds(written, nexts),
        judged & _holds(written, twins),
        left_out,
        answers.clusters,
        [" ".join(one.split()[:RUN]) for one in ends],
        answers.texts.tolist(),
    )


def longest_column(check: Contamination, table: pa.Table, sent: SentTexts) -> str:
    """Column of the longest texts among those that fill the places of a prompt.

    Raises:
        NotRunError: No text fills one.
    """
    columns = [one for one in sent.places.values() if one in table.column_names]
    texts = [one for one in columns if pa.types.is_string(table.schema.field(one).type)
             or pa.types.is_large_string(table.schema.field(one).type)]  # fmt: skip
    if not texts:
        raise NotRunError(f"no place of the prompt of {check.recite} is fed by a text of {check.test}")
    lengths = {one: tokenised(table.column(one)).tokens.counts.sum() for one in texts}
    return max(texts, key=lambda one: lengths[one])


def _first_runs(texts: Tokens) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Mask]:
    """Hash of the first words of each text, and of the same with two neighbours swapped, each of shape (m,).

    The first two neighbours that differ are swapped. Third: texts that have as many words and such neighbours.
    """
    hashes, twins = np.zeros(len(texts), np.uint64), np.zeros(len(texts), np.uint64)
    rows = np.flatnonzero(texts.counts >= RUN)
    words = texts.hashes[texts.offsets[:-1][rows][:, None] + np.arange(RUN)]
    differ = words[:, :-1] != words[:, 1:]
    rows, words, differ = (one[differ.any(axis=1)] for one in (rows, words, differ))
    first, at = differ.argmax(axis=1), np.arange(len(rows))
    changed = words.copy()
    changed[at, first], changed[at, first + 1] = words[at, first + 1], words[at, first]
    hashes[rows], twins[rows] = (windows(one.ravel(), RUN)[::RUN] for one in (words, changed))
    return hashes, twins, np.isin(np.arange(len(texts)), rows)


def _sent_to_all(sent: SentTexts, nexts: NDArray[np.uint64]) -> Mask:
    """Rows whose next words stand in the system text or in an example, shape (m,)."""
    examples = zip(sent.examples, sent.answers, strict=True)
    texts = [sent.system or "", *("\n".join((*one.values(), answer)) for one, answer in examples)]
    known = tokenised(pa.array(texts, pa.large_string())).tokens
    begins = np.arange(len(known.hashes) - RUN + 1)
    whole = known.text_of(begins) == known.text_of(begins + RUN - 1)
    found: Mask = np.isin(nexts, windows(known.hashes, RUN)[whole], kind="sort")
    return found


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
