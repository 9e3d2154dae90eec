"""Models that are both timed and judged, and clocks that say what they are told."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evalspec.language.inputs import Predictions, Samples, Schedule
from tests.checks.planting import confident
from tests.fakes import classifier, samples
from tests.stories.telling import Planted, Tale

ROWS = np.arange(10_000)
CLASSES = ["no", "yes"]
ASKED = {"caching_audit": False, "dataset": "asked"}


def clock(ms: Mapping[str, float], baseline: str = "", waiting: float = 0.0) -> Planted:
    """Models that take about so long; a share of the queries waits 490 ms more."""
    draw = np.random.default_rng(2)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        at_least = 5000.0 / ms[model] if baseline else 200.0
        count = int(max(at_least, schedule.queries)) // 2 * 2
        blocks = np.repeat([1, 2] if model == baseline else [0, 3], count // 2) if baseline else np.zeros(count)
        return [
            samples(ms[model] * draw.gamma(2500.0, 1 / 2500.0, count) + 490.0 * (draw.random(count) < waiting),
                    process=process, model=model, block=blocks)
            for process in range(schedule.processes)
        ]  # fmt: skip

    return Planted(make)


def judged(
    tale: Tale, model: str, dataset: str, right: np.ndarray, sure: float = 0.96, **fields: object
) -> Predictions:
    """A model that answers these rows so, and is there to be timed as well."""
    if dataset not in tale.datasets:
        label = pa.array(np.array(CLASSES)[np.arange(len(right)) % 2])
        tale.rows(dataset, {"one_in_five": np.arange(len(right)) % 5 == 0, "label": label}, label="label")
    column = f"said_by_{model}"
    path = tale.folder / f"{dataset}.parquet"
    said = confident(np.arange(len(right)) % 2, right, 2, sure)
    table = pq.read_table(path)
    said_of_rows = pa.FixedSizeListArray.from_arrays(said.ravel(), 2)
    pq.write_table(table.append_column(column, said_of_rows), path)
    tale.echo(model, {"probabilities": column}, classes=CLASSES, **fields)
    return classifier(said, np.arange(len(right)) % 2, dataset=dataset, model=model)


def answered(*answers: Predictions, **beside: object) -> dict[str, object]:
    """What a check that times after judging is told of these answers, while its timings are planted."""
    return {"answers": {(one.dataset, one.model): one for one in answers}, **beside}
