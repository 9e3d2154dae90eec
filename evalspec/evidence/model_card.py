"""Scores as the hub of models reads them: the files of ``.eval_results/`` in a repository of a model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, RootModel

from evalspec.evidence.frozen import Frozen


class Benchmark(Frozen):
    """Which benchmark of the hub the rows of a dataset are: where its score stands on a model card."""

    id: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="The benchmark's dataset on the hub: owner/name.")
    task: str = Field(min_length=1, description="Id of its task, as the `eval.yaml` of that dataset calls it.")
    metric: str = Field(
        min_length=1, description="What its score is, as a requirement names it: accuracy, top_k_accuracy(5)."
    )
    unit: Literal["fraction", "%"] = Field("fraction", description="How it prints a share: 0.709, or 70.9 with `%`.")
    revision: str | None = Field(None, description="Commit of that dataset.")


class BenchmarkTask(Frozen):
    """Which task of which benchmark a score is of."""

    id: str = Field(description="The benchmark's dataset on the hub: owner/name.")
    task_id: str = Field(description="Its task, as the `eval.yaml` of that dataset calls it.")
    revision: str | None = Field(None, description="Commit of that dataset.")


class EvalResult(Frozen):
    """One score."""

    dataset: BenchmarkTask
    value: float
    date: str = Field(description="When the run began, ISO 8601.")
    notes: str = Field(description="Metric, n, bounds, method, model and rows, for people.")


class EvalResults(RootModel[tuple[EvalResult, ...]]):
    """A file of ``.eval_results/``: one entry for each task of a benchmark."""
