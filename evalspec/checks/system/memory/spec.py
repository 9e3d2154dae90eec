"""`memory`: how much a model takes, on disk and while it serves."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort, Listing
from evalspec.language.parts import Check, DatasetName, Need, NeedTiming, SpecNames
from evalspec.timing.budget import START_S, batch_parts


class Memory(Check):
    """How much memory a model takes while it serves, and how large it is.

    ## What it measures
    `peak_host_memory(batch 8)` [MiB]: the most that was resident of a process that loads the model and serves
    batches of this size; without a part, of all batch sizes. `peak_device_memory(batch 8)` [MiB]: the most of the
    GPU's memory. `model_size` [MiB]: the files of the artifact. `parameters`: numbers that training has set, as the
    loaded model counts them.

    ## Why it matters
    A process that needs more than the machine has is killed, and on a GPU it fails with the batch that was one too
    large. How many models fit on a machine, and which batch they may have, is decided here. A small file may need much
    memory: what is compressed on disk is often expanded when it is loaded.

    ## Method
    A fresh process for each batch size (`processes:` of each) loads the model, then serves 20 batches. The kernel
    counts the largest resident size (`VmHWM`) while it loads and while it serves; the larger counts. Interpreter,
    framework, model and buffers are in it, and evalspec with the rows that it keeps in memory, which the table names
    apart: it is an upper bound of what the model itself needs. Memory of the GPU is NVML's for this process, read
    ten times a second, or what the framework says it reserved where that is more. These are observed maxima, facts
    of this run without an interval. Size and parameters are counted.

    References: proc(5), VmHWM. NVML API reference, nvmlDeviceGetComputeRunningProcesses.

    ## What it cannot show
    What a longer run would need: leaks, fragments, larger inputs than this dataset's. What several requests at once
    need. Memory that is shared with other processes counts whole. A peak on the GPU between two readings, unless the
    framework keeps what it took, as torch and onnxruntime do.

    ## Example
    ```yaml
    - check: memory
      dataset: test
      batch_sizes: [1, 32]
      require:
        - peak_host_memory <= 512 MiB
        - peak_host_memory(batch 32) <= 1.5x baseline
        - model_size <= 64 MiB
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("peak_host_memory", "MiB", "lower", "Largest resident size; without a part, of all batch sizes.",
               parts="batch", whole=True, exact=True, shows=("host memory",), label="peak memory",
           ),
        Metric("peak_device_memory", "MiB", "lower", "Most of the GPU's memory; without a part, of all batch sizes.",
               parts="batch", whole=True, exact=True, label="peak memory of the device",
           ),
        Metric("model_size", "MiB", "lower", "Size of the artifact's files.", exact=True),
        Metric(
            "parameters", "count", "lower", "Numbers that training has set.", exact=True,
            label="number of parameters",
        ),
    )  # fmt: skip

    check: Literal["memory"] = "memory"
    dataset: DatasetName
    batch_sizes: Annotated[tuple[Annotated[int, Field(ge=1, le=65_536)], ...], Listing()] = Field(
        (1, 32), min_length=1, description="Items in a batch."
    )
    processes: Annotated[int, Effort()] = Field(
        1, ge=1, le=100, description="Fresh processes for each batch size; the largest counts."
    )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Batch sizes, each once, rising."""
        return tuple(sorted(set(self.batch_sizes)))

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """One part for each batch size."""
        return batch_parts(self.batch_sizes) if metric.parts == "batch" else None

    def needs(self) -> tuple[Need, ...]:
        """Processes of the model, and of every model that a requirement names."""
        runs = len(self.sizes) * self.processes
        return tuple(NeedTiming(self.dataset, one, runs, runs * START_S) for one in (self.model, *self.baselines))
