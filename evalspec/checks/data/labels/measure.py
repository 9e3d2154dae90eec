"""Measurement of `labels`: rows read, wrong labels counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.data.labels import confident_learning, show
from evalspec.checks.data.labels.confident_learning import Doubts
from evalspec.checks.data.labels.rows import LabelledRows, read_rows
from evalspec.checks.data.labels.sample import not_random
from evalspec.checks.data.labels.spec import missing_packages
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.words import first_of, plural, verb
from evalspec.language.parts import CheckResult
from evalspec.language.where import parse_where
from evalspec.scoring.slicing import Cell, cells
from evalspec.stats.conjunction import AllParts
from evalspec.stats.shares.label_errors import TrueAccuracy, true_accuracy
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.shares.share_ratio import ratio_of_shares
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.labels.spec import Labels
    from evalspec.language.inputs import Inputs, Predictions

SUSPICIOUS = 100
"""Rows of which all were audited and none was found wrong, from which on that is told."""


@dataclass(frozen=True, eq=False)
class LabelsResult:
    """Results that the blocks are made from.

    Args:
        rows: Labels and audit.
        looked: shape (n,), rows that rates are of: the audited ones, or those that a classifier judged.
        wrong: shape (n,), rows taken for wrong.
        cells: Slices that count.
        small: Slices that don't.
        rates: Slice: its rate.
        ratios: Slice: how many times the rate outside.
        doubts: What confident learning says.
        accuracy: What wrong labels leave of an accuracy.
        notes: For the reader.
    """

    rows: LabelledRows
    looked: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    cells: tuple[Cell, ...] = ()
    small: tuple[Cell, ...] = ()
    rates: Mapping[str, Proportion] = field(default_factory=dict)
    ratios: Mapping[str, Estimate] = field(default_factory=dict)
    doubts: Doubts | None = None
    accuracy: TrueAccuracy | None = None
    notes: tuple[str, ...] = ()


def measure(check: Labels, inputs: Inputs) -> CheckResult:
    """Rates on audited rows, where they concentrate, and what a classifier doubts.

    Raises:
        InputError: A column is missing, or labels are no classes.
    """
    # The rest of what is used comes from what is read here, so that no other column is.
    inputs.table(check.dataset, _columns(check, inputs))
    rows = read_rows(check, inputs)
    doubts, why = _doubts(check, inputs, rows)
    audit = check.audited is not None
    looked = rows.audited if audit else _judged(rows, doubts)
    wrong = rows.wrong if audit else _flagged(rows, doubts)
    kept, small = _slices(check, inputs, looked)
    rates = {cell.name: rows.share(wrong, looked & cell.inside) for cell in kept}
    ratios = {cell.name: ratio_of_shares(rates[cell.name], rows.share(wrong, looked & ~cell.inside)) for cell in kept}
    accuracy, notes = _accuracy(check, inputs, rows)
    found = LabelsResult(rows, looked, wrong, kept, small, rates, ratios, doubts, accuracy, notes)
    estimates, missing = _estimates(check, found, why)
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=show.blocks(check, inputs, found),
        counts=Counts(attempted=len(rows.given), used=int(looked.sum()), dropped=int((~looked).sum())),
        conditions=_conditions(found),
        notes=[*_notes(check, found, why), *notes],
        weakens=_copied(check, rows),
        remedies=show.remedies(check, found),
        evidence=show.write(check, inputs, found),
    )


def _copied(check: Labels, rows: LabelledRows) -> list[str]:
    """Note that the audit of every row found nothing, as a copy of the label would."""
    if check.audited is None or len(rows.given) < SUSPICIOUS or not rows.audited.all() or rows.wrong.any():
        return []
    every = f"the audit agrees with the label in each of {len(rows.given):,} rows"
    return [f"{every}: see that {check.audited!r} is not a copy of it"]


def _columns(check: Labels, inputs: Inputs) -> list[str]:
    """Columns that are used, of those that are there: label, audit, features, key, and those that slices look at."""
    there, slices = inputs.column_names(check.dataset), inputs.slice_names()
    named = [inputs.label(check.dataset), check.audited, check.key, *check.features]
    for name in (name for entry in check.entries for name in entry):
        named += parse_where(inputs.slice_where(name)).columns if name in slices else [name]
    return [name for name in dict.fromkeys(named) if name is not None and name in there]


def _judged(rows: LabelledRows, doubts: Doubts | None) -> NDArray[np.bool_]:
    inside = np.zeros(len(rows.given), dtype=np.bool_)
    if doubts is not None:
        inside[doubts.rows] = True
    return inside


def _flagged(rows: LabelledRows, doubts: Doubts | None) -> NDArray[np.bool_]:
    inside = np.zeros(len(rows.given), dtype=np.bool_)
    if doubts is not None:
        inside[doubts.rows] = doubts.flagged
    return inside


def _slices(check: Labels, inputs: Inputs, looked: NDArray[np.bool_]) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Slices that count, by the rows that rates are of, and those that are too small."""
    if not check.by:
        return (), ()
    every = cells(inputs, check.dataset, check.entries, 0).kept
    counted = {cell.name: int(looked[cell.rows].sum()) for cell in every}
    kept = tuple(cell for cell in every if cell.named or counted[cell.name] >= check.min_n)
    return kept, tuple(cell for cell in every if cell not in kept)


def _doubts(check: Labels, inputs: Inputs, rows: LabelledRows) -> tuple[Doubts | None, str | None]:
    """Doubts of confident learning, or the reason why there are none."""
    if not check.judges:
        return None, "it needs `features:`, or `predictions:` with `out_of_sample: true`"
    reason = missing_packages()
    if reason is not None:
        return None, reason
    cross_checked = None
    if check.features:
        made = _cross_validated(check, inputs, rows)
        if isinstance(made, str) or check.predictions is None or not check.out_of_sample:
            return (None, made) if isinstance(made, str) else (made, None)
        cross_checked = made.suggested == made.given
    return _from_model(check, inputs, rows, cross_checked)


def _cross_validated(check: Labels, inputs: Inputs, rows: LabelledRows) -> Doubts | str:
    chosen = confident_learning.enough_of_each(rows.given, check.folds)
    table = inputs.table(check.dataset, check.features)
    wide = confident_learning.width(table, check.features, check.dataset)
    most = min(confident_learning.MOST_ROWS, confident_learning.MOST_CELLS // wide)
    if len(chosen) > most:
        drawn = np.sort(inputs.rng.permutation(chosen)[:most])
        chosen = drawn[confident_learning.enough_of_each(rows.given[drawn], check.folds)]
    classes, codes = np.unique(rows.given[chosen], return_inverse=True)
    if len(chosen) < confident_learning.FEWEST_ROWS or len(classes) < 2:
        return (
            f"{len(chosen)} rows of {len(classes)} classes are too few to cross-validate on: it takes "
            f"{confident_learning.FEWEST_ROWS} rows and two classes with {check.folds} rows each"
        )
    features = confident_learning.feature_matrix(table.take(chosen), check.features, check.dataset)
    inputs.progress(0, 1, "cross-validating a classifier")
    clusters = None if rows.clusters is None else rows.clusters[chosen]
    try:
        made = confident_learning.cross_validated(
            features, codes.reshape(-1).astype(np.int64), clusters, check.folds, check.classifier, inputs.rng
        )
    except InputError as error:
        # What auditors found stands without it.
        return str(error)
    shares = np.zeros((len(chosen), len(rows.names)))
    shares[:, classes] = made
    inputs.progress(1, 1, "cross-validating a classifier")
    name = "logistic regression" if check.classifier == "logistic" else "gradient boosting"
    method = f"{check.folds}-fold cross-validated {name} on {', '.join(check.features[:4])}"
    return confident_learning.judge(chosen, shares, rows.given[chosen], len(rows.given) - len(chosen), method)


def _from_model(
    check: Labels, inputs: Inputs, rows: LabelledRows, cross_checked: NDArray[np.bool_] | None
) -> tuple[Doubts | None, str | None]:
    """Confident learning on a model's probabilities, where nothing says that it was trained on these rows."""
    assert check.predictions is not None
    answers = inputs.predictions(check.dataset, check.predictions)
    if answers.probabilities is None or answers.classes is None or not answers.is_classification:
        return None, f"{check.predictions} gives no probabilities of classes, by which labels could be judged"
    wide = np.zeros((answers.n, len(rows.names)))
    places = [rows.names.index(name) if name in rows.names else -1 for name in answers.classes]
    known = [index for index, place in enumerate(places) if place >= 0]
    wide[:, [places[index] for index in known]] = answers.probabilities[:, known]
    elsewhere = None
    if check.held_out is not None:
        other = inputs.predictions(check.held_out, check.predictions)
        if other.predicted is not None and other.truth is not None:
            elsewhere = np.asarray(other.predicted == other.truth)
    signs = confident_learning.signs_of_training(wide, rows.given, rows.wrong, elsewhere, cross_checked)
    if signs:
        return None, (
            f"{check.predictions} looks as if it had been trained on these rows, so it can't judge their labels: "
            f"{'; '.join(signs)}. Take a model that was not, or name `features:` for a cross-validated one"
        )
    if answers.n < confident_learning.FEWEST_ROWS:
        return None, f"{answers.n} rows are too few for confident learning: it takes {confident_learning.FEWEST_ROWS}"
    every = np.arange(answers.n)
    return confident_learning.judge(
        every, wide, rows.given, 0, f"probabilities of {check.predictions}, stated as unseen"
    ), None


def _accuracy(check: Labels, inputs: Inputs, rows: LabelledRows) -> tuple[TrueAccuracy | None, tuple[str, ...]]:
    """Accuracy that wrong labels leave of ``predictions:``."""
    if check.predictions is None or check.audited is None or not rows.audited.any():
        return None, ()
    answers: Predictions = inputs.predictions(check.dataset, check.predictions)
    if answers.predicted is None or answers.classes is None or not answers.is_classification:
        return None, (f"{check.predictions} gives no classes, so there is no accuracy to correct.",)
    places = [rows.names.index(name) if name in rows.names else -2 for name in answers.classes]
    said = np.array(places, dtype=np.int64)[answers.predicted]
    found = true_accuracy(said == rows.given, rows.audited, rows.wrong, said == rows.truth, rows.clusters)
    return found, (show.accuracy_sentence(check.predictions, found, inputs.confidence),)


def _estimates(
    check: Labels, found: LabelsResult, why: str | None
) -> tuple[dict[str, Estimate | Fact | Parts | Measured], dict[str, str]]:
    estimates: dict[str, Estimate | Fact | Parts | Measured] = {}
    missing: dict[str, str] = {}
    odd = None if check.audited is None else _not_random(found)
    if check.audited is not None:
        whole = found.rows.share(found.wrong, found.looked)
        if whole.n:
            estimates["label_error_rate"] = Measured(
                Parts({name: _or_none(one) for name, one in found.rates.items()}, whole), withhold=odd
            )
        else:
            missing["label_error_rate"] = f"the column {check.audited!r} holds no label, so no row was audited"
    else:
        missing["label_error_rate"] = "no row was audited; name the column in `audited:`"
    if found.doubts is None:
        missing["estimated_label_errors"] = str(why)
    else:
        doubts = found.doubts
        method = f"counted: confident learning (cleanlab) on a {doubts.method}"
        estimates["estimated_label_errors"] = Fact(float(np.mean(doubts.flagged)), len(doubts.rows), method)
    if found.ratios and found.looked.any():
        ratios = Parts(found.ratios, AllParts(found.ratios, "lower"))
        estimates["label_error_concentration"] = ratios if odd is None else Measured(ratios, withhold=odd)
    else:
        missing["label_error_concentration"] = _no_ratio(check, found, why)
    if check.by:
        counted = "fewer than min_n audited rows" if check.audited is not None else "fewer than min_n judged rows"
        first = first_of([cell.name for cell in found.small])
        among = len(found.cells) + len(found.small)
        estimates["slices_too_small"] = Fact(float(len(found.small)), among, counted, first=first)
    else:
        missing["slices_too_small"] = "there are no slices; name them in `by:`"
    return estimates, missing


def _no_ratio(check: Labels, found: LabelsResult, why: str | None) -> str:
    if not check.by:
        return "there are no slices; name them in `by:`"
    if not found.looked.any():
        return str(why) if check.audited is None else f"the column {check.audited!r} holds no label"
    return f"no slice has {check.min_n} audited rows"


def _or_none(rate: Proportion) -> Estimate:
    return rate if rate.n else ValueOnly(None, 0, "no bound: no row of this slice was audited")


def _not_random(found: LabelsResult) -> str | None:
    """Reason why audited rows are no random sample: other classes, or other slices, than those of the others."""
    rows = found.rows
    slices = {cell.name: cell.inside for cell in (*found.cells, *found.small)}
    return not_random(rows.given, slices, rows.audited, rows.clusters)


def _conditions(found: LabelsResult) -> dict[str, str | int | float | bool | None]:
    said: dict[str, str | int | float | bool | None] = {"audited": int(found.rows.audited.sum())}
    if found.doubts is not None:
        said |= {"judged by": found.doubts.method, "its accuracy": round(found.doubts.accuracy, 4)}
    return said


def _notes(check: Labels, found: LabelsResult, why: str | None) -> list[str]:
    notes = []
    rows, doubts = found.rows, found.doubts
    if check.judges and doubts is None:
        notes.append(f"No labels are estimated to be wrong: {why}.")
    if doubts is not None and doubts.left_out:
        notes.append(
            f"{plural(doubts.left_out, 'row')} {verb(doubts.left_out, 'was', 'were')} not judged: classes with fewer "
            f"than {check.folds} rows are left out, and of very many rows some are drawn."
        )
    if doubts is not None and found.wrong[doubts.rows].any() and check.audited is not None:
        there = rows.audited[doubts.rows]
        wrong = rows.wrong[doubts.rows]
        caught, flagged = int((doubts.flagged & wrong).sum()), int((doubts.flagged & there).sum())
        notes.append(
            f"Of {int(wrong.sum())} labels that the audit found wrong confident learning flags {caught}; of {flagged} "
            f"audited rows that it flags {caught} are wrong."
        )
    strange = sorted(set(rows.truth[rows.audited].tolist()) - set(rows.given.tolist()))
    if strange:
        listed = ", ".join(rows.names[code] for code in strange[:5])
        notes.append(f"Auditors found classes that no label names: {listed}.")
    if found.small:
        small = f"{plural(len(found.small), 'slice')} {verb(len(found.small), 'has', 'have')}"
        notes.append(f"{small} fewer than {check.min_n} audited rows.")
    return notes
