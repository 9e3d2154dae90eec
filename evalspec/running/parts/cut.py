"""The cut of a dataset's rows into parts, each of which is answered by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalspec.answers.parts import by_rows, rows_of_a_part
from evalspec.language.abilities import AsksAgain, MakesClient, PerDataset
from evalspec.running.engines.pieces import Cut

if TYPE_CHECKING:
    from evalspec.language.parts import LoadedModel, Model


def cut_of(model: Model, loaded: LoadedModel, rows: int | None, *, elsewhere: bool) -> Cut | None:
    """The cut of a dataset for a model, which hangs on the rows and the batch alone; None: the answers are one file.

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
