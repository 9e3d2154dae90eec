"""A child that does as it is told, for the tests of processes and their limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from evalspec.errors import InputError
from evalspec.running.children.child import Handler
from evalspec.running.children.messages import Message, Progress


def start(job: Any) -> Handler:
    def handle(question: Message, progress: Progress) -> Message:
        return DEEDS[question["do"]](job, progress)

    return handle


def _echo(job: Any, progress: Progress) -> Message:
    progress(1.0, 2.0, "half")
    return {"job": job, "pid": os.getpid()}


def _raise(job: Any, progress: Progress) -> Message:
    raise ValueError("no such thing")


def _refuse(job: Any, progress: Progress) -> Message:
    raise InputError("the file is empty", remedy="fill it")


def _hang(job: Any, progress: Progress) -> Message:
    time.sleep(600)
    return {}


def _exit(job: Any, progress: Progress) -> Message:
    sys.stderr.write("giving up now\n")
    sys.stderr.flush()
    os._exit(0)


def _kill(job: Any, progress: Progress) -> Message:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def _eat(job: Any, progress: Progress) -> Message:
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(1 << 20)) * 16)
        time.sleep(0.005)


def _breed(job: Any, progress: Progress) -> Message:
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return {"pid": grandchild.pid}


DAEMON = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open(sys.argv[1] + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
hoard = bytearray(os.urandom(1 << 20)) * int(sys.argv[2])
time.sleep(600)
"""


def _daemon(job: Any, progress: Progress, mib: int = 1) -> Message:
    """One that leaves session, group, parent and environment behind."""
    subprocess.run([sys.executable, "-c", DAEMON, job, str(mib)], env={}, check=True)
    while not os.path.exists(job):
        time.sleep(0.01)
    with open(job, encoding="utf-8") as file:
        return {"pid": int(file.read())}


def _daemon_and(deed: str, mib: int = 1) -> Any:
    def do(job: Any, progress: Progress) -> Message:
        _daemon(job, progress, mib)
        return DEEDS[deed](job, progress)

    return do


DEEDS = {
    "daemon": _daemon,
    "daemon and kill": _daemon_and("kill"),
    "daemon and exit": _daemon_and("exit"),
    "daemon and hang": _daemon_and("hang"),
    "large daemon": _daemon_and("hang", 400),
    "echo": _echo,
    "raise": _raise,
    "refuse": _refuse,
    "hang": _hang,
    "exit": _exit,
    "kill": _kill,
    "eat": _eat,
    "breed": _breed,
}
