"""Laws of what can be merged: any process may see any leaf of a dataset, and the estimates are the same."""

from __future__ import annotations

import datetime
import hashlib
import importlib
import inspect
import itertools
import os
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import evalspec.checks.data
from evalspec.checks.data.contamination.blank_rows import BlankRows
from evalspec.checks.data.contamination.keys import KeyDetector
from evalspec.checks.data.contamination.spec import Contamination
from evalspec.checks.data.contamination.table_rows import TableDetector
from evalspec.checks.data.contamination.texts import TextDetector
from evalspec.checks.data.contamination.training import TrainingRows
from evalspec.checks.data.coverage import tally as tallies
from evalspec.checks.data.coverage.tally import CountedColumns, Tally
from evalspec.checks.data.integrity import rules as integrity_rules
from evalspec.checks.data.integrity.spec import ColumnRule
from evalspec.checks.data.integrity.summary import IntegritySummary, RowRules
from evalspec.checks.data.leakage import train_side
from evalspec.checks.data.leakage.columns import scale_of
from evalspec.checks.data.leakage.spec import Leakage
from evalspec.checks.data.leakage.train_side import Keys, RowIndex, Trained, TrainingSet
from evalspec.checks.data.shift import summaries
from evalspec.checks.data.shift.summaries import OneColumn, RowSample, summary_scans
from evalspec.errors import InputError
from evalspec.language.scans import Scan, Summary, Tree, leaf_rows, one_pass
from evalspec.language.where import parse_where
from evalspec.running.children.leaf import as_bytes, as_state
from evalspec.sources.reading.rows import row_digests
from evalspec.sources.reading.text import tokenised
from evalspec.stats.drift import columns as column_stats
from evalspec.stats.drift import ranks as rank_stats
from evalspec.stats.drift.columns import Numbers
from evalspec.tables import buckets
from tests.checks.data.asking import asked

COLUMNS = ("x", "site", "day", "note", "flag", "list", "tensor")


@dataclass(frozen=True)
class Kind:
    """A kind of summary: how one is made, and all that is estimated by it."""

    make: Callable[[], Summary]
    columns: tuple[str, ...]
    shown: Callable[[Any], Any]


def shown_numbers(one: Numbers) -> Any:
    ranks = one.ranks()
    plain = [one.missing, one.nan, one.infinite, one.n, one.low, one.high, one.mean, one.squares, ranks.n]
    return plain, ranks.points.tobytes(), ranks.below.tobytes(), ranks.upto.tobytes()


def shown_column(one: OneColumn) -> Any:
    if one.found is None:
        return None
    views = [
        (suffix, shown_numbers(view))
        if isinstance(view, Numbers)
        else (suffix, view.categories.counts, view.categories.overflown, shown_numbers(view.lengths()))
        for suffix, view in one.found.views.items()
    ]
    return one.found.name, str(one.found.type), one.found.rows, one.found.null, views


def shown_sample(one: RowSample) -> Any:
    rows, numbers = one.drawn() if one.seen else (pa.table({}), np.zeros(0))
    return one.seen, repr(rows.to_pylist()), str(rows.schema), numbers.tolist()


def shown_tally(one: Tally) -> Any:
    conditions = [
        (name, held.inside, held.outside, held.rows, held.empty, [list(kept) for kept in held.kept() or ()])
        for name, held in one.conditions.items()
    ]
    columns = [
        (name, str(held.type), held.missing, held.over, held.sorted()[0].to_pylist(), held.sorted()[1].tolist(),
         None if (kept := held.kept()) is None else kept.tolist())
        for name, held in one.columns.items()
    ]  # fmt: skip
    over = any(one.columns[name].over for name in ("site", "note", "flag"))
    tables = [] if over or not one.rows else [one.table(name).tolist() for name in ("note", "flag")]
    return one.rows, one.there, conditions, columns, tables


def tally() -> Tally:
    wheres = {"dark": parse_where("x < 0.5 and `site` != 'a'"), "noted": parse_where("note is not None")}
    return Tally(wheres, CountedColumns(("note", "flag", "day"), "site", ("note", "flag"), keep=True), COLUMNS)


def shown_integrity(one: IntegritySummary) -> Any:
    columns = [
        (name, vars(state.facts), sorted((broken.order, vars(broken)) for broken in state.broken.values()))
        for name, state in one.columns.items()
    ]
    repeated = {name: kept.found() for name, kept in {**one.unique, "": one.repeats}.items() if kept}
    # A column in which values occur again names no row, whether that was seen in one part or only of all of them.
    names = [name for name, kept in one.names.items() if not kept.found()[0]]
    told = {name: (count, digests.tolist()) for name, (count, digests) in repeated.items()}
    mixed = None if one.mixed is None else (one.mixed.splits, one.mixed.unnamed, *map(str, one.mixed.found()))
    return one.rows, columns, [(name, vars(why)) for name, why in one.absent], one.aside, told, names, mixed


def integrity() -> IntegritySummary:
    rules = {
        "x": ColumnRule(type="integer", min=-1.0, max=0.7, nullable=False), "gone": ColumnRule(type="text"),
        "note": ColumnRule(pattern="note .*[0-4]", unique=True), "site": ColumnRule(values=("a", "b"), unique=True),
    }  # fmt: skip
    by = ("site", "flag")
    return IntegritySummary(RowRules("test", Path("nowhere"), rules, only=True, duplicates_by=by, split="site"))


def splits() -> IntegritySummary:
    """Rows by a column that may name them."""
    return IntegritySummary(RowRules("test", Path("nowhere"), split="site", key="flag"))


def made(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(rows) < 0.1, rng.choice([np.inf, np.nan], rows), rng.normal(0, 1, rows))
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=int(i)) for i in rng.integers(0, 20, rows)]
    pictures = pa.FixedSizeListArray.from_arrays(rng.random(rows * 9), 9)
    return pa.table(
        {
            "x": pa.array(x, mask=rng.random(rows) < 0.2),
            "number": rng.permutation(rows + rows // 100)[:rows] % max(rows - int(rng.integers(2)), 1),
            "site": pa.array(rng.choice(["a", "b", "c"], rows), pa.string(), mask=rng.random(rows) < 0.2),
            "day": pa.array(days, pa.date32(), mask=rng.random(rows) < 0.2),
            "note": pa.array([f"note {'é' * int(i % 5)}{i}" for i in rng.integers(0, 70, rows)], pa.string()),
            "flag": pa.array(rng.random(rows) < 0.3, mask=rng.random(rows) < 0.1),
            "list": pa.array([list(rng.random(int(k))) for k in rng.integers(0, 4, rows)], pa.list_(pa.float64())),
            "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float64(), [3, 3]), pictures),
        }
    )


def shown_trained(one: Trained) -> Any:
    firsts = [one.groups, one.entities]
    firsts += [] if one.gaps is None else [one.gaps.below]
    firsts += [] if one.labels is None else [one.labels.first, one.labels.other]
    kept = [{name: part.tolist() for name, part in vars(first).items()} for first in firsts]
    gaps = None if one.gaps is None else (one.gaps.counts.tolist(), one.gaps.equal.tolist())
    labels = None if one.labels is None else one.labels.first_label.tolist()
    return one.too_far, {n: vars(a) for n, a in one.absent.items()}, one.last, kept, gaps, labels, one.alike.tolist()


def looked_up() -> RowIndex:
    """Rows of a test set, to be looked up; many of them are rows of training too."""
    test = made(50, 3)
    check = Leakage.model_validate(
        {"train": ["train"], "test": "test", "group": "note", "time": "day", "index": "number"}
    )
    heads = {"train": test, "test": test}
    scales = scale_of(heads, "day", "time"), scale_of(heads, "number", "position")
    features = ("site", "flag")
    return RowIndex(
        check, train_side.TestRows.of(check, test, heads, scales), features, Keys(row_digests(test, features))
    )


def shown_training(one: TrainingRows) -> Any:
    return [[shown_part(part) for part in parts] for parts in one.found]


def shown_part(part: Any) -> Any:
    kept = dict(vars(part))
    shown = [(test, train, rows.to_pylist()) for test, train, rows in kept.pop("shown", ())]
    return {name: one.tolist() if isinstance(one, np.ndarray) else one for name, one in kept.items()}, shown


def detectors() -> tuple[Any, ...]:
    """Of two test sets of which many rows are rows of training too: a text, and some columns."""
    check = Contamination.model_validate(
        {"train": ["train"], "test": "test", "column": "note", "ngram": {"n": 2}, "shingle_words": 1, "similarity": 0.5}
    )
    text, several = asked(made(40, 3), ["note"], "number"), asked(made(40, 3), ["site", "day"])
    found = (
        BlankRows(text), TextDetector(text, check, lambda texts, first: tokenised(texts, first_row=first)),
        TableDetector(several, check, np.random.default_rng(0)), KeyDetector(several, ["day"]),
    )  # fmt: skip
    assert not found[2].draws
    return found


INDEX, DETECTORS = looked_up(), detectors()
KINDS = {
    "training": Kind(
        lambda: TrainingRows(DETECTORS, "train"),
        ("note", "number", "site", "day"),
        lambda one: repr(shown_training(one)),
    ),
    "trained": Kind(
        lambda: Trained(INDEX, TrainingSet("train", 0, "site", 1)),
        ("note", "day", "number", "site", "flag"),
        shown_trained,
    ),
    "integrity": Kind(integrity, COLUMNS, shown_integrity),
    "integrity of splits": Kind(splits, ("number", "day", "flag", "site"), shown_integrity),
    **{f"column {name}": Kind(OneColumn, (name,), shown_column) for name in ("x", "day", "note", "list", "tensor")},
    "sample": Kind(lambda: RowSample(5, 20), COLUMNS, shown_sample),
    "tally": Kind(tally, COLUMNS, shown_tally),
}


TABLES = st.builds(made, st.integers(1, 160), st.integers(0, 10**6))


@pytest.fixture(autouse=True, params=["wide", "narrow"])
def bounds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Limits as they are, and so narrow that they are met: sketches prune, columns overflow, samples are cut."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "narrow":
            patch.setattr(column_stats, "MOST_CATEGORIES", 30)
            patch.setattr(tallies, "MOST_KNOWN", 40)
            patch.setattr(summaries, "SAMPLE_BYTES", 2000)
            patch.setattr(integrity_rules, "MOST_KEPT", 5)
            patch.setattr(buckets, "LEAST_HELD", 1)
            patch.setattr(buckets, "HELD_ROWS", 40)
            patch.setattr(rank_stats, "BUFFER", 16)
            init = rank_stats.RankSketch.__init__
            patch.setattr(rank_stats.RankSketch, "__init__", lambda self, most=12: init(self, most))
        yield


def seen(kind: Kind, table: pa.Table, start: int, stop: int, batch: int = 7) -> Summary:
    """What is kept of some of the rows."""
    summary = kind.make()
    part = table.select(kind.columns).slice(start, stop - start)
    for first in range(0, part.num_rows, batch):
        (one,) = part.slice(first, batch).combine_chunks().to_batches()
        summary.update(one, start + first)
    return summary


def leaves(kind: Kind, table: pa.Table, size: int, batch: int = 7) -> Iterator[Summary]:
    """What is kept of so many rows each."""
    for start in range(0, table.num_rows, size):
        yield seen(kind, table, start, min(table.num_rows, start + size), batch)


def travelled(leaf: Summary) -> Summary:
    return type(leaf).restored(as_state(bytes(as_bytes(leaf.state()))))


def together(found: Iterable[Summary]) -> Summary | None:
    tree = Tree()
    for leaf in found:
        tree.add(leaf)
    return tree.end()


def by_leaf(kind: Kind, table: pa.Table, size: int, batch: int = 7) -> Summary | None:
    """What is kept of all leaves, each of which has travelled."""
    return together(travelled(leaf) for leaf in leaves(kind, table, size, batch))


@pytest.mark.proof
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=6, deadline=None)
@given(table=TABLES, size=st.integers(1, 20))
def test_what_travels_is_what_was_kept(name: str, table: pa.Table, size: int) -> None:
    kind = KINDS[name]
    stayed = list(leaves(kind, table, size))
    # Those that stay are merged into each other, so the others leave first.
    left = [travelled(leaf) for leaf in stayed]
    whole, told = together(stayed), together(left)
    assert kind.shown(told) == kind.shown(whole)
    # A pass of one process merges in the same tree.
    scan, rows = Scan("test", "all", kind.columns, kind.make), 7 * size
    passed = one_pass("test", {"all": scan}, lambda _, columns: iter(table.select(columns).to_batches(7)), rows=rows)
    assert kind.shown(passed["all"]) == kind.shown(by_leaf(kind, table, rows))


@pytest.mark.proof
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.make().exact])
@settings(max_examples=8, deadline=None)
@given(table=TABLES, cuts=st.lists(st.integers(0, 160), max_size=6), right=st.booleans())
@example(table=made(9, 0), cuts=[2], right=False)
def test_what_is_exact_is_so_under_any_cut_and_in_any_tree(
    name: str, table: pa.Table, cuts: Sequence[int], right: bool
) -> None:
    kind = KINDS[name]
    ends = sorted({0, table.num_rows, *(cut for cut in cuts if cut < table.num_rows)})
    parts = [seen(kind, table, start, stop) for start, stop in itertools.pairwise(ends)]
    while len(parts) > 1:
        place = len(parts) - 2 if right else 0
        parts[place].merge(parts.pop(place + 1))
    assert kind.shown(parts[0]) == kind.shown(seen(kind, table, 0, table.num_rows))


@pytest.mark.parametrize("name", [name for name in KINDS if name.startswith("column")])
@settings(max_examples=8, deadline=None)
@given(table=TABLES, cuts=st.lists(st.integers(0, 160), max_size=6), right=st.booleans())
def test_what_is_not_exact_is_right_about_its_slack_in_any_tree(
    name: str, table: pa.Table, cuts: Sequence[int], right: bool
) -> None:
    kind = KINDS[name]
    ends = sorted({0, table.num_rows, *(cut for cut in cuts if cut < table.num_rows)})
    parts = [cast(OneColumn, seen(kind, table, a, b)) for a, b in itertools.pairwise(ends)]
    while len(parts) > 1:
        place = len(parts) - 2 if right else 0
        parts[place].merge(parts.pop(place + 1))
    whole = cast(OneColumn, seen(kind, table, 0, table.num_rows))
    assert parts[0].found is not None and whole.found is not None
    assert (parts[0].found.rows, parts[0].found.null) == (whole.found.rows, whole.found.null)
    for suffix, view in whole.found.views.items():
        other = parts[0].found.views[suffix]
        mine, theirs = (one if isinstance(one, Numbers) else one.lengths() for one in (view, other))
        assert (mine.n, mine.absent, mine.low, mine.high) == (theirs.n, theirs.absent, theirs.low, theirs.high)
        if mine.n:
            assert theirs.mean == pytest.approx(mine.mean, rel=1e-9, abs=1e-9) and theirs.squares == pytest.approx(
                mine.squares, rel=1e-9, abs=1e-9
            )
            (a, b), (c, d) = (one.ranks().at(mine.ranks().points)[1] for one in (mine, theirs))
            # Both state bounds of the same counts.
            assert (np.maximum(a, c) <= np.minimum(b, d)).all()


@pytest.mark.proof
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=4, deadline=None)
@given(table=TABLES, first=st.booleans())
def test_an_empty_leaf_changes_nothing(name: str, table: pa.Table, first: bool) -> None:
    kind = KINDS[name]
    one, empty = seen(kind, table, 0, table.num_rows), kind.make()
    empty = type(empty).restored(as_state(bytes(as_bytes(empty.state()))))
    if first:
        empty.merge(one)
    else:
        one.merge(empty)
    assert kind.shown(empty if first else one) == kind.shown(seen(kind, table, 0, table.num_rows))


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=3, deadline=None)
@given(table=TABLES)
def test_a_state_is_no_larger_than_it_says(name: str, table: pa.Table) -> None:
    summary = seen(KINDS[name], table, 0, table.num_rows)
    assert len(as_bytes(summary.state())) <= summary.most_bytes


def test_a_state_of_many_rows_is_bounded() -> None:
    rows = 3 * 10**5
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.normal(0, 1, rows)})
    for kind in (Kind(OneColumn, ("x",), shown_column), Kind(lambda: RowSample(1), ("x",), shown_sample)):
        sizes = [len(as_bytes(seen(kind, table, 0, n, 65_536).state())) for n in (rows // 2, rows)]
        assert sizes[1] < 1.5 * sizes[0] and sizes[1] < 2**21


def test_a_state_of_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="the state of column 1 came where that of row sample 1 was to come"):
        RowSample.restored(OneColumn().state())
    with pytest.raises(InputError, match="the state of nothing came"):
        OneColumn.restored(pa.table({"x": [1]}))


def test_every_summary_is_under_these_laws() -> None:
    found = set()
    for module in pkgutil.walk_packages(evalspec.checks.data.__path__, "evalspec.checks.data."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if one.__module__ == module.name and isinstance(one, type) and hasattr(one, "restored"):
                found.add(one)
    assert found == {type(kind.make()) for kind in KINDS.values()}
    assert all(isinstance(kind.make(), Summary) for kind in KINDS.values())


def test_scans_of_what_is_merged_can_be_handed_to_a_child() -> None:
    for scan in summary_scans("test", ["x", "site"], np.random.default_rng(0), "shift"):
        assert isinstance(pickle.loads(pickle.dumps(scan)).make(), Summary)


def test_leaves_hang_on_the_number_of_rows_alone() -> None:
    assert [leaf_rows(n) for n in (None, 0, 2**30)] == [2**20] * 3
    assert [leaf_rows(n) for n in (2**30 + 1, 2**31, 2**31 + 1, 10**10)] == [2**21, 2**21, 2**22, 2**24]
    for rows in (1, 2**20, 5 * 2**33 + 3):
        assert -(-rows // leaf_rows(rows)) <= 1024


PRINTS = """
from tests.checks.data.test_summaries import KINDS, by_leaf, made
import hashlib
from evalspec.running.children.leaf import as_bytes
for name, kind in KINDS.items():
    kept = by_leaf(kind, made(3000, 1), 700, batch=70)
    print(name, hashlib.sha256(as_bytes(kept.state())).hexdigest())
"""


# Its processes have the limits as they are.
@pytest.mark.proof
@pytest.mark.parametrize("bounds", ["wide"], indirect=True)
def test_the_same_bytes_whatever_the_processor_and_the_hashes() -> None:
    """The library of linear algebra is told that it has another processor; numpy's own kernels are left as they are."""
    said = set()
    for core, seed in (("Prescott", "1"), ("Haswell", "2")):
        environment = {**os.environ, "OPENBLAS_CORETYPE": core, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": seed}
        done = subprocess.run([sys.executable, "-c", PRINTS], env=environment, capture_output=True, check=True)
        said.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(said) == 1 and done.stdout
