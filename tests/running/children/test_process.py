"""Children that crash, hang, lie and eat memory."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from evalspec.errors import InputError, WorkerError
from evalspec.running.children.process import Child, Limits

pytestmark = pytest.mark.processes

ROLE = "tests.running.roles"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "child.log"


def child(log: Path, job: object = None, **limits: float) -> Child:
    return Child(ROLE, job, limits=Limits(**limits), log=log)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_question_progress_answer(log: Path) -> None:
    seen: list[tuple[float, float, str]] = []
    with child(log, {"a": 1}) as one:
        answer = one.ask({"do": "echo"}, progress=lambda *line: seen.append(line))
        assert answer["job"] == {"a": 1}
        assert seen == [(1.0, 2.0, "half")]
        assert one.ask({"do": "echo"})["pid"] == one.pid


def test_what_it_raises_is_a_sentence_and_it_lives_on(log: Path) -> None:
    with child(log) as one:
        with pytest.raises(WorkerError, match=r"ValueError: no such thing \(in roles.py:\d+\)"):
            one.ask({"do": "raise"})
        with pytest.raises(InputError, match="the file is empty; fill it"):
            one.ask({"do": "refuse"})
        assert one.ask({"do": "echo"})["job"] is None


def test_a_hang_is_killed_at_its_limit(log: Path) -> None:
    with child(log, time_s=1.0) as one:
        begun = time.monotonic()
        with pytest.raises(WorkerError, match="did not answer within 1 s"):
            one.ask({"do": "hang"})
        assert time.monotonic() - begun < 10
        assert not alive(one.pid)


def test_exit_code_zero_without_an_answer_is_an_error(log: Path) -> None:
    with child(log) as one, pytest.raises(WorkerError, match=r"exited with code 0 without an answer.*giving up now"):
        one.ask({"do": "exit"})


def test_a_killed_child_is_an_error(log: Path) -> None:
    with child(log) as one, pytest.raises(WorkerError, match="killed by SIGKILL"):
        one.ask({"do": "kill"})


def test_memory_is_watched_as_resident_size(log: Path) -> None:
    with child(log, memory_bytes=300 * 2**20) as one:
        with pytest.raises(WorkerError, match="over the limit of 300 MiB"):
            one.ask({"do": "eat"})
        assert not alive(one.pid)


def test_the_whole_group_ends_with_it(log: Path) -> None:
    with child(log) as one:
        grandchild = one.ask({"do": "breed"})["pid"]
        assert alive(grandchild)
    deadline = time.monotonic() + 5
    while alive(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(grandchild)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def daemon(place: Path) -> int:
    deadline = time.monotonic() + 20
    while not place.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return int(place.read_text())


@pytest.mark.proof
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what has left its session")
@pytest.mark.parametrize("way", ["daemon", "daemon and kill", "daemon and exit", "daemon and hang", "large daemon"])
def test_what_leaves_its_session_ends_too(way: str, log: Path, tmp_path: Path) -> None:
    """F13: also where the child ends by itself, at a limit, or is killed."""
    place = tmp_path / "daemon"
    limits = {"daemon and hang": {"time_s": 3.0}, "large daemon": {"memory_bytes": 300 * 2**20}}.get(way, {})
    with child(log, str(place), **limits) as one:
        if way == "daemon":
            assert alive(one.ask({"do": way})["pid"])
        else:
            with pytest.raises(WorkerError, match="over the limit of 300 MiB" if way == "large daemon" else None):
                one.ask({"do": way})
    assert gone(daemon(place))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what has left its session")
def test_what_is_not_ours_is_left_alone(log: Path) -> None:
    """F13: neither what was there before, nor what its parent starts meanwhile."""
    before = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with child(log) as one:
        one.ask({"do": "echo"})
        meanwhile = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    for other in (before, meanwhile):
        assert other.poll() is None
        other.kill()
        other.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
@pytest.mark.parametrize("guard", [False, True])
def test_what_leaves_its_session_dies_with_the_parent(guard: bool, tmp_path: Path) -> None:
    """F13: `kill -9` of the process that started the child, or SIGTERM to the guardian."""
    place = tmp_path / "daemon"
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from evalspec.running.children.process import Child, Limits\n"
        f"one = Child({ROLE!r}, sys.argv[2], limits=Limits(), log=Path(sys.argv[1]))\n"
        "one.ask({'do': 'daemon'})\n"
        "print(one.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "log"), str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if guard:
            psutil.Process(pid).parent().terminate()  # type: ignore[union-attr]
            assert gone(pid)
        parent.kill()
    assert gone(pid)
    assert gone(daemon(place))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from evalspec.running.children.process import Child, Limits\n"
        f"one = Child({ROLE!r}, None, limits=Limits(), log=Path(sys.argv[1]))\n"
        "print(one.ask({'do': 'echo'})['pid'], flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)
