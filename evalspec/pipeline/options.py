"""Multiple choice as probabilities: how options are shown, what is scored, and what the label says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evalspec.arrow import column_of_texts
from evalspec.cells import values_of
from evalspec.errors import InputError
from evalspec.language.parts import OptionScore, OutputName, Part

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Classes of a model that chooses: positions in the row's own list of options."""
TOP = 20
"""Likeliest first tokens that a server is asked for: as many as the protocol allows."""
PROBABILITIES, MASS = "probabilities", "option_mass"
"""Outputs of a model that chooses."""
CHOSEN: Mapping[OutputName, str] = {"probabilities": PROBABILITIES}


class MultipleChoice(Part):
    """Options that a language model chooses from, by the probability that it gives each.

    Its answer is then a probability for each position of the row's list, so that everything which is computed of a
    classifier is computed of it; the classes are called A, B, C.
    """

    column: str = Field(min_length=1, description="Column with the list of options of each row, as many in every row.")
    show: Literal["letters", "none"] = Field(
        "letters", description="letters: the prompt lists them as A. B. C. in the place for this column; none."
    )
    score: OptionScore = Field(
        "letter",
        description="letter: the probability of the option's letter as the first token. transformers also: the "
        "likelihood of the option's text, as a sum, by its bytes or tokens, or over its likelihood alone (pmi).",
    )
    orders: int = Field(
        1,
        ge=1,
        le=26,
        description="Number of rotations of the options in which each row is asked; each gives one answer, and the "
        "row is the cluster.",
    )

    def listed(self, options: Sequence[str]) -> str:
        """The options as the prompt shows them."""
        if self.show == "none":
            return "\n".join(options)
        return "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))

    def check_orders(self, options: int) -> None:
        """Stop where the options of a row can't be chosen from, or not be asked in so many rotations.

        Raises:
            InputError: A row has not two options, more than there are letters, or fewer than rotations.
        """
        if not 2 <= options <= len(LETTERS):
            raise InputError(f"a row of the column {self.column!r} has {options:,} options; 2 to 26 can be chosen from")
        if self.orders > options:
            raise InputError(
                f"`orders: {self.orders}` asks for more rotations than the {options} options of a row have",
                remedy=f"set orders: {options}",
            )


@dataclass(frozen=True, slots=True)
class ChoiceLayout:
    """How an example shows options and the answer: as the question shows them, and as its answer is scored.

    Args:
        options: Of the model.
        place: Place of the prompt that lists them.
    """

    options: MultipleChoice
    place: str

    def laid_out(self, rows: pa.Table, column: str, answer: str, dataset: str) -> pa.Table:
        """The rows with texts in place of lists of options, and of answers.

        Args:
            rows: The examples.
            column: Column that lists the options.
            answer: Column with the letter, the place, or the text of the right one.
            dataset: Where they come from, for sentences.

        Raises:
            InputError: A row lists no options, or its answer names none of them.
        """
        import pyarrow as pa

        listed = values_of(rows.column(column))
        if not all(isinstance(one, list) and one for one in listed):
            raise InputError(f"the column {column!r} of {dataset!r} holds no list of options in a row that is shown")
        lettered = as_letters(rows, answer, self.options.model_copy(update={"column": column}))
        letters = lettered.column(answer).to_pylist()
        if None in letters:
            raise InputError(
                f"row {letters.index(None)} of {dataset!r} has no {answer!r}, but is an example of the prompt",
                remedy="fill it, or exclude the row with `where:`",
            )
        if self.options.score != "letter":
            letters = [str(one[LETTERS.index(letter)]) for one, letter in zip(listed, letters, strict=True)]
        laid = [self.options.listed([str(option) for option in one]) for one in listed]
        for name, texts in ((column, laid), (answer, letters)):
            rows = rows.set_column(rows.column_names.index(name), name, column_of_texts(texts).cast(pa.string()))
        return rows


def rotated(options: Sequence[str], order: int) -> list[str]:
    """The options, the one in place ``order`` first."""
    return [*options[order:], *options[:order]]


def brought_back(shares: NDArray[Any], order: int) -> NDArray[Any]:
    """Probabilities of rotated options, shape (..., k), in the row's own order."""
    import numpy as np

    return np.roll(shares, order, axis=-1)


def letter_shares(tops: Mapping[str, float], count: int) -> tuple[NDArray[Any], float]:
    """Probability of each letter among the first tokens, adding up to 1, and what they add up to before.

    Args:
        tops: Token: its probability, in 0..1. Tokens that differ in white space alone are one letter.
        count: Options.

    Raises:
        InputError: A letter is not among them.
    """
    import numpy as np

    mass = dict.fromkeys(LETTERS[:count], 0.0)
    seen = set()
    for token, share in tops.items():
        letter = token.strip().strip("▁Ġ")
        if letter in mass:
            mass[letter] += share
            seen.add(letter)
    missing = [letter for letter in mass if letter not in seen]
    if missing:
        raise InputError(
            f"the {len(tops)} likeliest first tokens hold no {missing[0]}, so this option has no probability: the "
            "model does not answer with a letter",
            remedy="end the prompt so that a letter comes next (`Answer:`), begin the answer with `prefill:`, or use "
            "the model's own chat template",
        )
    shares = np.array(list(mass.values()))
    whole = float(shares.sum())
    if whole <= 0.0:
        raise InputError("all letters of the options have probability 0")
    return shares / whole, whole


def chosen_outputs(rows: Sequence[tuple[NDArray[Any], float]]) -> dict[str, NDArray[Any]]:
    """Outputs of some rows.

    Args:
        rows: Of each row the probabilities, shape (k,), and what the letters have together.
    """
    import numpy as np

    return {PROBABILITIES: np.array([shares for shares, _ in rows]), MASS: np.array([mass for _, mass in rows])}


def as_letters(table: pa.Table, label: str, options: MultipleChoice) -> pa.Table:
    """The table with the letter of the right option as the label.

    Args:
        table: Rows with the options.
        label: Column with the truth: a letter, the place counted from 0, or the option's own text.
        options: Which column lists them.

    Raises:
        InputError: A label names none of its row's options.
    """
    import pyarrow as pa

    if options.column not in table.column_names or label not in table.column_names:
        return table
    listed, labels = values_of(table.column(options.column)), values_of(table.column(label))
    whole = pa.types.is_integer(table.schema.field(label).type)
    by_letter = not whole and all(
        one is None or str(one).strip() in LETTERS[: len(choices or ())]
        for one, choices in zip(labels, listed, strict=True)
    )
    letters = []
    for row, (one, choices) in enumerate(zip(labels, listed, strict=True)):
        place = _place(one, choices or (), whole=whole, by_letter=by_letter)
        if one is not None and place is None:
            raise InputError(
                f"row {row} (counted from 0) has the label {one!r}, which is not one of its options",
                remedy="give the right option by its letter, its position counted from 0, or its text",
            )
        letters.append(None if place is None else LETTERS[place])
    return table.set_column(table.column_names.index(label), label, column_of_texts(letters).cast(pa.string()))


def _place(label: Any, choices: Sequence[Any], *, whole: bool, by_letter: bool) -> int | None:
    if label is None:
        return None
    if whole:
        return int(label) if 0 <= int(label) < min(len(choices), len(LETTERS)) else None
    text = str(label).strip()
    if by_letter:
        return LETTERS.index(text)
    texts = [str(one).strip() for one in choices]
    return texts.index(text) if texts.count(text) == 1 else None
