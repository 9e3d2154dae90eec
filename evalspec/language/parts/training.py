"""Base of the kinds of training log: a kind is one class of this, in a file of ``evalspec/trainings``."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from evalspec.errors import Problem
from evalspec.language.parts.dataset import Dataset
from evalspec.language.units import Duration, HourlyPrice, custom_error

Seed = Annotated[int, Field(ge=0)]


class Training(Dataset):
    """Runs of one training recipe, each with a seed of its own, as rows of evaluations.

    A row is one value of one measure in one run. Columns: ``run``, ``seed``, ``workers``, ``step``, ``samples``,
    ``time_s`` (since the run began), ``before_s`` (from the start of the process to that), ``end_s``, ``energy_j``,
    ``status``, ``metric``, ``value``, ``limit_s``, ``usd_h``, ``started``, ``batch``; of a run that the gate made also
    ``spoiled`` and ``lag_s``; empty where the log does not say.
    """

    rows_fit: ClassVar[bool] = True
    supervised: ClassVar[bool] = False
    """Its runs are made by whoever runs the spec; until then it has none."""

    limit_s: Duration | None = Field(
        None, alias="limit", gt=0, description="Longest time that a run may take; what comes later is not reached."
    )
    seeds: int | tuple[Seed, ...] | None = Field(
        None, description="Seeds of all runs that were started, or their number: a run that is not there is missed."
    )
    workers: int | None = Field(
        None, ge=1, description="Workers (GPUs) of each run, where neither the path nor the log tells."
    )
    cost_usd_h: HourlyPrice | None = Field(None, alias="cost", gt=0, description="Price of one worker: 3.06 USD/h.")

    @model_validator(mode="before")
    @classmethod
    def _no_rows(cls, values: Any) -> Any:
        """Refuse the fields of a dataset that say nothing of a log."""
        named = sorted(set(values) & OF_ROWS) if isinstance(values, dict) else []
        if named:
            raise custom_error(Problem(f"a training has no `{named[0]}`", remedy=f"remove `{named[0]}:`"))
        return values

    @model_validator(mode="after")
    def _seeds_differ(self) -> Self:
        if isinstance(self.seeds, tuple) and len(set(self.seeds)) < len(self.seeds):
            twice = next(one for one in self.seeds if self.seeds.count(one) > 1)
            raise custom_error(Problem(f"seed {twice} is listed twice", remedy="give each run a seed of its own"))
        return self

    def runs_code(self) -> tuple[str, ...]:
        """Parts of it that run only under --trust, as text for messages."""
        return ()

    @property
    def longest_s(self) -> float:
        """Longest time that its runs may take, one after the other; 0: none is made."""
        return 0.0

    @property
    def starts_of_kill(self) -> int:
        """Starts of a run that is killed once, each of which may take as long as a run."""
        return 2

    def outlook(self, confidence: float) -> tuple[str, ...]:
        """Sentences of a plan: runs that are to be made, what they may take and what they can show.

        Args:
            confidence: Of the policy.
        """
        return ()

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema without the fields of rows."""
        shown = handler.resolve_ref_schema(handler(schema))
        for name in OF_ROWS:
            shown.get("properties", {}).pop(name, None)
        return shown


OF_ROWS = frozenset(Dataset.model_fields) - {"kind"}
"""Fields of a dataset that a training has not."""
