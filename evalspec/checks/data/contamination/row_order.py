"""Order in which a test set was published: a model that was trained on the file finds it likelier than others.

References:
    Oren and others (2023), Proving test set contamination in black box language models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.units import format_number
from evalspec.language.likelihoods import Windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evalspec.checks.data.contamination.spec import Contamination
    from evalspec.language.inputs import Inputs

WINDOWS = Windows(256, 128, None)
SHARDS, CHARACTERS, FEWEST_ROWS = 4, 2000, 6
"""Runs of neighbouring rows that are shuffled, each in itself; letters of one, and rows that it has at least."""
SUSPICIOUS = 0.01


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rank of the published order among shuffled ones.

    Args:
        model: Its name.
        test: Name of the test set.
        rows: That were put in order.
        shuffles: Orders beside the published one.
        as_likely: Of them, those that the model finds as likely as the published one, or likelier.
    """

    model: str
    test: str
    rows: int
    shuffles: int
    as_likely: int

    @property
    def p_value(self) -> float:
        """Exact where all orders of the rows are equally likely to be published."""
        return (1 + self.as_likely) / (1 + self.shuffles)

    @property
    def suspicion(self) -> tuple[str, ...]:
        """A sentence where the published order stands out."""
        if self.p_value > SUSPICIOUS:
            return ()
        return (
            f"{self.model} finds the published order of {self.test} likelier than {self.shuffles - self.as_likely:,} "
            f"of {self.shuffles:,} shuffled ones (p = {format_number(self.p_value)}): unless the file is sorted, it "
            "has seen the file",
        )

    def table(self) -> Table:
        """The rank."""
        columns = tuple(Column(name=one) for one in ("rows", "shuffles", "as likely or likelier", "p-value"))
        rows = ((self.rows, self.shuffles, self.as_likely, self.p_value),)
        return Table(title=f"Published order of {self.test}, by {self.model}", columns=columns, rows=rows)


def row_order(check: Contamination, inputs: Inputs, texts: Sequence[str]) -> RowOrder:
    """Ask a model for the likelihood of the first rows in their order, and in others.

    Raises:
        NotRunError: The model gives no likelihoods, or too few rows are short enough.
    """
    assert check.recite is not None
    shards = _shards(texts)
    if not shards:
        raise NotRunError(
            f"the order of {check.test} says nothing: no {FEWEST_ROWS} neighbouring rows have {CHARACTERS:,} letters "
            "at most together, and differ"
        )
    orders = ["\n\n".join(shard) for shard in shards]
    for _ in range(check.shuffles):
        orders += ["\n\n".join(shard[row] for row in inputs.rng.permutation(len(shard))) for shard in shards]
    asked = inputs.token_likelihoods(orders, "orders of rows", WINDOWS, check.recite)
    sums = asked.nll.reshape(-1, len(shards)).sum(axis=1)
    # Sums of the same numbers in another order differ in their last digits.
    as_likely = int((sums[1:] <= sums[0] + 1e-9 * abs(sums[0])).sum())
    return RowOrder(check.recite, check.test, sum(map(len, shards)), check.shuffles, as_likely)


def _shards(texts: Sequence[str]) -> list[list[str]]:
    """Runs of neighbouring rows from the first on, each with as many letters as may be."""
    shards: list[list[str]] = []
    shard: list[str] = []
    for text in [*(one for one in texts if one.strip()), "x" * (CHARACTERS + 1)]:
        if sum(map(len, shard)) + len(text) > CHARACTERS:
            if len(set(shard)) >= FEWEST_ROWS:
                shards.append(shard)
            shard = []
            if len(shards) == SHARDS:
                break
        shard.append(text)
    return shards
