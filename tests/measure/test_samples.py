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
from evalspec.measure.clocks import now_ns, read_clock
from evalspec.measure.samples import HEADER_BYTES, Sink, read_samples, row_type


def fill(sink: Sink, queries: int) -> None:
    for query in range(sink.count, sink.count + queries):
        times = (10 * query, 10 * query + 1, 10 * query + 5)
        sink.append(times, item=query, block=query % 2, ok=True, answers=np.array([float(query)]))


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
        for query in range(50):
            sink.append((query, query, query + 1), item=query, block=0, ok=True, answers=np.zeros(1))
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], check=False)
    assert ended.returncode == -signal.SIGKILL
    samples = read_samples(tmp_path / "s", model="m", process=0)
    assert samples.items.tolist() == list(range(50)) and samples.warmup == 7


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
    sink = Sink(tmp_path / "t", batch=1, capacity=800)
    with pytest.raises(WorkerError, match=r"raw samples can't be written"):
        fill(sink, 2000)
    assert len(read_samples(tmp_path / "t", model="m", process=0).ok) == 800


def test_a_folder_that_can_not_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkerError, match=r"raw samples can't be written"):
        Sink(tmp_path / "file" / "s", batch=1, capacity=1)


def test_the_clock_is_cheap_against_what_it_times() -> None:
    clock = read_clock(2000)
    assert 0 <= clock.overhead_ns < 100_000 and clock.worst_ns >= clock.overhead_ns
    assert clock.resolution_ns >= 1
    before = now_ns()
    assert now_ns() >= before
