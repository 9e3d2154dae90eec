"""What a probe is handed, made of a model file and rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.evidence.frozen import Cell
from evalspec.language.parts import Access, Model
from evalspec.measure.probes import Context
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served


def context(model: Model, folder: Path, array: NDArray[Any], options: Mapping[str, Cell]) -> Context:
    """Of a model whose one input is a column ``x`` with these rows."""
    access = Access(folder=folder, trust=True)
    loaded = model.load(access, threads=1)
    rows = Served(model, loaded, access, DatasetFacts("test")).rows(pa.table({"x": pa.array(list(array))}))
    return Context(
        model=model, loaded=rows.served.loaded, rows=rows,
        tensors=lambda index: dict(rows.served.prepare(rows.take(index))), access=access, options=options,
        seed=3, progress=lambda *_: None,
    )  # fmt: skip


def bare(loaded: Any, rows: Any = None, **options: Cell) -> Context:
    """Of a loaded model that shows nothing of its inside."""
    made: Any = SimpleNamespace(kind="python")
    return Context(
        model=made, loaded=loaded, rows=rows, tensors=lambda index: {"x": np.ones((len(index), 2))},
        access=Access(folder=Path()), options=options, seed=0, progress=lambda *_: None,
    )  # fmt: skip


def export(module: Any, path: Path, width: int) -> None:
    """A torch module on rows of so many numbers, as an exported program with a free batch."""
    import torch

    shapes = ({0: torch.export.Dim("n")},)
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(4, width),), dynamic_shapes=shapes), path)
