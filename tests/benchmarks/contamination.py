"""`contamination` of texts beside rensa and lm-eval's janitor, A B A B.

    python tests/benchmarks/contamination.py --peers PYTHON --lm-eval WHEEL [--rounds 3]
    python tests/benchmarks/contamination.py --stream-mb 1000

20,000 training and 4,000 test documents of 60 to 400 words, drawn by Zipf's law from 30,000 made-up ones. Planted, 200
of each: exact copies, copies with 4 % of their words replaced, and spans of 30 words of a test document inside fresh
training text. Three figures: the whole check (exact, near, spans, evidence written) beside MinHash by rensa alone, 128
permutations, signatures of both sets and its index; the scan of training text for n-grams, MB/s, beside the words and
n-grams of the janitor; and the largest resident size while texts made on the fly stream past, with --stream-mb.

PYTHON is of an environment with `rensa`; WHEEL is lm-eval's (`pip download --no-deps lm-eval`), read and not installed.
Imports are not counted, nor the making of the documents.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

# Under the peer's Python only a side is run, which takes nothing of this.
with contextlib.suppress(ModuleNotFoundError):
    from beside import column, head, in_turn, row

TRAIN, TEST, PLANTED = 20_000, 4_000, 200
VOCABULARY, SPAN, RUN = 30_000, 30, 5
JANITOR_DOCUMENTS = 2_000


def vocabulary() -> np.ndarray:
    """Words of 2 to 13 letters, short ones often."""
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        size = 2 + int(rng.poisson(1 + 6 * min(len(words) / 500, 1)))
        words["".join(rng.choice(letters, min(size, 13)))] = None
    return np.array(list(words), dtype=object)


def texts(count: int, words: np.ndarray, rng: np.random.Generator) -> list[list[str]]:
    """Documents, each a list of words."""
    chance = 1.0 / (np.arange(len(words)) + 10.0)
    sizes = rng.integers(60, 401, count)
    drawn = words[rng.choice(len(words), int(sizes.sum()), p=chance / chance.sum())]
    return [part.tolist() for part in np.split(drawn, np.cumsum(sizes)[:-1])]


def documents() -> tuple[list[str], list[str]]:
    """Training and test documents; test rows 0 to 599 are planted, 200 of each kind."""
    rng = np.random.default_rng(0)
    words = vocabulary()
    train, test = texts(TRAIN, words, rng), texts(TEST, words, rng)
    places = rng.choice(TRAIN, 3 * PLANTED, replace=False)
    for number, place in enumerate(places.tolist()):
        if number < PLANTED:
            train[place] = list(test[number])
        elif number < 2 * PLANTED:
            copy = list(test[number])
            for at in rng.choice(len(copy), round(0.04 * len(copy)), replace=False):
                copy[at] = "replaced"
            train[place] = copy
        else:
            begin = int(rng.integers(0, len(test[number]) - SPAN + 1))
            middle = len(train[place]) // 2
            train[place][middle:middle] = test[number][begin : begin + SPAN]
    return [" ".join(one) for one in train], [" ".join(one) for one in test]


def check_side() -> dict[str, float]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from evalspec.checks.data.contamination.spec import Contamination
    from tests.fakes import FakeInputs

    train, test = documents()
    tables = {"train": pa.table({"text": train}), "test": pa.table({"text": test})}
    check = Contamination.model_validate(
        {"check": "contamination", "train": ["train"], "test": "test", "report_only": True}
    )
    spent = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            inputs = FakeInputs(Path(folder), tables=tables)
            begun, used = time.perf_counter(), time.process_time()
            check.run(inputs)
            # The first round loads what it needs, the second one counts.
            spent = [time.perf_counter() - begun, time.process_time() - used]
        found = pq.read_table(Path(folder) / "duplicates-contamination.parquet").to_pydict()
    rows: dict[str, set[int]] = {"exact": set(), "near": set(), "span": set()}
    for kind, number in zip(found["kind"], found["test_row"], strict=True):
        rows[kind].add(number)
    near = rows["exact"] | rows["near"]
    return {
        "check_s": spent[0], "check_cpu_s": spent[1],
        "exact_recall": len(rows["exact"] & set(range(PLANTED))) / PLANTED,
        "near_recall": len(near & set(range(PLANTED, 2 * PLANTED))) / PLANTED,
        "span_recall": len(rows["span"] & set(range(2 * PLANTED, 3 * PLANTED))) / PLANTED,
        "false_rows": len((near | rows["span"]) - set(range(3 * PLANTED))) + len(rows["exact"] - set(range(PLANTED)))
        + len(near & set(range(2 * PLANTED, 3 * PLANTED))),
    }  # fmt: skip


def rensa_side() -> dict[str, float]:
    """Runs of five words, as other tools take them: from the texts on, and without the time to make the runs."""
    from rensa import RMinHash, RMinHashLSH

    train, test = documents()
    begun, used = time.perf_counter(), time.process_time()
    split = [text.split() for text in train + test]
    sets = [list(map(" ".join, zip(*(words[at:] for at in range(RUN)), strict=False))) for words in split]
    bare, bare_used = time.perf_counter(), time.process_time()
    index = RMinHashLSH(threshold=0.7, num_perm=128, num_bands=16)
    made = []
    for some in sets:
        one = RMinHash(num_perm=128, seed=42)
        one.update(some)
        made.append(one)
    for number, one in enumerate(made[:TRAIN]):
        index.insert(number, one)
    found = [index.query(one) for one in made[TRAIN:]]
    ended, processor = time.perf_counter(), time.process_time()
    hit = {number for number, some in enumerate(found) if some}
    return {
        "minhash_s": ended - begun, "minhash_cpu_s": processor - used,
        "bare_s": ended - bare, "bare_cpu_s": processor - bare_used,
        "exact_recall": len(hit & set(range(PLANTED))) / PLANTED,
        "near_recall": len(hit & set(range(PLANTED, 2 * PLANTED))) / PLANTED,
        "span_recall": len(hit & set(range(2 * PLANTED, 3 * PLANTED))) / PLANTED,
        "false_rows": len(hit - set(range(3 * PLANTED))),
    }  # fmt: skip


def scan_side() -> dict[str, float]:
    import pyarrow as pa

    from evalspec.checks.data.contamination.texts import portions
    from evalspec.sources.reading.text import tokenised
    from evalspec.stats.sets.ngrams import NgramIndex

    train, test = documents()
    index = NgramIndex(tokenised(pa.array(test)).tokens, 13)
    array = pa.chunked_array([train])
    size = sum(map(len, train))
    for _ in range(2):
        begun = time.process_time()
        for first, some in portions(array):
            index.see(tokenised(some).tokens, 0, first)
        spent = time.process_time() - begun
    return {"mb_per_s": size / 1e6 / spent}


def janitor_side(wheel: str) -> dict[str, float]:
    """Its own class, cut out of the wheel: clean words, and every 13-gram asked for among those of the test set."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith("decontamination/janitor.py"))
        source = archive.read(name).decode()
    janitor: dict[str, Any] = {"__name__": "janitor"}
    said = io.StringIO()
    # It warns with each document that its C++ part is not there.
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        exec(compile(source, name, "exec"), janitor)
        train, test = documents()
        one = janitor["Janitor"](ngram_n=13)
        for text in test:
            one.register_contaminant_python(text)
        some = train[:JANITOR_DOCUMENTS]
        begun = time.process_time()
        for text in some:
            one.clean_python(text)
        spent = time.process_time() - begun
    return {"mb_per_s": sum(map(len, some)) / 1e6 / spent}


def stream(megabytes: int) -> dict[str, float]:
    """The check over texts that are made as they are asked for."""
    import pyarrow as pa

    from evalspec.checks.data.contamination.spec import Contamination
    from tests.fakes import FakeInputs

    train, test = documents()
    size = sum(map(len, train))

    class Endless(FakeInputs):
        def batches(self, dataset: str, columns: object = None) -> Iterator[pa.RecordBatch]:
            rng = np.random.default_rng(2)
            for _ in range(max(1, round(megabytes * 1e6 / size))):
                order = rng.permutation(len(train))
                # The halves of two others each, so that no text comes twice.
                mixed = (train[i][: len(train[i]) // 2] + train[j][len(train[j]) // 2 :] for i, j in enumerate(order))
                while some := list(itertools.islice(mixed, 2_000)):
                    yield pa.record_batch({"text": some})

    def resident() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    check = Contamination.model_validate(
        {"check": "contamination", "train": ["train"], "test": "test", "report_only": True}
    )
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        check.run(Endless(Path(folder), tables={"test": pa.table({"text": test})}))
    return {"megabytes": megabytes, "cpu_s": time.process_time() - begun, "largest_resident_mib": resident()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--lm-eval", default="")
    parser.add_argument("--stream-mb", type=int)
    parser.add_argument("--side", choices=["check", "rensa", "scan", "janitor"])
    options = parser.parse_args()
    if options.stream_mb is not None:
        print(json.dumps(stream(options.stream_mb)))
        return
    if options.side is not None:
        made = {"check": check_side, "scan": scan_side}
        if options.side == "rensa" and options.peers != sys.executable:
            ran = [options.peers, __file__, "--side", "rensa", "--peers", options.peers]
            print(subprocess.run(ran, check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
        elif options.side == "rensa":
            print(json.dumps(rensa_side()))
        else:
            print(json.dumps(janitor_side(options.lm_eval) if options.side == "janitor" else made[options.side]()))
        return
    passed = ["--peers", options.peers, "--lm-eval", options.lm_eval]
    both = in_turn(__file__, ("check", "rensa"), options.rounds, passed)
    print(head(f"{TRAIN:,} and {TEST:,} documents", "evalspec: exact, near, spans", "rensa: MinHash alone"))
    for name, theirs in (("", "minhash"), (", its runs of words made before", "bare")):
        for what, unit in (("seconds", "s"), ("processor seconds", "cpu_s")):
            ours, peers = column(both["check"], f"check_{unit}"), column(both["rensa"], f"{theirs}_{unit}")
            print(row(what + name, ours, peers))
    for side in ("check", "rensa"):
        print(side, {name: both[side][0][name] for name in both[side][0] if not name.endswith("_s")})
    if options.lm_eval:
        scans = in_turn(__file__, ("scan", "janitor"), options.rounds, passed)
        print(head("scan for 13-grams", "evalspec", "lm-eval's janitor"))
        print(row("MB/s", column(scans["scan"], "mb_per_s"), column(scans["janitor"], "mb_per_s")))


if __name__ == "__main__":
    main()
