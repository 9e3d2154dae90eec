"""`stages`: which stage of a query takes how much of its time."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Need, NeedTiming
from evalspec.timing.budget import START_S, WARMUP_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evalspec.language.requirement import Requirement

GUESS_S = 0.01
"""A guess at how long one query takes, both ways."""


class Stages(Check):
    """Which stage of a query takes how much of its time, and what a faster one would gain.

    ## What it measures
    `stage_share(stage)` [%]: time of a stage by the time of the undivided query. `amdahl_ceiling(stage)` [x]:
    1 / (1 - share), how many times as fast a query would become if the stage took no time at all.

    Stages are called, in this order:

    - the stages of `preprocess` by their keys (`cast`, `resize`, `python`), the second of a name with a number
      (`resize_2`);
    - the model. Kinds `onnx`, `torch`, `python` and `memory`: `inference`. `torch` on a GPU: `copy_to_device`,
      `inference`, `copy_to_host`; `onnx` copies within `inference`. `sklearn`: `inference`; a pipeline of two steps
      or more has `frame` (the table that it takes), each step but the last by its own name (`standardscaler`; one
      that passes rows through has no stage), and `inference`, which is the last step only. `http` and `gguf`:
      `serialize`, making the bytes of requests of arrays in memory, and `server`, all that passes between sending
      them and having their answers, or in its place what the server reports;
    - `postprocess`, making answers of outputs; for `http` and `gguf` it is called `parse`, and reads the bytes before.

    A server tells what it does by the header `Server-Timing` in its answers (`queue;dur=1.2, infer;dur=4.5`, in ms), or
    else by the statistics of the Open Inference Protocol (`queue`, `compute_input`, `compute_infer`, `compute_output`).
    Its parts are stages by the names that it gives them, with four exceptions: `infer` and `compute_infer` are called
    `inference`, so that one requirement holds for every kind of model; a part that has the name of another stage begins
    with `server_` (`server_parse`, `server_serialize`); what is left of the server's own total (`total` in the header,
    `success` in the statistics) is `server_other`; and what is left of the wait for it is `transfer`: the network, and
    all handling of HTTP that it does not report. Parts of the header must follow one another; none may be inside
    another, but for `total`. Of a model that streams its answers (`protocol: openai`, `gguf`) a client knows two stages
    itself: `decode`, from the first piece with text to the end, and `prefill`, all before it: queries come one after
    the other, so it is the server's prefill, its own waiting and the network. A server that reports `queue` or
    `prefill` in its header has these apart, and the rest is `transfer`; what it does not report can't be separated from
    outside.

    A model with a fixed batch, or a pipeline that gives several outputs, is one `inference`. A requirement on a stage
    that is not there is NOT_RUN, and names those that are.

    ## Why it matters
    A model that becomes three times as fast gains little where preprocessing takes the time: with 8 ms of
    preprocessing beside 10 ms of inference no accelerator makes the query more than 2.25 times as fast. So the money
    goes where the ceiling is high.

    ## Method
    In each of at least 5 fresh processes the same queries are served in two ways, in blocks A B B A: stage by stage,
    with the clock read between stages and the device waited for at the end of each, and undivided. A share is the time
    of the stage by that of the undivided query in the same process, both as means without the fastest and the slowest
    tenth of the queries; Student's t over the processes. The ceiling is that interval, carried over.
    A server's statistics are counters, read before and after every tenth of the queries that are divided: means, so
    that such stages have no p50 and p99. What a server tells is used only where it covers every query, where its
    counters moved by as many requests as were sent (others may use it), and where it adds up to no more than the wait;
    otherwise the notes say why not, and `server` stays one stage.
    The sum of the stages minus the undivided time is shown: where it is above zero the stages overlap when they are not
    divided, and their shares add up to more than 100 %; where it is below, time goes between them.

    References: Amdahl, AFIPS 1967. Georges, Buytaert, Eeckhout, OOPSLA 2007 (processes). W3C, Server Timing. Triton
    Inference Server, protocol/extension_statistics.md.

    ## What it cannot show
    What happens before a row is an array in memory, unless a preprocessing stage does it: reading and decoding files.
    Waiting behind others: queries come one after the other, so that the `queue` of a server is what it waits for by
    itself, such as more rows for a batch; see load. What a server does that tells nothing. Stages that are slow for
    fewer than one query in ten; see the p99 in the table, and latency. What a faster stage does to the others where
    stages overlap: the ceiling takes them for one after the other.

    ## Example
    ```yaml
    - check: stages
      dataset: test
      require:
        - stage_share(inference) >= 50 %
      warn:
        - amdahl_ceiling(resize) <= 1.5x
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "stage_share", "%", "neither", "Time of a stage by the time of the undivided query.", parts="stage",
            interval="t over processes",
            shows=("share of a stage",), label="share of a stage",
        ),
        Metric(
            "amdahl_ceiling", "x", "neither", "Speed-up of a query if the stage took no time.", parts="stage",
            interval="that of the share, carried over", least=1.0, label="speed-up without the stage",
        ),
    )  # fmt: skip

    check: Literal["stages"] = "stages"
    dataset: DatasetName
    batch_size: int = Field(1, ge=1, le=65_536, description="Items in a query.")
    processes: Annotated[int, Effort()] = Field(5, ge=5, le=100, description="Fresh processes.")
    queries: Annotated[int, Effort()] = Field(500, ge=100, description="Queries of all processes together, each way.")
    warmup: Annotated[int, Effort()] = Field(
        16, ge=3, description="Queries before measuring, each way, in each process."
    )

    @property
    def each(self) -> int:
        """Queries in each process, each way: an even number."""
        return 2 * ceil(self.queries / (2 * self.processes))

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model."""
        seconds = self.processes * (START_S + 2 * WARMUP_S + 2 * self.each * GUESS_S)
        return (NeedTiming(self.dataset, self.model, 2 * self.each * self.processes, seconds),)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: it is compared with another model, or its threshold can't be reached."""
        if requirement.model is not None:
            return f"{requirement.metric} has no paired comparison with another model; compare it with a number"
        if requirement.metric == "amdahl_ceiling" and requirement.upper and requirement.threshold <= 1.0:
            return "amdahl_ceiling is never below 1x: no stage takes less than no time"
        return None
