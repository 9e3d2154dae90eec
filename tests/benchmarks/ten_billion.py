"""Ten thousand million rows by simulated states of leaves: time and memory of merging, slack, accidental copies.

    python tests/benchmarks/ten_billion.py [--rows 10000000000] [--columns 50] [--buckets 1024]

Leaves are as many as a dataset of so many rows has, states are those of `shift` for a column of numbers. Only a few are
made of rows as many as a leaf holds; each further one is one of these, its values stretched by a little, so that no two
leaves have a value in common. What is timed is reading the states and merging them, not making them. The slack is that
of a column's Kolmogorov-Smirnov distance from a reference of 10,000 rows.

Digests are drawn at random, bucket by bucket as they are counted, once for each row: every pair that is equal is an
accident, by all 128 bits and by the first 64 alone.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


def drawn_states(count: int, rows: int, seed: int) -> list[object]:
    """Numbers of some leaves, each drawn from a distribution of its own."""
    from evalspec.stats.drift.columns import Numbers

    made: list[object] = []
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        one = Numbers()
        for start in range(0, rows, 2**16):
            one.update(rng.normal(number / 50, 1, min(2**16, rows - start)))
        one.ranks()
        made.append(one)
    return made


def merge(rows: int, columns: int, drawn: int) -> None:
    """Merge the states of all leaves of each column in the fixed tree."""
    import pyarrow as pa

    from evalspec.checks.data.shift.summaries import ColumnSummary, OneColumn
    from evalspec.language.scans import Tree, leaf_rows
    from evalspec.stats.drift.columns import Numbers
    from evalspec.stats.drift.rank_distances import ks_of_ranks
    from evalspec.stats.drift.ranks import Ranks

    size = leaf_rows(rows)
    leaves = -(-rows // size)
    pool = drawn_states(drawn, size, 1)
    rng = np.random.default_rng(2)
    spent, slack, state_bytes = 0.0, 0.0, 0
    reference = Ranks.of(rng.normal(0.3, 1, 10_000))
    trees = [Tree() for _ in range(columns)]
    for leaf in range(leaves):
        for tree in trees:
            column = ColumnSummary("x", pa.float64())
            column.rows = size
            column.views[""] = stretched(pool[int(rng.integers(drawn))], 1 + 1e-3 * float(rng.random()))
            made = OneColumn()
            made.found = column
            state = made.state()
            state_bytes = max(state_bytes, state.nbytes)
            begun = time.process_time()
            tree.add(OneColumn.restored(state))
            spent += time.process_time() - begun
        if leaf % 50 == 0:
            print(f"{leaf} of {leaves} leaves, {spent:.0f} s, {peak_mib():.0f} MiB", file=sys.stderr, flush=True)
    for tree in trees:
        begun = time.process_time()
        whole = tree.end()
        assert isinstance(whole, OneColumn) and whole.found is not None
        numbers = whole.found.views[""]
        assert isinstance(numbers, Numbers) and numbers.n == leaves * size
        ranks = numbers.ranks()
        spent += time.process_time() - begun
        slack = max(slack, *ks_of_ranks(reference, ranks).slack)
    figures = f"{leaves} leaves of {size:,} | {columns} | {spent:.0f} | {peak_mib():.0f} | {state_bytes / 1e6:.1f}"
    print("| leaves | columns | merging, processor s | peak MiB | a state, MB | slack |\n|---|---|---|---|---|---|")
    print(f"| {figures} | {slack:.2g} |", flush=True)


def stretched(numbers: object, by: float) -> object:
    """The same leaf with its values stretched."""
    from evalspec.language.states import State, packed
    from evalspec.stats.drift.columns import Numbers
    from evalspec.stats.drift.ranks import Ranks

    assert isinstance(numbers, Numbers)
    copy = Numbers.of_fields(State.of(packed("copy", 1, numbers.fields()), "copy", 1))
    copy.low, copy.high, copy.mean, copy.squares = copy.low * by, copy.high * by, copy.mean * by, copy.squares * by**2
    levels = copy._sketch._levels
    for level, one in enumerate(levels):
        if one is not None:
            levels[level] = Ranks(one.points * by, one.below, one.upto, one.n)
    return copy


def count(rows: int, buckets: int) -> None:
    """Count digests that are equal by accident, one bucket after the other."""
    from evalspec.tables.buckets import BITS, BUCKETS, counted, maybe_repeated

    spent, seen, of_128, of_64 = 0.0, 0, 0, 0
    for bucket in range(buckets):
        rng = np.random.default_rng((3, bucket))
        n = rows * (bucket + 1) // BUCKETS - rows * bucket // BUCKETS
        first = rng.integers(0, 2**64, n, np.uint64)
        first >>= np.uint64(BITS)
        first |= np.uint64(bucket << (64 - BITS))
        begun = time.process_time()
        places = maybe_repeated(first)
        spent += time.process_time() - begun
        # The other half of a digest is looked at where the first occurs twice.
        _, each = counted(np.stack([first[places], rng.integers(0, 2**64, len(places), np.uint64)]))
        of_64 += len(places) - len(np.unique(first[places]))
        of_128 += int(each.sum()) - len(each)
        seen += n
        if bucket % 50 == 0:
            print(f"{bucket} of {buckets} buckets, {spent:.0f} s, {of_64} by 64 bits", file=sys.stderr, flush=True)
    expected = rows**2 / 2**65 * buckets / BUCKETS
    print("| rows | of them counted | processor s | peak MiB | accidental copies | by 64 bits | expected by 64 bits |")
    print("|---|---|---|---|---|---|---|")
    print(f"| {rows:,} | {seen:,} | {spent:.0f} | {peak_mib():.0f} | {of_128} | {of_64} | {expected:.2g} |", flush=True)


def peak_mib() -> float:
    """Largest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**10)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--drawn", type=int, default=8)
    parser.add_argument("--buckets", type=int, default=1024, help="of 1024; fewer take less time")
    parser.add_argument("--what", choices=("merge", "count"), nargs="+", default=("merge", "count"))
    options = parser.parse_args()
    if "merge" in options.what:
        merge(options.rows, options.columns, options.drawn)
    if "count" in options.what:
        count(options.rows, options.buckets)


if __name__ == "__main__":
    main()
