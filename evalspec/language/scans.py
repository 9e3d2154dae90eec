"""Rows that a check wants to see go by once, so that one pass over a dataset can serve several checks.

A dataset is cut into leaves of rows, by how many it has and nothing else. What can be merged is made for each leaf and
merged in a fixed tree, so that it is the same to the bit whichever process saw which leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Callable[[str, Sequence[str] | None], Iterator[pa.RecordBatch]]

LEAF_ROWS = 2**20
"""Rows of a leaf, a multiple of those of a batch."""
MOST_LEAVES = 1024
"""Where there would be more, leaves are twice as long, as often as it takes."""


class Watcher(Protocol):
    """Looks at rows while they go by, and keeps what it needs of them, not the rows."""

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows.

        Args:
            batch: At least one.
            first_row: Number of the first of them in the dataset.

        Raises:
            InputError: They hold what can't be looked at.
        """
        ...


@runtime_checkable
class Summary(Protocol):
    """A `Watcher` of which each leaf may have its own, made in any process, since two can be merged.

    No estimate of it may hang on a library of linear algebra, the order of sets or threads, a clock, or a generator of
    random numbers that it shares. Its scan's `make` can be pickled.
    """

    exact: ClassVar[bool]
    """Any cut of the rows gives the same estimates, to the bit, so that where one process sees all, one is enough."""
    most_bytes: ClassVar[int]
    """Of a state of a leaf, about, however many rows it has."""

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """As of a `Watcher`."""
        ...

    def merge(self, later: Self) -> None:
        """Take over what another one has seen, of the rows that come after; nobody uses that one any more."""
        ...

    def state(self) -> pa.Table:
        """All that is kept, to be handed to another process (`evalspec.language.states`); no row is seen after that."""
        ...

    @classmethod
    def restored(cls, state: pa.Table) -> Self:
        """The summary with this state, for its estimates and for merging.

        Raises:
            InputError: It is none, or one of another version.
        """
        ...


@dataclass(frozen=True, slots=True)
class Scan:
    """Part of a dataset that a check wants to see.

    Args:
        dataset: Its name.
        key: Scans of a dataset with the same key keep the same of the same rows, so that one watcher serves them all.
        columns: Columns that it sees, in this order; None: all.
        make: A watcher that has seen nothing. Nobody changes one that several ask for once all rows went by.
        grows: What it keeps grows with the rows.
    """

    dataset: str
    key: str
    columns: tuple[str, ...] | None
    make: Callable[[], Watcher]
    grows: bool = False


def leaf_rows(rows: int | None) -> int:
    """Rows of a leaf.

    Args:
        rows: Of the dataset, before ``where``, as its header says; None: it doesn't.
    """
    size = LEAF_ROWS
    while rows is not None and size * MOST_LEAVES < rows:
        size *= 2
    return size


class Tree:
    """Merges the summaries of leaves, given one after the other: always neighbours of one height, the earliest first.

    Of leaves whose number is no power of two, what is left at the end is merged from the last one on.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Summary]] = []

    def add(self, leaf: Summary) -> None:
        """The summary of the next leaf."""
        height, exact = 0, leaf.exact
        while self._waiting and (exact or self._waiting[-1][0] == height):
            height, earlier = self._waiting.pop()
            earlier.merge(leaf)
            leaf, height = earlier, height + 1
        self._waiting.append((height, leaf))

    def end(self) -> Summary | None:
        """The summary of all of them; None: there was none."""
        if not self._waiting:
            return None
        _, last = self._waiting.pop()
        while self._waiting:
            _, earlier = self._waiting.pop()
            earlier.merge(last)
            last = earlier
        return last


def look(scans: Sequence[Scan], batches: Batches, rows: int = LEAF_ROWS) -> list[Any]:
    """The watchers of these scans, when all rows went by: one pass over each dataset.

    Args:
        scans: In any order.
        batches: Dataset and columns -> its rows, some at a time.
        rows: Of a leaf.

    Raises:
        InputError: Rows can't be read, or hold what can't be looked at.
    """
    found: dict[tuple[str, str], Watcher] = {}
    for dataset in dict.fromkeys(scan.dataset for scan in scans):
        mine = {scan.key: scan for scan in scans if scan.dataset == dataset}
        found |= {(dataset, key): one for key, one in one_pass(dataset, mine, batches, rows=rows).items()}
    return [found[scan.dataset, scan.key] for scan in scans]


def one_pass(
    dataset: str,
    scans: Mapping[str, Scan],
    batches: Batches,
    given_up: Callable[[], frozenset[str]] = frozenset,
    rows: int = LEAF_ROWS,
) -> dict[str, Watcher]:
    """Key: the watcher, when all rows of the dataset went by.

    Args:
        dataset: Its name.
        scans: Key: what is to be seen.
        batches: As in `look`.
        given_up: Asked after each batch: keys of those that see no more and are left out.
        rows: Of a leaf.

    Raises:
        InputError: As `look`.
    """
    watchers = {key: _Watched(scan) for key, scan in scans.items()}
    first = 0
    for batch in batches(dataset, columns_of(scans.values())):
        for part in _cut(batch, rows - first % rows, rows):
            for watched in watchers.values():
                watched.update(part, first, begins=first % rows == 0)
            first += part.num_rows
        gone = given_up()
        if gone:
            watchers = {key: one for key, one in watchers.items() if key not in gone}
    return {key: one.end() for key, one in watchers.items()}


def columns_of(scans: Iterable[Scan]) -> list[str] | None:
    """Columns that some of these scans see, each once; None: all."""
    seen: dict[str, None] = {}
    for scan in scans:
        if scan.columns is None:
            return None
        seen |= dict.fromkeys(scan.columns)
    return list(seen)


def _cut(batch: pa.RecordBatch, room: int, rows: int) -> Iterator[pa.RecordBatch]:
    """A batch, cut where a leaf ends: after so many rows, and so many further on each time."""
    while batch.num_rows > room:
        yield batch.slice(0, room)
        batch, room = batch.slice(room), rows
    yield batch


class _Watched:
    """The watcher of a scan, or the summaries of its leaves."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._now = scan.make()
        self._by_leaf = isinstance(self._now, Summary) and not self._now.exact
        self._tree = Tree()

    def update(self, batch: pa.RecordBatch, first_row: int, *, begins: bool) -> None:
        if begins and first_row and self._by_leaf:
            self._close()
            self._now = self._scan.make()
        wanted = self._scan.columns
        self._now.update(batch if wanted is None else batch.select(list(wanted)), first_row)

    def _close(self) -> None:
        assert isinstance(self._now, Summary)
        self._tree.add(self._now)

    def end(self) -> Watcher:
        if not self._by_leaf:
            return self._now
        self._close()
        merged = self._tree.end()
        assert merged is not None
        return merged
