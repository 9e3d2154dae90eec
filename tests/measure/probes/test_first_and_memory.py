"""Probes of the first query and of memory, on a model of ours in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.errors import NotRunError
from evalspec.evidence.frozen import Cell
from evalspec.language.parts import Access, Model
from evalspec.measure.probes import Context, first_inference, memory

MIB = 2**20


class Rows:
    """Rows whose first query takes long, and whose batches take memory."""

    n = 7

    def __init__(self, take_mib: int = 0) -> None:
        self.asked: list[list[int]] = []
        self.synchronized = 0
        self._take_mib = take_mib

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows

    def serve(self, query: NDArray[np.int64]) -> NDArray[np.int64]:
        self.asked.append(query.tolist())
        if self._take_mib:
            np.ones(self._take_mib * len(query) * MIB, dtype=np.uint8).sum()
        return query

    def synchronize(self) -> None:
        self.synchronized += 1

    def answers(self, outputs: Any) -> NDArray[np.float64]:
        return np.zeros(1)


class Loaded:
    """A model in memory that knows how large it is."""

    observed: Mapping[str, Cell] = {}
    input_names = output_names = ()
    fixed_batch = None

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {}

    def close(self) -> None:
        """Nothing."""

    def parameters(self) -> int | None:
        return 15

    def peak_device_bytes(self) -> int | None:
        return 3 * MIB


class Server(Model):
    served: ClassVar[bool] = True


def context(rows: Rows, loaded: object, model: type[Model] = Model, **options: Cell) -> Context:
    return Context(
        model=model(kind="test"), loaded=loaded, rows=rows, tensors=lambda index: {}, access=Access(Path(".")),  # type: ignore[arg-type]  # stand-ins
        options=options, seed=1, progress=lambda done, total, what: None,
    )  # fmt: skip


def test_the_first_query_and_those_after_it() -> None:
    rows = Rows()
    found = first_inference.probe(context(rows, Loaded(), queries=5))
    assert len(rows.asked) == 6 == rows.synchronized
    assert len({tuple(one) for one in rows.asked}) == 6, "another row each time, so that no cache answers"
    spent = found.series["inference_ms"]
    assert spent.shape == (6,) and (spent > 0).all() and found.facts["first_inference_ms"] == spent[0]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")
def test_memory_that_a_batch_takes_is_seen_although_it_is_given_back() -> None:
    # 64 MiB at once: glibc gives no more than 32 of what was freed before, which would be resident already.
    found = memory.probe(context(Rows(take_mib=16), Loaded(), batch=4, queries=3)).facts
    before, host = found["resident_before_mib"], found["peak_host_mib"]
    assert isinstance(before, float) and isinstance(host, float)
    assert host >= before + 60.0
    serving = found["peak_serving_mib"]
    assert serving is None or (isinstance(serving, float) and before + 60.0 <= serving <= host)


def test_what_the_model_and_its_framework_say() -> None:
    rows = Rows()
    found = memory.probe(context(rows, Loaded(), batch=4)).facts
    assert (found["parameters"], found["peak_framework_mib"]) == (15, 3.0)
    assert len(rows.asked) == 20 and all(len(one) == 4 for one in rows.asked)
    silent = memory.probe(context(Rows(), object(), batch=1)).facts
    assert silent["parameters"] is None and silent["peak_framework_mib"] is None


@pytest.mark.parametrize("probe", [first_inference.probe, memory.probe])
def test_a_server_can_not_be_seen_from_here(probe: Any) -> None:
    with pytest.raises(NotRunError, match="runs already"):
        probe(context(Rows(), Loaded(), Server))
