"""Entry point of every child process: ``python -m evalspec.running.children.child FD PARENT FD [ROLE]``.

The last descriptor takes the number of the process. One that knows its role before its job makes the imports of it
(``prepare()``); the log to write to then comes before the job.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from evalspec.errors import EvalspecError
from evalspec.guardian import stand
from evalspec.imports import uncollected
from evalspec.redaction import Redaction
from evalspec.running.children.messages import BLOCKS, Message, Progress, receive, receive_bytes, send, send_bytes

Handler = Callable[[Message, Progress], Message]


def main() -> None:
    """Read the job, then answer questions until the other side goes."""
    descriptor, parent, announced = (int(one) for one in sys.argv[1:4])
    os.set_inheritable(announced, False)
    stand(parent, announced, adopts=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=descriptor)
    for prepared in sys.argv[4:]:
        # What can't be imported is told by the role, when it is needed.
        with contextlib.suppress(Exception), uncollected():
            importlib.import_module(prepared).prepare()
        if not _write_to_log(channel):
            return
    body = receive_bytes(channel)
    if body is None:
        return
    role, job, secrets = pickle.loads(body)
    hidden = Redaction.of(secrets)

    def progress(done: float, total: float, what: str) -> None:
        send(channel, {"progress": [float(done), float(total), hidden.text(what)]})

    handle: Handler | None = None
    while (question := receive(channel)) is not None:
        try:
            if handle is None:
                handle = importlib.import_module(role).start(job)
            answer = handle(question, progress)
        except EvalspecError as error:
            answer = {"error": {"kind": type(error).__name__, "message": str(error)}}
        except Exception as error:  # noqa: BLE001  # the process is the boundary: whatever its code raises is the answer
            with contextlib.suppress(OSError):
                # The disk may be full.
                traceback.print_exc()
            answer = {"error": {"kind": "crash", "message": _sentence(error, hidden)}}
        blocks = answer.pop(BLOCKS, ())
        # What a model or a server said ends here: no secret that it echoes gets further.
        send(channel, hidden.value(answer) | ({BLOCKS: len(blocks)} if blocks else {}))
        for block in blocks:
            send_bytes(channel, block)


def _write_to_log(channel: socket.socket) -> bool:
    """Write to the log that comes over the channel; False where the other side has gone."""
    _, logs, _, _ = socket.recv_fds(channel, 1, 1)
    for log in logs:
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    return bool(logs)


def _sentence(error: Exception, hidden: Redaction) -> str:
    """The error in one line, with the file and line that raised it."""
    from evalspec.language.extensions import at_fault

    theirs = at_fault(error)
    if theirs is not None:
        return hidden.text(theirs)
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    where = f" (in {os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    text = hidden.text(str(error)).strip().splitlines()
    first = text[0][:300] if text else "no message"
    return f"{type(error).__name__}: {first}{where}"


if __name__ == "__main__":
    main()
