"""Rows that a check wants to see go by once, so that one pass over a dataset can serve several checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    Batches = Callable[[str, Sequence[str] | None], Iterator[pa.RecordBatch]]


class Watcher(Protocol):
    """Looks at rows while they go by, and keeps what it needs of them, not the rows."""

    def update(self, batch: pa.RecordBatch) -> None:
        """More rows.

        Raises:
            InputError: They hold what can't be looked at.
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


def look(scans: Sequence[Scan], batches: Batches) -> list[Any]:
    """The watchers of these scans, when all rows went by: one pass over each dataset.

    Args:
        scans: In any order.
        batches: Dataset and columns -> its rows, some at a time.

    Raises:
        InputError: Rows can't be read, or hold what can't be looked at.
    """
    found: dict[tuple[str, str], Watcher] = {}
    for dataset in dict.fromkeys(scan.dataset for scan in scans):
        mine = {scan.key: scan for scan in scans if scan.dataset == dataset}
        found |= {(dataset, key): one for key, one in one_pass(dataset, mine, batches).items()}
    return [found[scan.dataset, scan.key] for scan in scans]


def one_pass(
    dataset: str,
    scans: Mapping[str, Scan],
    batches: Batches,
    given_up: Callable[[], frozenset[str]] = frozenset,
) -> dict[str, Watcher]:
    """Key: the watcher, when all rows of the dataset went by.

    Args:
        dataset: Its name.
        scans: Key: what is to be seen.
        batches: As in `look`.
        given_up: Asked after each batch: keys of those that see no more and are left out.

    Raises:
        InputError: As `look`.
    """
    watchers = {key: scan.make() for key, scan in scans.items()}
    every = any(scan.columns is None for scan in scans.values())
    columns = None if every else list(dict.fromkeys(name for scan in scans.values() for name in scan.columns or ()))
    for batch in batches(dataset, columns):
        for key, watcher in watchers.items():
            wanted = scans[key].columns
            watcher.update(batch if wanted is None else batch.select(list(wanted)))
        gone = given_up()
        if gone:
            watchers = {key: one for key, one in watchers.items() if key not in gone}
    return watchers
