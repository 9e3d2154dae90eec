"""Test rows that stand in what a model is sent before each question: its system text, and the examples it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.cells import values_of
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Example, Examples
from evalspec.evidence.estimate import Fact
from evalspec.evidence.words import first_of
from evalspec.sources.reading.text import Tokenised, token_shingles, tokenised
from evalspec.stats.sets.set_join import join_sets
from evalspec.stats.sets.tokens import Tokens, windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.contamination.detector import Mask
    from evalspec.checks.data.contamination.spec import Contamination
    from evalspec.language.inputs import Inputs, SentTexts

METRIC = "prompt_overlap"
FEWEST_WORDS = 5
"""Words of a text that is looked for inside a longer one; of fewer only a whole example can be the same."""
EXACT, NEAR = "word for word", "nearly so"
SHOWN = 5
CUT_AT = 300


@dataclass(frozen=True, slots=True)
class PromptRows:
    """Rows that stand among what is sent with every row.

    Args:
        place: shape (m,), number of the sent text that a row stands in, -1: in none.
        near: shape (m,), it is not word for word.
        sent: Name and text of each sent text.
        texts: shape (m,), the rows' own.
    """

    place: NDArray[np.int64]
    near: Mask
    sent: tuple[tuple[str, str], ...]
    texts: list[str]

    @property
    def rows(self) -> Mask:
        """Rows that count, shape (m,)."""
        return self.place >= 0

    def fact(self, model: str) -> Fact:
        """How many there are."""
        rows = np.flatnonzero(self.rows)
        first = first_of([f"row {row:,} ({self.sent[self.place[row]][0]})" for row in rows[:2].tolist()], len(rows))
        what = f"{len(self.sent):,} texts that {model} is sent with every row" if self.sent else "nothing else is sent"
        return Fact(float(len(rows)), len(self.place), f"counted: word for word, or nearly, in {what}", first=first)

    def shown(self) -> tuple[Examples, ...]:
        """Some of them beside what they stand in."""
        rows = np.flatnonzero(self.rows)
        if not len(rows):
            return ()
        examples = []
        for row in rows[:SHOWN].tolist():
            name, text = self.sent[self.place[row]]
            how = NEAR if self.near[row] else EXACT
            examples.append(Example(title=f"row {row}", fields={"row": row, "found": how}, text=_cut(self.texts[row])))
            examples.append(Example(title=name, fields={}, text=_cut(text)))
        return (
            Examples(
                title="Test rows in the prompt",
                caption="Each row, and below it the text in which it is sent with every question.",
                examples=tuple(examples),
                total=2 * len(rows),
            ),
        )


def prompt_rows(check: Contamination, inputs: Inputs) -> PromptRows:
    """Look for each row of the test set in what a model is sent with every row.

    Args:
        check: Which model, and from which similarity on texts are near.
        inputs: What gives rows and the prompt.

    Raises:
        NotRunError: The model has no prompt, or its inputs are made of other columns than the test set has.
    """
    assert check.prompts is not None
    sent = inputs.sent_texts(check.prompts)
    if sent is None:
        raise NotRunError(f"model {check.prompts} is sent no prompt")
    table = inputs.table(check.test)
    columns = [column for column in sent.places.values() if column in table.column_names]
    if not columns:
        raise NotRunError(f"no place of the prompt of {check.prompts} is fed by a column of {check.test}")
    own = [_as_texts(table.column(column), lettered=column in sent.lettered) for column in columns]
    whole = pc.binary_join_element_wise(*own, pa.scalar("\n", pa.large_string()))
    named = _named(sent)
    if not named:
        nothing = np.zeros(table.num_rows, bool)
        return PromptRows(np.full(table.num_rows, -1), nothing, (), whole.to_pylist())
    texts = tokenised(pa.array([text for _, text in named], pa.large_string()))
    shown = tokenised(pa.array(["\n".join(one.values()) for one in sent.examples], pa.large_string()))
    first = len(named) - len(sent.examples)
    rows = tokenised(whole)
    place = _same(rows.tokens, shown.tokens, first)
    for part in (rows, *(tokenised(one) for one in own if len(own) > 1)):
        place = np.where(place < 0, _inside(part.tokens, texts.tokens), place)
    close = _near(rows, shown, first, check)
    return PromptRows(np.where(place < 0, close, place), (place < 0) & (close >= 0), named, whole.to_pylist())


def _as_texts(column: pa.ChunkedArray, *, lettered: bool) -> pa.Array:
    """Cells as a prompt shows them; lists line by line, with letters before the lines where they are shown so."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return pc.fill_null(column.cast(pa.large_string()), "").combine_chunks()
    lines = [
        "\n".join(
            f"{letter}. {one}" if lettered else str(one)
            for letter, one in zip(ascii_uppercase, cell or (), strict=False)
        )
        for cell in values_of(column)
    ]
    return pa.array(lines, pa.large_string())


def _named(sent: SentTexts) -> tuple[tuple[str, str], ...]:
    system = () if sent.system is None else (("the system text", sent.system),)
    shown = (f"example {number + 1}" for number in range(len(sent.examples)))
    said = ("\n".join((*one.values(), answer)) for one, answer in zip(sent.examples, sent.answers, strict=True))
    return (*system, *zip(shown, said, strict=True))


def _same(rows: Tokens, shown: Tokens, first: int) -> NDArray[np.int64]:
    """Number of an example with the same words in the same order, shape (m,); -1: there is none."""
    place = np.full(len(rows), -1, np.int64)
    for count in np.unique(rows.counts[rows.counts > 0]).tolist():
        at, examples = np.flatnonzero(rows.counts == count), np.flatnonzero(shown.counts == count)
        if len(examples):
            theirs = windows(shown.hashes, count)[shown.offsets[:-1][examples]]
            place[at] = _found(windows(rows.hashes, count)[rows.offsets[:-1][at]], theirs, examples + first)
    return place


def _inside(rows: Tokens, sent: Tokens) -> NDArray[np.int64]:
    """Number of a text in which all words of a row stand one after the other, shape (m,); -1: there is none."""
    place = np.full(len(rows), -1, np.int64)
    longest = int(sent.counts.max(initial=0))
    counts = np.unique(rows.counts[(rows.counts >= FEWEST_WORDS) & (rows.counts <= longest)])
    for count in counts.tolist():
        theirs = windows(sent.hashes, count)
        begins = np.arange(len(theirs))
        text = sent.text_of(begins)
        whole = text == sent.text_of(begins + count - 1)
        at = np.flatnonzero(rows.counts == count)
        ours = windows(rows.hashes, count)[rows.offsets[:-1][at]]
        place[at] = _found(ours, theirs[whole], text[whole])
    return place


def _found(ours: NDArray[np.uint64], theirs: NDArray[np.uint64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of each hash among others, -1 where it is not among them; shape of ``ours``."""
    if not len(theirs):
        return np.full(len(ours), -1, np.int64)
    order = np.argsort(theirs, kind="stable")
    at = np.minimum(np.searchsorted(theirs[order], ours), len(theirs) - 1)
    return np.where(theirs[order][at] == ours, numbers[order][at], -1).astype(np.int64)


def _near(rows: Tokenised, shown: Tokenised, first: int, check: Contamination) -> NDArray[np.int64]:
    """Number of an example whose words are nearly those of a row, shape (m,); -1: there is none."""
    if not len(shown.tokens):
        return np.full(len(rows.tokens), -1, np.int64)
    ours, theirs = (token_shingles(one.tokens, check.shingle_words) for one in (rows, shown))
    found = join_sets(theirs, ours, similarity=check.similarity).train_row
    return np.where(found < 0, -1, found + first).astype(np.int64)


def _cut(text: str) -> str:
    return text if len(text) <= CUT_AT else f"{text[:CUT_AT]} …"
