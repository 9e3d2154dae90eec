"""Operators of one batch as the probe `precision` saw them: where each ran, and how many a model is written with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.estimate import Fact
from evalspec.evidence.words import first_of, in_percent
from evalspec.timing import probes as timing_probes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Probe

SHOWN_NAMES = 3
MOST_ROWS = 30
MOST_KINDS = 5


class Operators:
    """The operators of one batch, as arrays of one entry for each.

    ``took_us`` is empty where no time was measured. ``written_kinds`` and ``written_families`` are of the model as it
    is written, before a runtime fuses or adds anything.
    """

    def __init__(self, probe: Probe) -> None:
        """Read the results of the probe."""
        self.names = probe.texts.get("names", ())
        self.kinds = np.array(probe.texts.get("kinds", ()), dtype=object)
        self.places = np.array([device_of(place) for place in probe.texts.get("places", ())], dtype=object)
        self.providers = probe.texts.get("providers", ("",) * len(self.names))
        self.computes = np.array(probe.texts.get("computes", ()), dtype=object)
        self.weights = np.array(probe.texts.get("weights", ()), dtype=object)
        self.activations = np.array(probe.texts.get("activations", ()), dtype=object)
        self.operations = probe.series.get("operations", np.empty(0))
        self.weight_bytes = probe.series.get("weight_bytes", np.empty(0))
        self.took_us = probe.series.get("took_us", np.empty(0))
        self.run_us = timing_probes.number(probe, "run_us")
        self.written_kinds = probe.texts.get("written_kinds", ())
        self.written_families = probe.texts.get("written_families", ())

    def __len__(self) -> int:
        return len(self.names)

    def on(self, device: str) -> NDArray[np.bool_]:
        """Mask of those that ran there, shape (operators,)."""
        return np.asarray(self.places == device, dtype=np.bool_)

    def time_share(self, chosen: NDArray[np.bool_]) -> float | None:
        """Share of the time of one run that the host spent on some of them; None: not measured.

        Args:
            chosen: shape (operators,).
        """
        if not self.run_us or len(self.took_us) != len(self):
            return None
        return min(1.0, float(self.took_us[chosen].sum()) / self.run_us)


def look(inputs: Inputs, dataset: str, model: str, batch: int) -> tuple[Probe, Operators]:
    """Ask one fresh process what runs for a batch.

    Args:
        inputs: What the check is handed.
        dataset: Whose rows are served.
        model: Name of the model.
        batch: Items.

    Raises:
        NotRunError: No operators were seen.
    """
    probes = inputs.probe("precision", dataset, model, options={"batch": batch})
    if not probes or not probes[0].texts.get("names"):
        raise NotRunError("no operators were seen, so nothing is known of their precision or their place")
    return probes[0], Operators(probes[0])


def device_of(name: str) -> str:
    """A device as operators name it."""
    return "cuda:0" if name == "cuda" else name


def coverage(operators: Operators, there: NDArray[np.bool_]) -> Fact:
    """Share of the operators that ran where they were asked to.

    Args:
        operators: All.
        there: shape (operators,), those that did.
    """
    away = [f"{operators.kinds[at]} on {operators.places[at]}" for at in np.flatnonzero(~there)]
    return Fact(
        float(there.mean()), len(there), "operators that ran, counted", first=first_of(list(dict.fromkeys(away)))
    )


def fell_back(operators: Operators, there: NDArray[np.bool_], device: str, of: str = "") -> list[str]:
    """A sentence on operators that ran elsewhere; nothing where none did.

    Args:
        operators: All.
        there: shape (operators,), those that ran on the device.
        device: Where they were to run.
        of: Words between "operators" and the rest, such as `` of baseline``.
    """
    if there.all():
        return []
    kinds = sorted(set(operators.kinds[~there].astype(str)))
    listed = ", ".join(kinds[:MOST_KINDS]) + (", ..." if len(kinds) > MOST_KINDS else "")
    share = operators.time_share(~there)
    took = "" if share is None else f" They took {in_percent(round(share, 3))} of one run's time."
    away = int((~there).sum())
    return [f"{away:,} of {len(operators):,} operators{of} did not run on {device}: {listed}.{took}"]


def listed(
    operators: Operators, chosen: NDArray[np.bool_], title: str, what: NDArray[np.object_], header: str
) -> Table:
    """Some operators by kind, those with most operations first.

    Args:
        operators: All.
        chosen: shape (operators,), those to list.
        title: Of the table.
        what: shape (operators,), what tells them apart beside the kind.
        header: Of its column.
    """
    total = float(operators.operations.sum())
    rows: list[tuple[Cell, ...]] = []
    pairs = sorted(set(zip(operators.kinds[chosen].astype(str), what[chosen].astype(str), strict=True)))
    for kind, value in pairs:
        here = chosen & (operators.kinds == kind) & (what == value)
        at = np.flatnonzero(here)
        share = 100.0 * float(operators.operations[at].sum()) / total if total else None
        took = operators.time_share(here)
        percent = None if took is None else 100.0 * took
        rows.append((kind, value, len(at), share, percent, _named([operators.names[place] for place in at])))
    rows.sort(key=lambda row: -float(row[3] or 0.0))
    columns = (Column(name="operator"), Column(name=header), Column(name="count", unit="count"),
               Column(name="share of operations", unit="%"), Column(name="share of one run's time", unit="%"),
               Column(name="names"))  # fmt: skip
    caption = f"{len(rows)} kinds." if len(rows) <= MOST_ROWS else f"The first {MOST_ROWS} of {len(rows)} kinds."
    return Table(title=title, columns=columns, rows=tuple(rows[:MOST_ROWS]), caption=caption)


def elsewhere(operators: Operators, there: NDArray[np.bool_], device: str, of: str = "") -> list[Table]:
    """The fallback list; none where all ran on the device.

    Args:
        operators: All.
        there: shape (operators,), those that ran on the device.
        device: Where they were to run.
        of: As in `fell_back`.
    """
    if there.all():
        return []
    return [listed(operators, ~there, f"Operators{of} that did not run on {device}", operators.places, "ran on")]


def _named(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f", {more} more" if more > 0 else "")
