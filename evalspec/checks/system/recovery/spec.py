"""`recovery`: how a served model comes back after it was killed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.checks.system.recovery.defects import kill_defects
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Need, NeedTiming
from evalspec.language.units import Duration, QueryRate
from evalspec.timing.budget import START_S

if TYPE_CHECKING:
    from evalspec.language.defects import Defect
    from evalspec.language.requirement import Requirement

SETTLE_S = 1.0
"""Queries go on for so long after the server is ready again."""
GUESS_S = 5.0


class Recovery(Check):
    """How long a served model is away when it is killed under load, and how many requests are lost.

    ## What it measures
    `time_to_healthy` [s]: from the kill until the server says that it is ready again. `lost_requests`: queries without
    an answer in the worst of all kills: those that it was answering, those that nobody took while it was away, and
    those that failed until the load ends, a second after it is ready. `first_token` [s]: of a model that streams its
    answers, from the kill until the first piece of an answer to what was asked since.

    ## Why it matters
    Processes are killed: by lack of memory, by a new version, with their machine. What users notice is how long the
    model takes to load again, and whether a client waits, retries or gives up meanwhile.

    ## Method
    Needs a model of `kind: http` with `start:`, the command that starts its server; it runs under --trust only. For
    each of `repeats:` kills queries come at random (Poisson, `rate:`), whether or not the ones before were answered.
    After `kill_after:` the whole process group is killed (SIGKILL), the command is run again at once, and the health
    path is asked every 10 ms. A query fails when it has no answer within `timeout:`; nothing is sent twice.
    `time_to_healthy` and `first_token` have Student's t over the kills; a server that is not ready within `within:`
    even once is a fact of this run, and no further kill is made. `lost_requests` is a fact of this run.

    References: Candea and Fox, HotOS 2003 (crash-only software).

    ## What it cannot show
    What a supervisor or an orchestrator adds before it starts the command. Cold disks: files are in memory from the
    start before. A balancer with several replicas, which may lose nothing. A server that is alive and answers wrongly.

    ## Example
    ```yaml
    - check: recovery
      dataset: test
      rate: 50 qps
      kill_after: 2 s
      require:
        - time_to_healthy <= 10 s
        - lost_requests <= 500
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("time_to_healthy", "s", "lower", "From the kill until the server is ready.", interval="t over kills"),
        Metric(
            "first_token",
            "s",
            "lower",
            "From the kill until the first token of an answer.",
            interval="t over kills",
            label="time to the first token from a cold start",
        ),
        Metric("lost_requests", "count", "lower", "Queries without an answer in the worst kill.", exact=True),
    )

    needs_start: ClassVar[bool] = True

    check: Literal["recovery"] = "recovery"
    dataset: DatasetName
    rate_qps: QueryRate = Field(50.0, gt=0, le=10_000, alias="rate", description="Of the queries meanwhile.")
    kill_after_s: Duration = Field(
        2.0, gt=0, le=600, alias="kill_after", description="From the first query to the kill."
    )
    within_s: Duration = Field(60.0, gt=0, le=3600, alias="within", description="Longest wait for it to be ready.")
    timeout_s: Duration = Field(2.0, gt=0, le=600, alias="timeout", description="A query that takes longer has failed.")
    repeats: Annotated[int, Effort()] = Field(5, ge=3, le=100, description="Kills.")
    connections: int = Field(16, ge=1, le=1000, description="Connections to the server.")

    def defects(self) -> tuple[Defect, ...]:
        """Defects of the server that is killed."""
        return tuple(kill_defects(self.model))

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model."""
        each = self.kill_after_s + SETTLE_S + GUESS_S
        return (NeedTiming(self.dataset, self.model, int(self.rate_qps * each), START_S + self.repeats * each),)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't be decided: the wait is shorter than what is required, or another model is named."""
        if requirement.model is not None:
            return "recovery has no comparison with another model"
        if requirement.metric in ("time_to_healthy", "first_token") and requirement.threshold >= self.within_s:
            return f"a server is given up after {self.within_s:g} s; make `within:` longer than what is required"
        return None
