"""Measurement of `contamination`: rows compared, copies counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evalspec.checks.data.contamination.blank_rows import BlankRows, withheld
from evalspec.checks.data.contamination.clean_score import CLEAN, UNITS
from evalspec.checks.data.contamination.detector import (
    COPIES,
    Detector,
    Level,
    Mask,
    RowPair,
    TestSide,
    contaminated,
    first_found,
)
from evalspec.checks.data.contamination.detectors import (
    consequence,
    further_blocks,
    further_detectors,
    further_facts,
    further_notes,
    language_model,
)
from evalspec.checks.data.contamination.examples import side_by_side
from evalspec.checks.data.contamination.spans import SpanSearch, Split, dropped_of, notes_of
from evalspec.checks.data.contamination.table_rows import TableDetector
from evalspec.checks.data.contamination.texts import SpanDetector, TextDetector
from evalspec.checks.data.contamination.training import look, named_rows, of_dataset
from evalspec.errors import InputError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.estimate import Estimate, Fact
from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import Counts
from evalspec.evidence.remedies import MOST_ROWS, RemoveRows
from evalspec.evidence.words import plural, verb
from evalspec.language.inputs import Inputs
from evalspec.language.parts import CheckResult
from evalspec.sources.reading.rows import row_digests
from evalspec.sources.reading.text import Tokenised, check_utf8, tokenised
from evalspec.stats.sets.lookup import Lookup
from evalspec.tables.comparable import check_comparable, comparable, empty_rows, family
from evalspec.tables.row_names import row_names, row_names_note

if TYPE_CHECKING:
    from evalspec.checks.data.contamination.spec import Contamination
    from evalspec.sources.reading.subwords import Subwords
    from evalspec.tables.ngram import Ngram


@dataclass(frozen=True, slots=True)
class ContaminationResult:
    """Rows that were compared, and the copies among them.

    Args:
        test: Name of the test set.
        columns: Columns compared.
        left_out: Columns that the model reads and a training set lacks.
        usable: shape (m,), test rows that hold something to compare.
        levels: What each detector found.
        repeats: Test rows that repeat an earlier test row.
        rows: Training set: its rows.
    """

    test: str
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    usable: Mask
    levels: tuple[Level, ...]
    repeats: int
    rows: Mapping[str, int]

    @property
    def used(self) -> int:
        """Test rows that were compared."""
        return int(self.usable.sum())

    @property
    def contaminated(self) -> Mask:
        """Test rows that any level found; shape (m,)."""
        return contaminated(self.levels, len(self.usable))

    def counting(self, *metrics: str) -> tuple[Level, ...]:
        """Levels that count to these metrics."""
        return tuple(level for level in self.levels if level.metric in metrics)


def measure(check: Contamination, inputs: Inputs) -> CheckResult:
    """Compare each training set with the test set, in one pass over the training rows.

    Args:
        check: Its fields.
        inputs: Where rows come from.

    Raises:
        InputError: There is nothing to compare, or columns hold values that could never be equal.
    """
    subwords = _subwords(check, inputs)
    train, test = check.train, check.test
    table = inputs.table(test)
    schemas = {name: _schema(inputs, name) for name in train}
    chosen, left_out = _columns(inputs, {**schemas, test: table.schema}, train, test, check.named, check.keys)
    named_by = () if check.named else row_names([table], chosen, inputs.stated_columns(test))
    chosen = tuple(column for column in chosen if column not in named_by)
    for name, schema in schemas.items():
        check_comparable(schema.empty_table(), table, chosen, name)
    if not table.num_rows:
        raise InputError(f"dataset {test} has no rows to compare")
    _refuse_unreadable(table, chosen, test)
    ours = comparable(table, chosen)
    usable = ~empty_rows(ours)
    if not usable.any():
        raise InputError(f"every row of {test} is missing or empty in what is compared ({', '.join(chosen)})")
    named = check.keys[0] if len(check.keys) == 1 else None
    asked = TestSide(test, table, chosen, named, ours, usable, row_digests(ours))
    blank = BlankRows(asked)
    detectors = [*_detectors(check, inputs, asked, subwords), *further_detectors(check, inputs, asked)]
    look(inputs, check.name, train, test, [blank, *detectors], table.nbytes)
    blank.refuse()
    rows = {name: one.rows for name, one in blank.sets.items()}
    levels = tuple(level for detector in detectors for level in detector.levels())
    repeats = int(usable.sum()) - len(Lookup(asked.digests[usable, 0]))
    compared = ContaminationResult(test, chosen, left_out, usable, levels, repeats, rows)
    pairs = _pairs(inputs, detectors) if check.show_examples else []
    spans = [detector.spans for detector in detectors if isinstance(detector, TextDetector | SpanDetector)]
    facts = _facts(compared)
    score = consequence(check, inputs, asked, levels)
    language = language_model(check, inputs)
    return CheckResult(
        estimates={
            **withheld(facts, blank.unknown(test, usable)),
            **further_facts(levels, usable, detectors),
            **score.estimates,
            **language.estimates,
        },
        missing={
            **({} if "ngram_overlap" in facts else {"ngram_overlap": _no_spans(spans, test, check.ngram)}),
            **score.missing,
            **language.missing,
        },
        blocks=(
            _table(compared),
            *score.blocks,
            *language.blocks,
            *further_blocks(detectors),
            *side_by_side(pairs, test, int(compared.contaminated.sum())),
        ),
        counts=Counts(attempted=len(usable), used=compared.used, dropped=len(usable) - compared.used),
        conditions={**_conditions(compared, subwords), **score.conditions},
        answers_each=dict.fromkeys(score.estimates, score.asked),
        notes=(
            *score.notes,
            *(row_names_note(column, test, "column") for column in named_by),
            *_notes(compared),
            *blank.notes,
            *_span_notes(spans, compared, check.ngram),
            *further_notes(detectors),
            *language.notes,
        ),
        weakens=[*(line for one in spans for line in dropped_of(one, test, check.ngram)), *language.weakens],
        remedies=_remedies(check, compared, score.estimates.get(CLEAN)),
        evidence=_write(inputs, compared, _file(check), check.show_examples),
    )


def _file(check: Contamination) -> str:
    return f"duplicates-{check.name}.parquet"


def _remedies(check: Contamination, compared: ContaminationResult, clean: Estimate | None) -> tuple[RemoveRows, ...]:
    """Test rows to leave out, for each set of requirements that they may violate together.

    Args:
        check: Its fields.
        compared: Rows that were compared.
        clean: Score of a model on the rows that no detector found; None: none was asked for.
    """
    found = tuple(dict.fromkeys(level.metric for level in compared.levels if level.metric in COPIES))
    required = {one.metric for one in check.requirements}
    # Rows that no requirement counts need not leave.
    asked = [metric for metric in found if metric in required]
    sets = [together for size in range(1, len(asked) + 1) for together in combinations(asked, size)] or [found]
    remedies = [remedy for metrics in sets if (remedy := _remedy(check, compared, metrics)).total]
    if clean is None or clean.value is None:
        return tuple(remedies)
    every = int(compared.contaminated.sum())
    left = {"score": check.metric_, "score_left": clean.value, "score_unit": UNITS[check.metric_]}
    return tuple(one.model_copy(update=left) if one.total == every else one for one in remedies)


def _remedy(check: Contamination, compared: ContaminationResult, metrics: tuple[str, ...]) -> RemoveRows:
    # A near duplicate counts the equal ones too.
    counted = {*metrics, *(COPIES[:1] if COPIES[1] in metrics else ())}
    rows = np.flatnonzero(contaminated(compared.counting(*counted), len(compared.usable)) & compared.usable)
    return RemoveRows(
        metrics=metrics,
        dataset=compared.test,
        rows=tuple(int(row) for row in rows[:MOST_ROWS]),
        total=len(rows),
        also_in=tuple(compared.rows),
        file=_file(check),
    )


def _schema(inputs: Inputs, name: str) -> pa.Schema:
    """Columns of a dataset, from its first rows.

    Raises:
        InputError: It has no rows.
    """
    first = next(iter(inputs.batches(name)), None)
    if first is None:
        raise InputError(f"dataset {name} has no rows to compare")
    return first.schema


def _columns(
    inputs: Inputs,
    schemas: Mapping[str, pa.Schema],
    train: Sequence[str],
    test: str,
    columns: Sequence[str],
    key: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns to compare, and those of the model's that a training set lacks."""
    named = (*columns, *key)
    for name, schema in schemas.items():
        for column in named:
            if column not in schema.names:
                raise InputError(f"dataset {name} has no column {column!r}", choices=schema.names)
    if columns:
        return tuple(dict.fromkeys(columns)), ()
    wanted = [column for column in inputs.feature_columns(test) if column not in key]
    shared = tuple(column for column in wanted if all(column in schemas[name].names for name in train))
    if not shared:
        raise InputError(
            f"{test} and {', '.join(train)} share none of the columns that the model reads ({', '.join(wanted)})",
            remedy="name what to compare in `column:`",
        )
    return shared, tuple(column for column in wanted if column not in shared)


def _detectors(check: Contamination, inputs: Inputs, asked: TestSide, subwords: Subwords | None) -> list[Detector]:
    split = _split(check.ngram, subwords)
    texts = [column for column in asked.columns if family(asked.table.schema.field(column).type) == "text"]
    if len(asked.columns) == 1 and texts:
        return [TextDetector(asked, check, split)]
    searched = [SpanDetector(asked, column, check.ngram, split) for column in texts]
    # A column of few words is no text to look for spans in.
    return [TableDetector(asked, check, inputs.rng), *(one for one in searched if not one.spans.too_short().all())]


def _split(ngram: Ngram, subwords: Subwords | None) -> Split:
    if ngram.unit == "tokens":
        assert subwords is not None
        return subwords
    return partial(_tokens, ngram.unit)


def _tokens(unit: Literal["words", "characters"], texts: pa.ChunkedArray | pa.Array, first_row: int) -> Tokenised:
    return tokenised(texts, unit, first_row)


def _pairs(inputs: Inputs, detectors: Sequence[Detector]) -> list[RowPair]:
    """Some rows that were found beside those that they were found in; some of these are read once more."""
    for detector in detectors:
        if isinstance(detector, TextDetector | SpanDetector):
            detector.look_up(partial(named_rows, inputs))
    return [pair for detector in detectors for pair in detector.pairs()]


def _refuse_unreadable(table: pa.Table, columns: Sequence[str], name: str) -> None:
    for column in columns:
        if family(table.schema.field(column).type) == "text":
            first_row = 0
            for chunk in table.column(column).chunks:
                with of_dataset(name):
                    check_utf8(chunk, first_row)
                first_row += len(chunk)


def _no_spans(spans: Sequence[SpanSearch], test: str, ngram: Ngram) -> str:
    if not spans:
        return "nothing that is compared is a text long enough to hold an n-gram"
    return f"no row of {test} has the {ngram.size} {ngram.unit} of an n-gram"


def _facts(compared: ContaminationResult) -> dict[str, Fact]:
    used = compared.used
    exact = compared.counting("exact_duplicates")
    near = compared.counting("exact_duplicates", "near_duplicates")
    spans = compared.counting("ngram_overlap")

    def rows(levels: tuple[Level, ...]) -> int:
        return int((contaminated(levels, len(compared.usable)) & compared.usable).sum())

    def how(levels: tuple[Level, ...]) -> str:
        return "counted: " + "; ".join(dict.fromkeys(level.method for level in levels))

    def first(levels: tuple[Level, ...]) -> str:
        return first_found(levels, compared.usable)

    facts = {
        "exact_duplicates": Fact(float(rows(exact)), used, how(exact), first=first(exact)),
        "near_duplicates": Fact(rows(near) / used, used, how(compared.counting("near_duplicates")), first=first(near)),
    }
    judged = [level.judged for level in spans if level.judged is not None]
    if judged:
        long = int((np.logical_or.reduce(judged) & compared.usable).sum())
        if long:
            facts["ngram_overlap"] = Fact(rows(spans) / long, long, how(spans), first=first(spans))
    return facts


def _conditions(compared: ContaminationResult, subwords: Subwords | None) -> dict[str, Cell]:
    near = [level.recall for level in compared.counting("near_duplicates")]
    columns, recall = ", ".join(compared.columns), round(min(near, default=1.0), 4)
    tokenizer = {} if subwords is None else {"tokenizer": subwords.digest}
    return {"columns": columns, "recall at the limit": recall, **tokenizer}


def _notes(compared: ContaminationResult) -> tuple[str, ...]:
    notes = []
    if compared.left_out:
        notes.append(f"Not compared, since a training set lacks them: {', '.join(compared.left_out)}.")
    empty = int((~compared.usable).sum())
    if empty:
        holds = verb(empty, "holds nothing to compare and is", "hold nothing to compare and are")
        notes.append(f"{plural(empty, 'row')} of {compared.test} {holds} left out.")
    if compared.repeats:
        repeat = verb(compared.repeats, "repeats", "repeat")
        notes.append(f"Inside {compared.test} {plural(compared.repeats, 'row')} {repeat} an earlier one.")
    return tuple(notes)


def _span_notes(spans: Sequence[SpanSearch], compared: ContaminationResult, ngram: Ngram) -> tuple[str, ...]:
    return tuple(note for one in spans for note in notes_of(one, compared.usable, compared.test, ngram))


def _table(compared: ContaminationResult) -> Table:
    def row(name: str, rows: int, found: Sequence[Mask]) -> tuple[Cell, ...]:
        counts = [int((one & compared.usable).sum()) for one in found]
        copies = [one for one, level in zip(found, compared.levels, strict=True) if level.metric in COPIES]
        together = np.logical_or.reduce([np.zeros(len(compared.usable), bool), *copies]) & compared.usable
        return (name, rows, *counts, 100 * float(together.sum()) / compared.used)

    rows = [row(name, count, [one.in_set[name] for one in compared.levels]) for name, count in compared.rows.items()]
    if len(rows) > 1:
        exact = contaminated(compared.counting("exact_duplicates"), len(compared.usable))
        anywhere = [one.rows & ~exact if one.metric == "near_duplicates" else one.rows for one in compared.levels]
        rows.append(row("any of them", sum(compared.rows.values()), anywhere))
    others = [one.title for one in compared.levels if one.metric not in COPIES]
    units = [("training set", ""), ("its rows", "rows"), *((one.title, "rows") for one in compared.levels)]
    return Table(
        title=f"Rows of {compared.test} that occur in training",
        caption=f"Of {compared.used:,} rows of {compared.test}, each counted once. Compared: "
        f"{', '.join(compared.columns)}." + (f" Together: without {' and '.join(others)}." if others else ""),
        columns=tuple(Column(name=name, unit=unit) for name, unit in [*units, ("together", "%")]),
        rows=tuple(rows),
    )


def _write(inputs: Inputs, compared: ContaminationResult, file: str, texts: bool) -> list[tuple[str, str]]:
    """All pairs, as row numbers of the two sets, with the text of spans."""
    parts = []
    for level in compared.levels:
        for name, train_row in level.train_row.items():
            rows = np.flatnonzero(train_row >= 0)
            what = level.what[rows] if texts and level.what is not None else [None] * len(rows)
            parts.append(
                pa.table(
                    {
                        "test_row": rows,
                        "training_set": pa.array([name] * len(rows), pa.string()),
                        "train_row": train_row[rows],
                        "kind": pa.array([level.kind] * len(rows), pa.string()),
                        "closeness": pa.array(level.closeness[name][rows], pa.float64(), from_pandas=True),
                        "text": pa.array(what, pa.string()),
                    }
                )
            )
    pq.write_table(pa.concat_tables(parts), inputs.evidence / file)
    return [(file, "every test row that occurs in training, with the training row it was found in")]


def _subwords(check: Contamination, inputs: Inputs) -> Subwords | None:
    """Splitter of texts into the tokens of n-grams; None: they are made of words or characters."""
    if check.ngram.tokenizer is None:
        return None
    from evalspec.sources.reading.subwords import Subwords

    return Subwords(inputs.file(check.ngram.tokenizer))
