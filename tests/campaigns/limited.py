"""Cases tried in a process of its own: a hang is ended, memory has a limit, and a crash is a finding like any other.

The process: ``python -m tests.campaigns.limited SECONDS``, a target and a case a line.
"""

from __future__ import annotations

import base64
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from types import TracebackType

MOST_S = 5.0
"""Of the processor, for one case."""
HANG_S = 120.0
"""By the clock, on a machine with other work: what waits for something that never comes."""
START_S = 600.0
MOST_BYTES = 1024**3
"""More than the process had when the first case of a target came."""
SLOW, HANG = "takes too long", f"hangs for {HANG_S:g} s"


class Limited:
    """A process that tries cases, and the next one where it died."""

    def __init__(self, most_s: float = MOST_S) -> None:
        """``most_s`` of the processor, for one case."""
        self._most_s = most_s
        self._ready: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Limited:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def fault(self, target: str, case: bytes) -> str | None:
        """What is wrong with how a case is taken; None: nothing.

        Args:
            target: A name of `tests.campaigns.targets.TARGETS`.
            case: Its bytes.
        """
        process = self._process or self._start()
        if target not in self._ready:
            # Its start is no part of a case.
            self._ready.add(target)
            self._ask(process, target.encode() + b" -", START_S)
        said, hung = self._ask(process, target.encode() + b" " + base64.b64encode(case), HANG_S)
        if said:
            return base64.b64decode(said).decode() or None
        code = process.wait()
        self._end()
        if hung:
            return HANG
        return SLOW if code == -signal.SIGPROF else f"ends the process with code {code}"

    def _ask(self, process: subprocess.Popen[bytes], line: bytes, most_s: float) -> tuple[bytes, bool]:
        """What the process answers, empty where it died; True where it was ended since it took too long."""
        assert process.stdin is not None and process.stdout is not None
        hung = threading.Event()

        def end() -> None:
            hung.set()
            process.kill()

        watch = threading.Timer(most_s, end)
        watch.start()
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            return process.stdout.readline(), hung.is_set()
        except BrokenPipeError:
            return b"", hung.is_set()
        finally:
            watch.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.limited", str(self._most_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
            # The pool of Arrow would reserve a GiB before it needs one.
            env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("the process does not start")
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None
            self._ready.clear()


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main(most_s: float) -> None:
    """Try the cases that come, one after the other."""
    from tests.campaigns.targets import ITSELF, TARGETS, Check, warm

    # What a case prints is not an answer of ours.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    checks: dict[str, Check] = {}
    with tempfile.TemporaryDirectory() as folder:
        warm()
        out.write(b"\n")
        out.flush()
        for line in sys.stdin.buffer:
            target, _, case = line.decode().strip().partition(" ")
            said = ""
            try:
                if target not in checks:
                    place = Path(folder) / target
                    place.mkdir()
                    checks[target] = (TARGETS | ITSELF)[target](place)
                    _limit_memory()
                if case != "-":
                    signal.setitimer(signal.ITIMER_PROF, most_s)
                    checks[target](base64.b64decode(case))
            except Exception:  # noqa: BLE001  # any that comes out is what is looked for
                said = traceback.format_exc()
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            out.write(base64.b64encode(said.encode(errors="replace")) + b"\n")
            out.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
