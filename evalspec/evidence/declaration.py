"""Declarations of a check on its own fields and metrics, for those who read its record and do not know the check."""

from __future__ import annotations

from pydantic import Field

from evalspec.evidence.frozen import Frozen
from evalspec.evidence.metric import Shows


class Declaration(Frozen):
    """Of a check: which of its fields say what, and what its metrics show."""

    effort: tuple[str, ...] = Field((), description="Fields that say how much is measured or told, and not what.")
    conditions: tuple[str, ...] = Field((), description="Fields whose value stands among the conditions.")
    lists: tuple[str, ...] = Field((), description="Fields that list parts: with another list each is still the same.")
    shows: tuple[Shows, ...] = Field((), description="What all of its metrics show.")
    metrics: dict[Shows, tuple[str, ...]] = Field(default_factory=dict, description="What only these metrics show.")
    headline: dict[str, int] = Field(
        default_factory=dict, description="Metric that stands for how good answers are: its rank; the lowest is quoted."
    )
    neutral: dict[str, float] = Field(
        default_factory=dict, description="Metric that compares with a baseline: where neither model is better."
    )

    plain_names: dict[str, str] = Field(default_factory=dict, description="Metric: its plain name, where it has one.")

    def is_shown(self, what: Shows, metric: str = "") -> bool:
        """True if a metric shows something.

        Args:
            what: That.
            metric: Its name without a part; empty: any metric.
        """
        return what in self.shows or (metric in self.metrics.get(what, ()) if metric else what in self.metrics)
