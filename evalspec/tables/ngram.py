"""Rule for which spans of two texts count as shared."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from pydantic import Field

from evalspec.language.parts import Part
from evalspec.language.units import Share

SIZES = {"any_hit": 13, "coverage": 8, "longest_match": 8}
CHARACTERS = 50
PALM_SHARE = 0.7
GPT3_MOST_ROWS = 10


class Ngram(Part):
    """Rule for what counts as a span that a test row shares with training."""

    rule: Literal["any_hit", "coverage", "longest_match"] = Field(
        "any_hit",
        description="any_hit: one n-gram is enough (GPT-3); coverage: a share of the row's n-grams (PaLM); "
        "longest_match: the longest span's share of the row's words (ConTAM).",
    )
    unit: Literal["words", "characters", "tokens"] = Field("words", description="Unit of an n-gram.")
    tokenizer: str | None = Field(
        None, min_length=1, description="unit: tokens: the Hugging Face `tokenizer.json` that splits texts into them."
    )
    n: int | None = Field(
        None, ge=2, le=1000, description="Words in an n-gram; default: 13, 8, 8 by rule; of characters 50."
    )
    share: Share | None = Field(
        None, gt=0.0, le=1.0, description="coverage, longest_match: share from which on a row is flagged; PaLM: 70 %."
    )
    min_count: int = Field(1, ge=1, description="An n-gram counts from so many training rows on that it occurs in.")
    max_rows: int | None = Field(
        None, ge=1, description="any_hit: n-grams that occur in more training rows are dropped; default: 10 (GPT-3)."
    )
    skip: int = Field(0, ge=0, le=100, description="longest_match: words between two spans that don't part them.")

    @property
    def size(self) -> int:
        """Tokens in an n-gram."""
        return self.n or (CHARACTERS if self.unit == "characters" else SIZES[self.rule])

    @property
    def max_rows_used(self) -> int | None:
        """n-grams in more training rows are dropped; None: none are."""
        return (self.max_rows or GPT3_MOST_ROWS) if self.rule == "any_hit" else None

    @property
    def share_used(self) -> float:
        """Share of a row from which on it is flagged."""
        return self.share if self.share is not None else PALM_SHARE

    @property
    def problem(self) -> str | None:
        """Conflict of fields, or missing package, in one sentence with the remedy; None where there is none."""
        if (self.unit == "tokens") != (self.tokenizer is not None):
            return "`unit: tokens` and `tokenizer: tokenizer.json` go together; write both, or neither"
        if self.unit == "tokens" and find_spec("tokenizers") is None:
            return "`unit: tokens` needs the package tokenizers: pip install 'evalspec-gate[text]'"
        if self.rule == "any_hit" and self.share is not None:
            return "`share:` goes with `rule: coverage` or `rule: longest_match`; any_hit flags from one n-gram on"
        if self.rule == "longest_match" and self.share is None:
            return "`rule: longest_match` needs a `share:` of the row, such as share: 30 %; it has no usual one"
        if self.rule != "any_hit" and self.max_rows is not None:
            return "`max_rows:` goes with `rule: any_hit`; the other rules drop no n-gram"
        if self.rule != "longest_match" and self.skip:
            return "`skip:` goes with `rule: longest_match`; remove it"
        if self.rule == "any_hit" and self.min_count > (self.max_rows_used or 0):
            return (
                f"`min_count: {self.min_count}` is more than the {self.max_rows_used} rows from which on it is dropped"
            )
        return None

    @property
    def method(self) -> str:
        """Rule in a few words."""
        grams = f"{self.size}-grams of {self.unit}"
        if self.rule == "any_hit":
            return f"any of the row's {grams} in {self.min_count} to {self.max_rows_used} training rows"
        grams += f" (in {self.min_count} training rows or more)" if self.min_count > 1 else ""
        if self.rule == "coverage":
            return f"at least {100 * self.share_used:g} % of the row's {grams} seen in training"
        return f"longest span of {grams} seen in training over at least {100 * self.share_used:g} % of the row"
