"""`cold_start`: how long it takes from nothing to the first answer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Known, Need, NeedTiming
from evalspec.timing.budget import START_S
from evalspec.timing.looks import forms

INTERVAL = "t over processes; against a model t over pairs of processes (log ratios, or differences)"


class ColdStart(Check):
    """How long a fresh process takes to have the model in memory and to give its first answer.

    ## What it measures
    In fresh processes, part by part: `start_time` [s] (the process, its interpreter and evalspec's own modules),
    `import_time` [s] (the framework's packages), `load_time` [s] (from the model's file to a model in memory, on its
    device; the framework is imported already), `first_inference` [ms] (preprocessing, model and answer of the first
    item); `ready_time` [s], all four together; and, of a model that streams its answer, `first_token` [s]: start,
    import, load and the first piece of the first answer. The median of the items after the first is next to it.

    ## Why it matters
    Where instances come and go with the load, a user waits for all of this before the first answer, and where a
    service is started anew, every user does. It is also what hides in a first measurement: compiling, allocating,
    filling caches.

    ## Method
    Fresh processes, 10 unless told otherwise, one after the other, with nothing else of ours running; one number of
    each part from each process, Student's t over the processes, and from above also as lognormal, since times are
    skewed. Against another model: fresh processes of both by
    turns, the other one first in every second pair; t on the log ratio of each pair.

    References: Georges, Buytaert, Eeckhout, OOPSLA 2007 (start-up over fresh processes).

    ## What it cannot show
    A machine that has just started: the files were read before, to make their digests, so they come from the
    operating system's page cache (`page_cache: warm` stands with the result; only root can empty it). Fetching an
    image or weights over a network. What a scheduler takes to place an instance. A server that runs already.
    Starts that are worse than all that were measured: of 5, what one in five is like is missed in a third of runs, and
    what one in twenty is like in three of four (of 10: in one of nine, and in 60 %).

    ## Example
    ```yaml
    - check: cold_start
      dataset: test
      require:
        - load_time <= 2 s
        - first_inference <= 50 ms
        - ready_time <= 5 s
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("start_time", "s", "lower", "From asking for a process to its being there.", interval=INTERVAL),
        Metric("import_time", "s", "lower", "Importing the framework.", interval=INTERVAL),
        Metric(
            "load_time",
            "s",
            "lower",
            "From the model's file to the model in memory.",
            interval=INTERVAL,
            shows=("cost of loading",),
            label="time to load the model",
        ),
        Metric(
            "first_inference",
            "ms",
            "lower",
            "Latency of a process's first item.",
            interval=INTERVAL,
            shows=("cost of a first answer",),
            label="latency of the first query",
        ),
        Metric(
            "first_token",
            "s",
            "lower",
            "Start, import, load and the first token together.",
            interval=INTERVAL,
            label="time to the first token from a cold start",
        ),
        Metric(
            "ready_time",
            "s",
            "lower",
            "Start, import, load and first item together.",
            interval=INTERVAL,
            label="time until the first answer",
        ),
    )

    check: Literal["cold_start"] = "cold_start"
    dataset: DatasetName
    processes: Annotated[int, Effort()] = Field(
        10, ge=5, le=100, description="Fresh processes, or pairs of them against another model."
    )

    def looks(self, known: Known) -> tuple[ColdStart, ...]:
        """After 3 processes, and after two thirds of them."""
        return forms(self)

    def needs(self) -> tuple[Need, ...]:
        """Processes of the model, and pairs with every model that a requirement names."""
        alone = self.processes * START_S
        needs = [NeedTiming(self.dataset, self.model, self.processes, alone)]
        needs += [NeedTiming(self.dataset, one, self.processes, 2 * alone) for one in self.baselines]
        return tuple(needs)
