"""The cut of a dataset's rows into parts, each of which is answered by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.answers.parts import by_rows, rows_of_a_part
from evalspec.language.abilities import AsksAgain, MakesClient, PerDataset

if TYPE_CHECKING:
    from evalspec.language.parts import LoadedModel, Model


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut, which hangs on the dataset's rows and the model's batch alone.

    Args:
        rows: Of the dataset.
        size: Rows of each part but the last.
        elsewhere: Nodes of a cluster can read the rows of a part.
    """

    rows: int
    size: int
    elsewhere: bool = False

    @property
    def parts(self) -> int:
        """How many there are."""
        return -(-self.rows // self.size)

    def range_of(self, number: int) -> tuple[int, int]:
        """First row of a part, and the one after its last."""
        return number * self.size, min(self.rows, (number + 1) * self.size)

    def words(self, number: int) -> str:
        """Rows of a part, for a sentence."""
        first, stop = self.range_of(number)
        return f"rows {first:,} to {stop - 1:,}"


def cut_of(model: Model, loaded: LoadedModel, rows: int | None, *, elsewhere: bool) -> Cut | None:
    """The cut of a dataset for a model; None: the answers are one file.

    A model that is asked in several ways, draws its answers, or is a server is asked about all rows by one process.

    Args:
        model: As the spec has it.
        loaded: The same in memory.
        rows: Of the dataset; None: they can't be read by their numbers.
        elsewhere: Nodes of a cluster can read them.
    """
    if rows is None or not by_rows(model) or isinstance(loaded, PerDataset | AsksAgain | MakesClient):
        return None
    size = rows_of_a_part(rows, loaded.fixed_batch or model.batch)
    return Cut(rows, size, elsewhere and not model.in_memory) if rows > size else None
