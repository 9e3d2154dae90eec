"""Remedies that a check knows for its own requirements, as data: pages, terminal and CI put them into words."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from evalspec.evidence.frozen import Frozen


class KnownRemedy(Frozen):
    """Base of all remedies."""

    metrics: tuple[str, ...] = Field(description="Metrics whose requirements it would help to meet.")


class RemoveRows(KnownRemedy):
    """Rows to remove from a dataset."""

    remedy: Literal["remove rows"] = "remove rows"
    dataset: str
    rows: tuple[int, ...] = Field(description="Numbers of the first of them, from 0.")
    total: int
    also_in: tuple[str, ...] = Field((), description="Other datasets that contain them.")
    score: str = Field("", description="Metric of the model's answers to the rows that are left; empty: none is known.")
    score_left: float | None = Field(None, description="Its value on them, in the metric's unit.")
    score_unit: str = ""
    file: str = Field("", description="Evidence that lists all of them; empty: none does.")


class CorrectLabels(KnownRemedy):
    """Rows whose label needs a check, the most suspect first."""

    remedy: Literal["correct labels"] = "correct labels"
    dataset: str
    rows: tuple[int, ...] = Field(description="Numbers of the first of them, from 0.")
    total: int
    file: str = Field("", description="Evidence that lists all of them; empty: none does.")


class Recalibrate(KnownRemedy):
    """A map of probabilities, fitted on one half of the rows and judged on the other."""

    remedy: Literal["recalibrate"] = "recalibrate"
    method: str
    value: float | None = Field(description="Of the first metric, after it, in the metric's unit.")
    upper: float | None = Field(description="Upper bound of it at the policy's confidence.")
    unit: str
    n: int = Field(description="Rows that it was judged on.")
    file: str = Field("", description="Evidence that holds the map; empty: none does.")


AnyRemedy = Annotated[RemoveRows | CorrectLabels | Recalibrate, Field(discriminator="remedy")]
MOST_ROWS = 8
"""Rows that a remedy names."""
