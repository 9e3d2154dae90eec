"""Blocks of `labels`, and the list of rows that it writes for people to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from evalspec.evidence.blocks import AnyBlock, Column, Examples, Interval, Intervals, Reference, Table, Text
from evalspec.evidence.remedies import MOST_ROWS, CorrectLabels
from evalspec.evidence.units import from_unit
from evalspec.evidence.words import in_percent
from evalspec.scoring.show import cells_of, example

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.labels.measure import LabelsResult
    from evalspec.checks.data.labels.spec import Labels
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs
    from evalspec.stats.shares.label_errors import TrueAccuracy

RATES = ("label_error_rate", "label_error_concentration", "estimated_label_errors")
EXAMPLES_SHOWN = 12
PAIRS_SHOWN = 10
SMALL_SHOWN = 20
CLASSES_SHOWN = 50
HEAD = ("rank", "row", "key", "label", "suggested", "probability_of_label", "probability_of_suggested",
        "taken_for_wrong", "audited_as")  # fmt: skip


def blocks(check: Labels, inputs: Inputs, found: LabelsResult) -> list[AnyBlock]:
    """Rates by class and slice, what was mistaken for what, accuracy, rows to review."""
    shown: list[AnyBlock] = []
    if found.rates:
        shown += [_by_slice(check, found, inputs.confidence), _ratios(check, found, inputs.confidence)]
    if found.small:
        named = [f"{cell.name} ({int(found.looked[cell.rows].sum())})" for cell in found.small[:SMALL_SHOWN]]
        more = len(found.small) - len(named)
        shown.append(Text(
            title="Slices too small to count", caption=f"Fewer than {check.min_n} audited rows (in brackets).",
            text=", ".join(named) + (f" and {more} more" if more else ""),
        ))  # fmt: skip
    if found.looked.any():
        shown += [*_mistaken(check, found), _classes(check, found)]
    if found.accuracy is not None:
        shown.append(_accuracy(str(check.predictions), found.accuracy, inputs.confidence))
    if found.doubts is not None and check.show_examples and found.doubts.flagged.any():
        shown.append(_examples(check, inputs, found))
    return shown


def _source(check: Labels) -> str:
    return "Of audited rows." if check.audited is not None else "Taken for wrong by confident learning, not by people."


def _classes(check: Labels, found: LabelsResult) -> Table:
    """How often the labels of each class are wrong, the worst first."""
    given = found.rows.given
    count = len(found.rows.names)
    looked = np.bincount(given[found.looked], minlength=count)
    wrong = np.bincount(given[found.looked & found.wrong], minlength=count)
    rows = np.bincount(given, minlength=count)
    shares = wrong / np.maximum(looked, 1)
    order = [c for c in np.lexsort((-wrong, -shares)).tolist() if rows[c]][:CLASSES_SHOWN]
    return Table(
        title="Label errors by class", caption=_source(check),
        columns=(
            Column(name="label"), Column(name="rows", unit="rows"), Column(name="looked at", unit="rows"),
            Column(name="wrong", unit="rows"), Column(name="share", unit="fraction"),
        ),
        rows=tuple(
            (found.rows.names[c], int(rows[c]), int(looked[c]), int(wrong[c]), float(shares[c]) if looked[c] else None)
            for c in order
        ),
    )  # fmt: skip


def _mistaken(check: Labels, found: LabelsResult) -> list[Table]:
    """Which label stands where another one is true."""
    rows = found.rows
    if check.audited is None:
        if found.doubts is None:
            return []
        given, truth = found.doubts.given[found.doubts.flagged], found.doubts.suggested[found.doubts.flagged]
        said = "likely"
    else:
        given, truth, said = rows.given[rows.wrong], rows.truth[rows.wrong], "true"
    if not len(given):
        return []
    count = len(rows.names)
    pairs, times = np.unique(given * count + truth, return_counts=True)
    order = np.argsort(-times, kind="stable")[:PAIRS_SHOWN].tolist()
    cells = tuple((rows.names[int(pairs[i]) // count], rows.names[int(pairs[i]) % count], int(times[i])) for i in order)
    return [
        Table(
            title="Label and truth", caption=f"{_source(check)} The most frequent of {len(pairs)} pairs.",
            columns=(Column(name="label"), Column(name=said), Column(name="rows", unit="rows")), rows=cells,
        )
    ]  # fmt: skip


def _by_slice(check: Labels, found: LabelsResult, confidence: float) -> Intervals:
    order = sorted(found.rates, key=lambda name: -(found.rates[name].value or 0.0))
    lines = tuple(
        Interval(
            label=name, value=found.rates[name].value, lower=found.rates[name].bound(confidence, "lower"),
            upper=found.rates[name].bound(confidence, "upper"), n=found.rates[name].n,
        )
        for name in order
    )  # fmt: skip
    references = [
        Reference(label=one.sentence, value=from_unit(one.threshold, one.unit), axis="x", says_value=True)
        for one in check.requirements
        if one.metric == "label_error_rate"
    ]
    overall = float(found.wrong[found.looked].mean()) if found.looked.any() else None
    references.insert(0, Reference(label="all rows", value=overall, axis="x"))
    return Intervals(
        title="Label errors by slice", caption=f"{_source(check)} One-sided bounds at {in_percent(confidence)} each.",
        unit="fraction", rows=lines, references=tuple(references),
    )  # fmt: skip


def _ratios(check: Labels, found: LabelsResult, confidence: float) -> Table:
    """Each slice against the rest, the largest ratio first."""
    looked, wrong = int(found.looked.sum()), int((found.looked & found.wrong).sum())
    percent = in_percent(confidence)
    lines: list[tuple[Cell, ...]] = []
    for name in sorted(found.ratios, key=lambda name: -(found.ratios[name].value or 0.0)):
        rate, ratio = found.rates[name], found.ratios[name]
        rest = looked - rate.n
        outside = (wrong - rate.successes) / rest if rest else None
        bounds = (ratio.bound(confidence, "lower"), ratio.bound(confidence, "upper"))
        lines.append((name, rate.n, int(rate.successes), rate.value, outside, ratio.value, *bounds))
    units = (
        ("slice", ""), ("looked at", "rows"), ("wrong", "rows"), ("share", "fraction"), ("outside", "fraction"),
        ("ratio", "x"), (f"lower {percent}", "x"), (f"upper {percent}", "x"),
    )  # fmt: skip
    return Table(
        title="Where labels are wrong",
        caption=f"{_source(check)} Slices may overlap; no upper bound where nothing outside is wrong.",
        columns=tuple(Column(name=name, unit=unit) for name, unit in units),
        rows=tuple(lines),
    )


def _accuracy(model: str, found: TrueAccuracy, confidence: float) -> Table:
    lower, upper = found.at_worst(confidence)
    percent = in_percent(confidence)
    lines: list[tuple[Cell, ...]] = [
        (name, one.value, one.bound(confidence, "lower"), one.bound(confidence, "upper"), rows)
        for name, one, rows in (
            ("against the labels as given", found.claimed, found.claimed.n),
            ("corrected by the audited rows", found.corrected, found.claimed.n),
            ("on the audited rows alone", found.audited, found.audited.n),
        )
    ]
    lines.insert(1, ("whichever labels are wrong", None, lower, upper, found.claimed.n))
    return Table(
        title=f"What wrong labels leave of the accuracy of {model}",
        caption="The first row holds only if every label is right.",
        columns=(
            Column(name="accuracy"), Column(name="value", unit="fraction"),
            Column(name=f"lower {percent}", unit="fraction"), Column(name=f"upper {percent}", unit="fraction"),
            Column(name="rows", unit="rows"),
        ),
        rows=tuple(lines),
    )  # fmt: skip


def accuracy_sentence(model: str, found: TrueAccuracy, confidence: float) -> str:
    """Accuracy that wrong labels leave, in one sentence."""
    claimed, wrong = found.claimed.value, found.errors.value
    lower, upper = found.at_worst(confidence)
    said = f"The accuracy of {model} is {claimed:.3f} against labels of which {100 * (wrong or 0.0):.3g} % are wrong"
    if lower is None or upper is None:
        return f"{said}; nothing bounds what that hides."
    level = in_percent(confidence)
    said += f"; against the truth it may be anything from {lower:.3f} to {upper:.3f} ({level} each way)"
    bounds = found.corrected.bound(confidence, "lower"), found.corrected.bound(confidence, "upper")
    if found.corrected.value is None or bounds[0] is None or bounds[1] is None:
        return f"{said}."
    return f"{said}, and by the audited rows it is {found.corrected.value:.3f} ({bounds[0]:.3f} to {bounds[1]:.3f})."


def _order(found: LabelsResult) -> NDArray[np.int64]:
    """Places among the judged rows: those taken for wrong first, the least probable label first."""
    assert found.doubts is not None
    return np.lexsort((found.doubts.quality, ~found.doubts.flagged)).astype(np.int64)


def _examples(check: Labels, inputs: Inputs, found: LabelsResult) -> Examples:
    doubts = found.doubts
    assert doubts is not None
    total = int(doubts.flagged.sum())
    places = _order(found)[: min(EXAMPLES_SHOWN, total)].tolist()
    rows = [int(doubts.rows[place]) for place in places]
    shown = []
    hidden = {check.audited, inputs.label(check.dataset)}
    for place, row, cells in zip(places, rows, cells_of(inputs, check.dataset, rows), strict=True):
        fields: dict[str, Cell] = {
            "row": row, "label": found.rows.names[int(doubts.given[place])],
            "suggested": found.rows.names[int(doubts.suggested[place])],
            "probability of the label": _small(float(doubts.quality[place])),
        }  # fmt: skip
        if found.rows.truth[row] >= 0:
            fields["audited as"] = found.rows.names[int(found.rows.truth[row])]
        shown.append(example(row, fields, {name: value for name, value in cells.items() if name not in hidden}))
    return Examples(
        title="Labels to look at", caption="Taken for wrong by confident learning, the least probable label first.",
        examples=tuple(shown), total=total,
    )  # fmt: skip


def _small(probability: float) -> Cell:
    return round(probability, 4) if probability >= 0.0001 else "below 0.0001"


def review_file(check: Labels) -> str:
    """Name of the rows for review in the evidence."""
    return f"{check.name}-to-review.csv"


def remedies(check: Labels, found: LabelsResult) -> tuple[CorrectLabels, ...]:
    """Rows to look at: those that confident learning takes for wrong, else those that the audit does.

    Args:
        check: Its name, and its dataset.
        found: What was found.
    """
    if found.doubts is not None and found.doubts.flagged.any():
        places = _order(found)[: int(found.doubts.flagged.sum())]
        rows, file = found.doubts.rows[places], review_file(check)
    else:
        rows, file = np.flatnonzero(found.wrong), ""
    if not len(rows):
        return ()
    first = tuple(int(row) for row in rows[:MOST_ROWS])
    return (CorrectLabels(metrics=RATES, dataset=check.dataset, rows=first, total=len(rows), file=file),)


def write(check: Labels, inputs: Inputs, found: LabelsResult) -> list[tuple[str, str]]:
    """The rows for review as a CSV file, the most suspicious first; nothing without confident learning."""
    doubts = found.doubts
    if doubts is None:
        return []
    name = review_file(check)
    order = _order(found)
    rows, classes = doubts.rows[order], pa.array([*found.rows.names, None], pa.string())
    truth = np.where(found.rows.audited[rows], found.rows.truth[rows], len(found.rows.names))
    keys = pa.nulls(len(rows), pa.string())
    if check.key is not None:
        keys = inputs.table(check.dataset, [check.key]).column(0).take(pa.array(rows)).cast(pa.string())
    keys, classes = _plain(keys), _plain(classes)
    columns = (
        np.arange(1, len(rows) + 1), rows, keys, classes.take(pa.array(doubts.given[order])),
        classes.take(pa.array(doubts.suggested[order])), doubts.quality[order].round(6),
        doubts.confidence[order].round(6), doubts.flagged[order], classes.take(pa.array(truth)),
    )  # fmt: skip
    pacsv.write_csv(pa.table(dict(zip(HEAD, columns, strict=True))), inputs.evidence / name)
    return [(name, "labels to review: every row that was judged, the most suspicious label first")]


def _plain(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Texts that a spreadsheet takes for texts: one that would begin a formula gets an apostrophe before it."""
    return pc.replace_substring_regex(texts, pattern=r"^([=@\t\r]|[+-][^0-9.])", replacement=r"'\1")
