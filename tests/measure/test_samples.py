"""Raw samples survive what happens to their process."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evalspec.errors import RecordError, WorkerError
from evalspec.language.timings import OUTCOMES
from evalspec.measure.samples import HEADER_BYTES, Sink, read_samples, row_type


def fill(sink: Sink, queries: int) -> None:
    for query in range(sink.count, sink.count + queries):
        sink.plan(np.array([query]), query % 2, np.array([10 * query]))
        sink.record(query, sent_ns=10 * query + 1, end_ns=10 * query + 5, answers=np.array([float(query)]))


def test_it_grows_when_it_is_full(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "s", batch=1, capacity=3)
    fill(sink, 20)
    sink.close()
    samples = read_samples(tmp_path / "s", model="m", process=1)
    assert samples.items.tolist() == list(range(20))
    assert samples.sent_ns.tolist() == [10 * i + 1 for i in range(20)]
    assert samples.block.tolist() == [0, 1] * 10 and samples.batch == 1 and samples.model == "m"


def test_nothing_measured_is_nothing(tmp_path: Path) -> None:
    Sink(tmp_path / "s", batch=4, capacity=8).close()
    samples = read_samples(tmp_path / "s", model="m", process=0)
    assert len(samples.ok) == 0 and samples.answers is not None and samples.answers.shape == (0, 4)


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        import numpy as np
        from evalspec.measure.samples import Sink
        sink = Sink(Path(sys.argv[1]), 1, 1000)
        sink.note(warmup=7)
        sink.plan(np.arange(80), 0)
        for query in range(50):
            sink.record(query, sent_ns=query, end_ns=query + 1, answers=np.zeros(1))
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], check=False)
    assert ended.returncode == -signal.SIGKILL
    samples = read_samples(tmp_path / "s", model="m", process=0)
    assert samples.items.tolist() == list(range(50)) and samples.warmup == 7


def test_answers_that_end_in_another_order(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "s", batch=1, capacity=10)
    assert sink.plan(np.arange(5), 2, 100 + np.arange(5)) == 0 and sink.plan(np.arange(3), 4) == 5
    for query in (4, 0, 3):
        sink.record(query, sent_ns=200 + query, end_ns=300 - query, first_ns=250 if query == 3 else 0)
    sink.record(6, sent_ns=1, end_ns=2, outcome=OUTCOMES.index("connection broke"))
    sink.close()
    samples = read_samples(tmp_path / "s", model="m", process=0)
    assert samples.items.tolist() == [0, 3, 4, 1] and samples.block.tolist() == [2, 2, 2, 4]
    assert samples.end_ns.tolist() == [300, 297, 296, 2] and samples.intended_ns[:3].tolist() == [100, 103, 104]
    # Where nothing is known of a first byte, it came with the rest.
    assert samples.first_ns is not None and samples.first_ns.tolist() == [300, 250, 296, 2]
    assert samples.ok.tolist() == [True, True, True, False]
    assert samples.outcome is not None and OUTCOMES[samples.outcome[3]] == "connection broke"


def test_what_is_taken_back_is_not_there(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "s", batch=1, capacity=10)
    fill(sink, 6)
    sink.take_back(4)
    assert sink.count == 4 and len(read_samples(tmp_path / "s", model="m", process=0).ok) == 4
    fill(sink, 1)
    assert read_samples(tmp_path / "s", model="m", process=0).items.tolist() == [0, 1, 2, 3, 4]


def test_what_a_loop_writes_is_what_is_read(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "s", batch=3, capacity=4)
    sink.plan(np.arange(4), 0)
    columns = sink.columns()
    columns.intended_ns[2], columns.sent_ns[2], columns.end_ns[2], columns.outcome[2] = 5, 6, 7, 1
    columns.answer[2] = 2.5
    samples = read_samples(tmp_path / "s", model="m", process=0)
    assert [samples.intended_ns[0], samples.sent_ns[0], samples.end_ns[0]] == [5, 6, 7]
    assert samples.items.tolist() == [2] and samples.ok.tolist() == [False]
    np.testing.assert_array_equal(samples.answers, [[2.5, np.nan, np.nan]])


def test_a_row_without_an_end_is_not_there(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "s", batch=1, capacity=10)
    fill(sink, 3)
    sink.close()
    rows = np.memmap(tmp_path / "s", dtype=row_type(1), mode="r+", offset=HEADER_BYTES, shape=(10,))
    rows[3]["sent"] = 99
    rows.flush()
    assert len(read_samples(tmp_path / "s", model="m", process=0).ok) == 3


@pytest.mark.parametrize("content", [None, b"", b"{", b"x" * 5000, b'{"magic": "other"}'.ljust(HEADER_BYTES)])
def test_files_that_hold_no_samples(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "s").write_bytes(content)
    with pytest.raises(RecordError, match=r"the raw samples in .* can't be read"):
        read_samples(tmp_path / "s", model="m", process=0)


def test_a_truncated_file_gives_what_is_left(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "s", batch=1, capacity=10)
    fill(sink, 10)
    sink.close()
    os.truncate(tmp_path / "s", HEADER_BYTES + 4 * row_type(1).itemsize + 7)
    assert len(read_samples(tmp_path / "s", model="m", process=0).ok) == 4


@pytest.fixture
def small_files_only() -> Iterator[None]:
    """No file may grow over 64 kB, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_said_before_measuring_and_while(tmp_path: Path, small_files_only: None) -> None:
    with pytest.raises(WorkerError, match=r"raw samples can't be written to .*; free some space"):
        Sink(tmp_path / "s", batch=1, capacity=100_000)
    sink = Sink(tmp_path / "t", batch=1, capacity=700)
    with pytest.raises(WorkerError, match=r"raw samples can't be written"):
        fill(sink, 2000)
    assert len(read_samples(tmp_path / "t", model="m", process=0).ok) == 700


def test_a_folder_that_can_not_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkerError, match=r"raw samples can't be written"):
        Sink(tmp_path / "file" / "s", batch=1, capacity=1)
