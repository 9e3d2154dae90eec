"""Blocks of `quality`: tables of classes and metrics, the confusion matrix, wrong rows, curves, residuals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.cells import value_of
from evalspec.evidence.blocks import (
    AnyBlock,
    Column,
    Curve,
    Example,
    Examples,
    Histogram,
    Matrix,
    Points,
    Reference,
    Series,
    Table,
)
from evalspec.evidence.estimate import Measured, Parts
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import in_percent
from evalspec.scoring.on_demand import shown_bounds
from evalspec.scoring.thumbnails import picture, png

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs
    from evalspec.scoring.family import Family, QualityContext
    from evalspec.scoring.scored_rows import Scored

CLASSES_IN_MATRIX = 30
PAIRS_SHOWN = 30
CLASSES_SHOWN = 200
EXAMPLES_SHOWN = 12
POINTS_SHOWN = 400
THRESHOLDS_SHOWN = 120
"""Of a curve; of more values evenly spread ones."""
EVEN = 0.5
TEXT_SHOWN = 300
FIELDS_SHOWN = 8


def metric_table(seen: QualityContext, families: Sequence[Family]) -> Table:
    """Every metric with its value, bounds, rows, and what not looking at the row would score.

    Args:
        seen: What the check found.
        families: Those of the model's task.
    """
    required = frozenset(requirement.metric for requirement in seen.check.requirements)
    blind = {name: score for family in families for name, score in family.blind.items()}
    confidence = seen.inputs.confidence
    percent = in_percent(confidence)
    heads = ["metric", "value", f"lower {percent}", f"upper {percent}", "n", *blind]
    columns = [Column(name=head, unit="rows" if head == "n" else "") for head in heads]
    cells: list[tuple[Cell, ...]] = []
    for metric, part, estimate in seen.found.flat():
        lower, upper = shown_bounds(estimate, confidence, metric in required)
        other = [seen.blind(name, score, metric, part) for name, score in blind.items()]
        name = metric if part is None else f"{metric}({part})"
        cells.append((name, estimate.value, lower, upper, estimate.n, *other))
    caption = " ".join(family.blind_caption for family in families if family.blind_caption)
    return Table(title="Scores", caption=caption, columns=tuple(columns), rows=tuple(cells))


def class_table(rows: Scored, scores: Mapping[str, Parts]) -> Table:
    """Rows, precision, recall and F1 of every class, the lowest recall first.

    Args:
        rows: The candidate's rows.
        scores: ``precision``, ``recall``, ``f1`` with a part for each class.
    """
    classes = rows.classes or ()
    truth_counts, predicted_counts = rows.class_counts()

    def cell(metric: str, name: str) -> Cell:
        estimate = scores[metric].parts.get(name) if metric in scores else None
        return None if estimate is None or isinstance(estimate, Measured) else estimate.value

    order = sorted(range(len(classes)), key=lambda c: _lowest_first(cell("recall", classes[c])))
    cells = tuple(
        (classes[c], int(truth_counts[c]), int(predicted_counts[c]), cell("precision", classes[c]),
         cell("recall", classes[c]), cell("f1", classes[c]))
        for c in order[:CLASSES_SHOWN]
    )  # fmt: skip
    columns = (
        Column(name="class"), Column(name="rows", unit="rows"), Column(name="predicted", unit="rows"),
        *(Column(name=metric, unit="fraction") for metric in ("precision", "recall", "f1")),
    )  # fmt: skip
    more = f" The {CLASSES_SHOWN} lowest of {len(classes)}." if len(classes) > CLASSES_SHOWN else ""
    caption = f"Lowest recall first; empty where a value is 0/0.{more}"
    return Table(title="Classes", caption=caption, columns=columns, rows=cells)


def confusion(rows: Scored) -> Matrix | Table:
    """Counts of true and predicted classes; with many classes the most frequent mistakes.

    Args:
        rows: The candidate's rows.
    """
    classes, predicted = rows.labels()
    count = len(classes)
    if count <= CLASSES_IN_MATRIX:
        cells = np.bincount(rows.truth * count + predicted, minlength=count * count).reshape(count, count)
        return Matrix(
            title="Confusion matrix", caption="Rows of the dataset by true and predicted class.", row_label="true",
            column_label="predicted", rows=classes, columns=classes,
            values=tuple(tuple(float(value) for value in line) for line in cells),
        )  # fmt: skip
    wrong = predicted != rows.truth
    pairs, counts = np.unique(rows.truth[wrong] * count + predicted[wrong], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:PAIRS_SHOWN]
    mistakes = tuple((classes[int(pairs[i]) // count], classes[int(pairs[i]) % count], int(counts[i])) for i in order)
    columns = (Column(name="true"), Column(name="predicted"), Column(name="rows", unit="rows"))
    caption = f"The most frequent of {len(pairs)} pairs; {count} classes are too many for a matrix."
    return Table(title="Most frequent mistakes", caption=caption, columns=columns, rows=mistakes)


def wrong_rows(inputs: Inputs, rows: Scored) -> Examples | None:
    """The wrong rows of which the model was surest, or those furthest off; None where none is wrong.

    Args:
        inputs: What the check is handed.
        rows: The candidate's rows, all of the dataset.
    """
    worst, total = _worst(rows)
    if total == 0:
        return None
    cells = cells_of(inputs, rows.dataset, rows.number(worst).tolist())
    examples = tuple(_example(rows, row, inside) for row, inside in zip(worst.tolist(), cells, strict=True))
    classes = rows.classes is not None
    return Examples(
        title="Wrong rows" if classes else "Rows furthest off",
        caption="Sorted by how much likelier the model found its answer than the right one."
        if classes
        else "Largest absolute error first.",
        examples=examples,
        total=total,
    )


def cells_of(inputs: Inputs, dataset: str, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Cells of some rows of a dataset beside their label; none where it has no other column.

    Args:
        inputs: What the check is handed.
        dataset: Its name.
        rows: Their indices.
    """
    names = [name for name in inputs.feature_columns(dataset) if name != inputs.label(dataset)]
    if not names:
        return [{} for _ in rows]
    from evalspec.sources.reading.open import rows_at

    tables = rows_at(inputs.batches(dataset, names), rows)
    return [{name: value_of(tables[row].column(name)[0]) for name in tables[row].column_names} for row in rows]


def curves(rows: Scored) -> Sequence[AnyBlock]:
    """ROC, precision against recall, and both against the threshold, for the positive class.

    Args:
        rows: Rows of a classifier.

    Returns:
        Blocks; none where no class is positive, nothing is ranked, or one side has no row.
    """
    if rows.positive is None or rows.probabilities is None:
        return ()
    true = rows.is_of(rows.positive)
    if true.all() or not true.any():
        return ()
    thresholds, caught, alarms = _at_thresholds(rows.shares()[:, rows.positive], true)
    recall, false_alarms = caught / true.sum(), alarms / (~true).sum()
    precision, name = caught / (caught + alarms), rows.labels()[0][rows.positive]
    whole = np.zeros(1)
    return (
        Curve(
            title=f"ROC of {name}", caption="Each point is a threshold; the diagonal is an order by chance.",
            x_label="false positive rate", y_label="recall", x_unit="fraction", y_unit="fraction",
            series=(_series(rows.model, np.append(whole, false_alarms), np.append(whole, recall)),),
            references=(Reference(label="by chance", axis="diagonal"),),
        ),
        Curve(
            title=f"Precision and recall of {name}", caption="Each point is a threshold.",
            x_label="recall", y_label="precision", x_unit="fraction", y_unit="fraction",
            series=(_series(rows.model, recall, precision),),
            references=(Reference(label=f"share of {name}", value=float(true.mean()), axis="y"),),
        ),
        Curve(
            title=f"Thresholds of {name}", caption="What each threshold on the probability of the class would give.",
            x_label="threshold", y_label="share", x_unit="fraction", y_unit="fraction",
            series=(
                _series("recall", thresholds, recall), _series("precision", thresholds, precision),
                _series(f"rows called {name}", thresholds, (caught + alarms) / rows.n),
            ),
            references=(Reference(label="even odds", value=EVEN, axis="x"),),
        ),
    )  # fmt: skip


def _at_thresholds(
    scores: NDArray[np.float64], true: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Thresholds from the strictest on, and rows at or above each: those of the class, and the others."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    if len(last) > THRESHOLDS_SHOWN:
        last = last[np.unique(np.linspace(0, len(last) - 1, THRESHOLDS_SHOWN).astype(np.int64))]
    caught = np.cumsum(true[order])[last].astype(np.float64)
    return ranked[last], caught, last + 1.0 - caught


def _series(name: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> Series:
    return Series(name=name, x=tuple(np.round(x, 5).tolist()), y=tuple(np.round(y, 5).tolist()))


def residuals(rows: Scored) -> Sequence[AnyBlock]:
    """Errors of a model that gives values: their distribution, and predicted against true values.

    Args:
        rows: The candidate's rows.
    """
    errors = rows.errors()
    edges = np.histogram_bin_edges(errors, bins=min(40, max(5, int(np.sqrt(rows.n)))))
    counts, _ = np.histogram(errors, bins=edges)
    picked = np.unique(np.linspace(0, rows.n - 1, min(rows.n, POINTS_SHOWN)).astype(np.int64))
    assert rows.values is not None
    spread = Histogram(
        title="Residuals", caption="Predicted minus true value.", x_label="predicted - true", y_label="rows",
        x_unit="label", y_unit="rows", edges=tuple(float(edge) for edge in edges),
        counts={"rows": tuple(int(count) for count in counts)},
        references=(Reference(label="no error", value=0.0, axis="x"),),
    )  # fmt: skip
    cloud = Points(
        title="Predicted and true values", caption=f"{len(picked)} of {rows.n} rows, evenly picked.",
        x_label="true", y_label="predicted", x_unit="label", y_unit="label",
        series=(Series(name="rows", x=tuple(rows.truth[picked].tolist()), y=tuple(rows.values[picked].tolist())),),
        references=(Reference(label="no error", axis="diagonal"),),
    )  # fmt: skip
    return [spread, cloud]


def _lowest_first(value: Cell) -> tuple[bool, float]:
    return (value is None, float(value) if isinstance(value, (int, float)) else 0.0)


def _worst(rows: Scored) -> tuple[NDArray[np.int64], int]:
    if rows.predicted is None:
        off = np.abs(rows.errors())
        order = np.argsort(-off, kind="stable")
        total = int((off > 0).sum())
        return order[: min(total, EXAMPLES_SHOWN)].astype(np.int64), total
    wrong = np.flatnonzero(rows.predicted != rows.truth)
    if rows.probabilities is not None:
        sureness = rows.probabilities[wrong, rows.predicted[wrong]] - rows.probabilities[wrong, rows.truth[wrong]]
        wrong = wrong[np.argsort(-sureness, kind="stable")]
    return wrong[:EXAMPLES_SHOWN].astype(np.int64), len(wrong)


def _example(rows: Scored, row: int, cells: Mapping[str, Any]) -> Example:
    number = int(rows.number(np.array(row)))
    fields: dict[str, Cell] = {"row": number}
    if rows.classes is not None and rows.predicted is not None:
        fields |= {"true": rows.classes[int(rows.truth[row])], "predicted": rows.classes[int(rows.predicted[row])]}
        if rows.probabilities is not None:
            # Never up to 1: that would be shown as certain.
            fields["probability"] = math.floor(1e4 * float(rows.probabilities[row, rows.predicted[row]])) / 1e4
    elif rows.values is not None:
        fields |= {"true": float(rows.truth[row]), "predicted": float(rows.values[row])}
    return example(number, fields, cells)


def example(row: int, fields: Mapping[str, Cell], cells: Mapping[str, Any]) -> Example:
    """A row to look at: what is said of it, its picture or its longest text, else its first small cells.

    Args:
        row: Its index.
        fields: What is said of it.
        cells: Its columns.
    """
    fields = dict(fields)
    image = _picture_of(cells)
    texts = [value for value in cells.values() if isinstance(value, str) and " " in value]
    if image is None:
        small = {
            name: value for name, value in cells.items() if isinstance(value, (int, float, str)) and value not in texts
        }
        fields |= dict(list(small.items())[:FIELDS_SHOWN])
    text = max(texts, key=len)[:TEXT_SHOWN] if texts else None
    return Example(title=f"row {row}", fields=_finite(fields), text=text, image=image)


def _picture_of(cells: Mapping[str, Any]) -> str | None:
    for value in cells.values():
        pixels = picture(value)
        if pixels is not None:
            return png(pixels)
    spread = [
        value for name, value in cells.items() if name.lower().startswith("pixel") and isinstance(value, (int, float))
    ]
    pixels = picture(spread) if len(spread) == len(cells) else None
    return png(pixels) if pixels is not None else None


def _finite(fields: Mapping[str, Cell]) -> dict[str, Cell]:
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in fields.items()
    }
