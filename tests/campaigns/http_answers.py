"""Answers of a server with any bytes changed: each is an answer, or a failure with a name.

By hand: ``python -m tests.campaigns.http_answers --count 10000 --seed 1``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from evalspec.errors import EvalspecError
from evalspec.language.inputs import OUTCOMES
from evalspec.runtimes.http_client.wire import HttpError
from tests.runtimes.http_client.test_faults import client, infer_only
from tests.runtimes.servers import Answer, Request, answer, outputs, read_rows, serving

PIECES = (
    b"\r\n", b"\r\n\r\n", b"\x00", b"\xff\xfe", b"Content-Length: 99999999999999999999\r\n", b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/9.9 200 OK\r\n",
    b"Inference-Header-Content-Length: 7\r\n", b"Content-Encoding: gzip\r\n", b"[" * 5000, b"1e999", b"NaN", b'"',
    b"{", b"}", b"x" * 70_000, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
)  # fmt: skip


def mangled(whole: bytes, rng: np.random.Generator) -> bytes:
    """One to four places of an answer changed, cut out, doubled, or filled with something else."""
    data = bytearray(whole)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(data) + 1))
        how = rng.integers(4)
        if how == 0 and place < len(data):
            data[place] = int(rng.integers(256))
        elif how == 1:
            del data[place : place + int(rng.integers(1, 30))]
        elif how == 2:
            data[place:place] = data[place : place + int(rng.integers(1, 60))]
        else:
            data[place:place] = PIECES[int(rng.integers(len(PIECES)))]
    return bytes(data)


def campaign(folder: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """So many queries.

    Returns:
        How they ended, and what should not be.
    """
    rng = np.random.default_rng(seed)

    def fault(request: Request) -> Answer:
        request.connection.sendall(mangled(answer(200, outputs([1.0] * len(read_rows(request)))), rng))
        request.connection.close()
        return None

    ends: Counter[str] = Counter()
    wrong = []
    with serving(infer_only(fault)) as server, client(server, folder, timeout="0.5 s") as rows:
        for index in range(count):
            try:
                rows.answers(rows.serve(rows.take(np.array([index % 40]))))
                ends["answered"] += 1
            except HttpError as error:
                ends[OUTCOMES[error.outcome]] += 1
            except EvalspecError as error:
                ends[type(error).__name__] += 1
            except Exception as error:  # noqa: BLE001  # any other one is what is looked for
                wrong.append(f"query {index} of seed {seed}: {type(error).__name__}: {error}")
    return ends, wrong


def main() -> int:
    """A campaign by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ends, wrong = campaign(Path(folder), options.count, options.seed)
    sys.stdout.write("\n".join([*wrong, f"{dict(ends)}, {len(wrong)} wrong"]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
