"""Measurement of `agreement`: ratings read, coefficients, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evalspec.answers.classes import label_text
from evalspec.errors import InputError
from evalspec.evidence.blocks import AnyBlock, Column, Examples, Matrix, Table
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.record import Counts
from evalspec.evidence.words import in_percent, plural, verb
from evalspec.language.parts import CheckResult
from evalspec.scoring.show import cells_of, example
from evalspec.stats.agreement import coefficients as stats
from evalspec.stats.agreement.disagreement import category_counts
from evalspec.tables.categories import Categories, read_categories

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.agreement.spec import Agreement
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs

EXAMPLES_SHOWN = 12
CATEGORIES_IN_MATRIX = 30
NO_PAIR = "no row was judged by two raters, so that nothing can agree"
ONE_CATEGORY = "every rating is {name!r}: where nothing else is ever said, agreement beyond chance has no meaning"


def measure(check: Agreement, inputs: Inputs) -> CheckResult:
    """Both coefficients, and who differs from whom on what.

    Raises:
        InputError: A column is missing or holds no categories, or categories have no order where one is needed.
    """
    table = inputs.table(check.dataset)
    rated = in_order(check, read_categories(table, check.raters, check.dataset))
    if not table.num_rows or not (rated.codes >= 0).any():
        raise InputError(f"{check.dataset} holds no rating in {', '.join(check.raters)}")
    judged = np.count_nonzero(rated.codes >= 0, axis=1)
    found = _coefficients(check, inputs, rated)
    missing = {
        name: reason for name, one in found.items() if (reason := _why_none(name, one, rated, judged, check.raters))
    }
    if "kappa" not in found:
        missing["kappa"] = f"there are {len(rated.names)} different ratings, too many for kappa; require alpha"
    estimates: dict[str, Estimate] = {name: one.estimate for name, one in found.items() if name not in missing}
    split = _split(rated)
    blocks: list[AnyBlock] = [
        _coefficient_table(found, missing, inputs.confidence), _rater_table(check, rated),
        *_pairs(check, rated), *_mixed(check, rated),
    ]  # fmt: skip
    if check.show_examples and split.any():
        blocks.append(_examples(check, inputs, rated, split))
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=blocks,
        counts=Counts(attempted=len(judged), used=int((judged >= 2).sum()), dropped=int((judged < 2).sum())),
        conditions={"raters": len(check.raters), "categories": len(rated.names), "weights": check.weights,
                    "level": check.level},
        notes=_notes(check, rated, judged, estimates),
        evidence=_write(check, inputs, rated, split),
    )  # fmt: skip


def in_order(check: Agreement, rated: Categories) -> Categories:
    """Categories in the order that the check names, or that of their numbers.

    Raises:
        InputError: A category isn't in ``order``, or there is none where one is needed.
    """
    if check.order:
        wanted = [label_text(name) for name in check.order]
        strange = [name for name in rated.names if name not in wanted]
        if strange:
            raise InputError(f"the rating {strange[0]!r} is not in `order:`", choices=wanted, remedy="add it there")
        # Categories that nobody chose keep their places for the weights of kappa.
        place = np.array([*(wanted.index(name) for name in rated.names), -1], dtype=np.int64)
        return Categories(tuple(wanted), place[rated.codes], None)
    ordered = check.weights != "none" or check.level != "nominal"
    if ordered and rated.numbers is None:
        what = f"`level: {check.level}`" if check.level != "nominal" else f"`weights: {check.weights}`"
        word = next(name for name in rated.names if not _is_number(name))
        if check.level in ("interval", "ratio"):
            raise InputError(f"{what} needs numbers, and {word!r} is a rating", remedy="take `level: ordinal`")
        raise InputError(
            f"{what} needs an order, and {word!r} is a rating",
            remedy="name the categories from first to last in `order:`",
        )
    return rated


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _coefficients(check: Agreement, inputs: Inputs, rated: Categories) -> dict[str, stats.Coefficient]:
    clusters = inputs.clusters(check.dataset)
    values = np.arange(len(rated.names), dtype=np.float64) if rated.numbers is None else rated.numbers
    found = {}
    if len(rated.names) <= stats.MOST_CATEGORIES:
        found["kappa"] = stats.kappa(
            rated.codes, len(rated.names), rng=inputs.rng, alpha=inputs.alpha_fail, weights=check.weights,
            clusters=clusters,
        )  # fmt: skip
    found["alpha"] = stats.krippendorff_alpha(
        rated.codes, values, rng=inputs.rng, alpha=inputs.alpha_fail, level=check.level, clusters=clusters
    )
    return found


def _why_none(
    name: str, judged: stats.Coefficient, rated: Categories, counted: NDArray[np.int64], raters: Sequence[str]
) -> str | None:
    if not (counted >= 2).any():
        return NO_PAIR
    if name == "kappa" and judged.units == 0:
        empty = np.flatnonzero(~(rated.codes >= 0).any(axis=0))
        if len(empty):
            return f"{raters[int(empty[0])]} judged no row; leave that column out, or take alpha"
        return "no row was judged by all raters; take alpha, which allows gaps"
    if judged.estimate.value is not None:
        return None
    said = np.unique(rated.codes[rated.codes >= 0])
    if len(said) == 1:
        return ONE_CATEGORY.format(name=rated.names[int(said[0])])
    return f"on the {judged.units} rows that count nothing could disagree: {judged.estimate.method}"


def _split(rated: Categories) -> NDArray[np.float64]:
    """Share of the pairs of ratings of a row that differ, shape (n,); 0 where there is no pair."""
    there = rated.codes >= 0
    size = there.sum(axis=1)
    if len(rated.names) > stats.MOST_CATEGORIES:
        low = np.where(there, rated.codes, np.iinfo(np.int64).max).min(axis=1)
        return np.asarray((rated.codes.max(axis=1) != low) & (size >= 2), dtype=np.float64)
    counts = category_counts(rated.codes, len(rated.names))
    pairs = size * (size - 1)
    return np.asarray(np.where(pairs > 0, 1.0 - np.sum(counts * (counts - 1), axis=1) / np.maximum(pairs, 1), 0.0))


def _coefficient_table(found: dict[str, stats.Coefficient], missing: dict[str, str], confidence: float) -> Table:
    percent = in_percent(confidence)
    lines: list[tuple[Cell, ...]] = []
    for name, one in found.items():
        estimate = one.estimate
        value = None if name in missing else estimate.value
        lower, upper = (None, None) if value is None else (
            estimate.bound(confidence, "lower"), estimate.bound(confidence, "upper")
        )  # fmt: skip
        word = "" if value is None else stats.guide(value)
        lines.append((name, value, lower, upper, one.units, one.observed, one.expected, word))
    return Table(
        title="Agreement beyond chance",
        caption="The last column is a guide by convention (Landis and Koch), not a decision.",
        columns=(
            Column(name="coefficient"), Column(name="value"), Column(name=f"lower {percent}"),
            Column(name=f"upper {percent}"), Column(name="rows", unit="rows"), Column(name="observed disagreement"),
            Column(name="expected disagreement"), Column(name="in words"),
        ),
        rows=tuple(lines),
    )  # fmt: skip


def _rater_table(check: Agreement, rated: Categories) -> Table:
    """How much each rater judged, agrees with the others, and prefers a category."""
    lines: list[tuple[Cell, ...]] = []
    for index, name in enumerate(check.raters):
        ours = rated.codes[:, index]
        others = np.delete(rated.codes, index, axis=1)
        both = (ours[:, None] >= 0) & (others >= 0)
        alike = float(((ours[:, None] == others) & both).sum() / both.sum()) if both.any() else None
        said = ours[ours >= 0]
        most = int(np.bincount(said).argmax()) if len(said) else None
        lines.append((
            name, len(said), alike, None if most is None else rated.names[most],
            None if most is None else float(np.mean(said == most)),
        ))  # fmt: skip
    return Table(
        title="Raters",
        caption="Agrees: share of the ratings that others gave to the same rows.",
        columns=(
            Column(name="rater"), Column(name="judged", unit="rows"), Column(name="agrees", unit="fraction"),
            Column(name="most often said"), Column(name="share of it", unit="fraction"),
        ),
        rows=tuple(lines),
    )  # fmt: skip


def _pairs(check: Agreement, rated: Categories) -> list[Matrix]:
    """Share of rows on which two raters say the same, of those that both judged; of two raters the table says it."""
    if len(check.raters) == 2:
        return []
    there = rated.codes >= 0
    count = len(check.raters)
    shares = np.ones((count, count))
    for first in range(count):
        both = there[:, [first]] & there
        alike = (rated.codes[:, [first]] == rated.codes) & both
        shares[first] = alike.sum(axis=0) / np.maximum(both.sum(axis=0), 1)
    return [
        Matrix(
            title="Who agrees with whom", caption="Share of the rows that both judged; 0 where there is none.",
            row_label="rater", column_label="rater", rows=check.raters, columns=check.raters,
            values=tuple(tuple(float(value) for value in line) for line in shares), unit="fraction",
        )
    ]  # fmt: skip


def _mixed(check: Agreement, rated: Categories) -> list[Matrix]:
    """Which categories stand beside which in one row: of two raters by rater, of more in both directions."""
    count = len(rated.names)
    if not 2 <= count <= CATEGORIES_IN_MATRIX:
        return []
    if len(check.raters) == 2:
        both = rated.codes[(rated.codes >= 0).all(axis=1)]
        together = np.bincount(both[:, 0] * count + both[:, 1], minlength=count * count).reshape(count, count) * 1.0
        labels, caption = check.raters, "Rows that both judged; the diagonal is agreement."
    else:
        counts = category_counts(rated.codes, count)
        together = counts.T @ counts - np.diag(counts.sum(axis=0))
        labels = ("one says", "another says")
        caption = "Pairs of ratings of one row, each in both directions; the diagonal is agreement."
    return [
        Matrix(
            title="Which categories are mixed up", caption=caption, row_label=labels[0], column_label=labels[1],
            rows=rated.names, columns=rated.names,
            values=tuple(tuple(float(value) for value in line) for line in together),
        )
    ]  # fmt: skip


def _examples(check: Agreement, inputs: Inputs, rated: Categories, split: NDArray[np.float64]) -> Examples:
    order = np.argsort(-split, kind="stable")[: min(EXAMPLES_SHOWN, int((split > 0).sum()))].tolist()
    shown = []
    for row, cells in zip(order, cells_of(inputs, check.dataset, order), strict=True):
        said: dict[str, Cell] = {
            name: None if code < 0 else rated.names[code]
            for name, code in zip(check.raters, rated.codes[row].tolist(), strict=True)
        }
        others = {name: value for name, value in cells.items() if name not in check.raters}
        shown.append(example(row, {"row": row} | said, others))
    return Examples(
        title="Rows on which raters differ", caption="Those that are most divided first.", examples=tuple(shown),
        total=int((split > 0).sum()),
    )  # fmt: skip


def _write(check: Agreement, inputs: Inputs, rated: Categories, split: NDArray[np.float64]) -> list[tuple[str, str]]:
    """Every rating, as the number of its category, and how divided each row is."""
    name = f"{check.name}-ratings.parquet"
    names = pa.array([*rated.names, None], pa.string())
    columns: dict[str, pa.Array] = {"row": pa.array(np.arange(len(split))), "divided": pa.array(split)}
    for index, rater in enumerate(check.raters):
        places = np.where(rated.codes[:, index] < 0, len(rated.names), rated.codes[:, index])
        columns[f"rater {index + 1}: {rater}"] = names.take(pa.array(places))
    pq.write_table(pa.table(columns), inputs.evidence / name)
    return [(name, "what each rater said of each row, and the share of pairs of raters that differ")]


def _notes(check: Agreement, rated: Categories, judged: NDArray[np.int64], estimates: dict[str, Estimate]) -> list[str]:
    notes = []
    whole = int((judged == len(check.raters)).sum())
    if whole < len(judged) and "kappa" in estimates:
        notes.append(f"kappa is of the {whole:,} of {len(judged):,} rows that all raters judged; alpha allows gaps.")
    alone = int((judged < 2).sum())
    if alone:
        was, says = verb(alone, "was", "were"), verb(alone, "says", "say")
        notes.append(f"{plural(alone, 'row')} {was} judged by fewer than two raters and {says} nothing of agreement.")
    spoke = np.asarray((rated.codes >= 0).any(axis=0))
    silent = [name for name, one in zip(check.raters, spoke, strict=True) if not one]
    if silent:
        notes.append(f"{', '.join(silent)} judged no row.")
    unsure = [f"{name}: {one.method}" for name, one in estimates.items() if one.bound(0.95, "lower") is None]
    return notes + [f"{one}." for one in unsure]
