"""Blocks and notes of `calibration` for models with stated intervals: where they hold, and where they don't."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Series, Table
from evalspec.evidence.words import in_percent
from evalspec.scoring.on_demand import band, known
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Predictions

TENTHS = 10
THIRDS = ("lowest", "middle", "highest")


def blocks(rows: Predictions, inside: NDArray[np.bool_], level: float) -> list[AnyBlock]:
    """Blocks of the coverage by the width of the intervals and by the prediction.

    Args:
        rows: Answers with ``lower`` and ``upper``.
        inside: shape (n,), True where the truth lies in the interval.
        level: Confidence of the bounds.
    """
    if not rows.n:
        return []
    return [_curve(rows, inside, level), _table(rows, inside, level)]


def notes(rows: Predictions, inside: NDArray[np.bool_], nominal: float, level: float) -> list[str]:
    """Sentence on the thirds of the rows whose intervals are shown to hold too few; no sentence where none are.

    Args:
        rows: Answers with ``lower`` and ``upper``.
        inside: shape (n,), True where the truth lies in the interval.
        nominal: Share that an interval is meant to hold, in 0..1.
        level: Confidence for all six thirds together.
    """
    stricter = 1.0 - (1.0 - level) / (2 * len(THIRDS))
    low = []
    for what, third, mask in _thirds(rows):
        share = proportion(inside[mask], None if rows.clusters is None else rows.clusters[mask])
        limit = share.bound(stricter, "upper")
        if limit is not None and limit < nominal:
            low.append(f"the {third} third by {what} ({100 * known(share):.3g} %)")
    if not low:
        return []
    return [f"Intervals meant to hold {100 * nominal:g} % of rows hold fewer in {' and '.join(low)}."]


def _thirds(rows: Predictions) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Thirds of the rows: (by what, which third, shape (n,) mask); equal widths or predictions stay together."""
    thirds = []
    for what, values in (("width", _width(rows)), ("prediction", _prediction(rows))):
        cuts = np.quantile(values, [1 / 3, 2 / 3], method="inverted_cdf")
        place = np.searchsorted(cuts, values)
        thirds += [(what, third, place == k) for k, third in enumerate(THIRDS) if (place == k).any()]
    return thirds


def _table(rows: Predictions, inside: NDArray[np.bool_], level: float) -> Table:
    unit, percent = rows.label_unit or "", in_percent(level)
    columns = (
        Column(name="third of the rows"), Column(name="from", unit=unit), Column(name="to", unit=unit),
        Column(name="rows", unit="rows"), Column(name="inside", unit="%"), Column(name=f"lower {percent}", unit="%"),
        Column(name=f"upper {percent}", unit="%"), Column(name="mean width", unit=unit),
    )  # fmt: skip
    width, of = _width(rows), {"width": _width(rows), "prediction": _prediction(rows)}
    lines: list[tuple[Cell, ...]] = []
    for what, third, mask in _thirds(rows):
        share = proportion(inside[mask], None if rows.clusters is None else rows.clusters[mask])
        bounds = (share.bound(level, "lower"), share.bound(level, "upper"))
        percents = [None if one is None else 100.0 * one for one in (share.value, *bounds)]
        ends = (float(of[what][mask].min()), float(of[what][mask].max()))
        lines.append((f"{third} {what}", *ends, int(mask.sum()), *percents, float(width[mask].mean())))
    caption = "An interval can hold on average and fail where it is needed: coverage by width and by prediction."
    return Table(title="Coverage by thirds", caption=caption, columns=columns, rows=tuple(lines))


def _curve(rows: Predictions, inside: NDArray[np.bool_], level: float) -> Curve:
    width = _width(rows)
    groups = np.array_split(np.argsort(width, kind="stable"), min(TENTHS, rows.n))
    shares = [proportion(inside[g], None if rows.clusters is None else rows.clusters[g]) for g in groups]
    bands = [band(share, level) for share in shares]
    series = Series(
        name="rows by width",
        x=tuple(float(width[g].mean()) for g in groups),
        y=tuple(known(share) for share in shares),
        lower=tuple(low for low, _ in bands),
        upper=tuple(high for _, high in bands),
        size=tuple(float(len(g)) for g in groups),
    )
    caption = f"A tenth of the rows each, narrow intervals first. Bands: {in_percent(level)} for each by itself."
    return Curve(
        title="Coverage by width", caption=caption, x_label="mean width", y_label="share inside",
        x_unit=rows.label_unit or "", series=(series,),
    )  # fmt: skip


def _width(rows: Predictions) -> NDArray[np.float64]:
    assert rows.lower is not None and rows.upper is not None
    return rows.upper - rows.lower


def _prediction(rows: Predictions) -> NDArray[np.float64]:
    """Predicted values; the middles of the intervals where there are none."""
    assert rows.lower is not None and rows.upper is not None
    return rows.values if rows.values is not None else (rows.lower + rows.upper) / 2.0
