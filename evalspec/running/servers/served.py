"""Servers while a run lasts: started where the spec says how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import EvalspecError
from evalspec.language.parts import Access, Model
from evalspec.running.files import Journal
from evalspec.running.subjects import Observer

if TYPE_CHECKING:
    from evalspec.runtimes.http import Http
    from evalspec.runtimes.http_client.process import ServerProcess


class Servers:
    """The servers that a spec starts: each is up from its first use to the end of the run.

    They are children of the process that runs the spec, so that all checks and their workers ask the same one. One
    that has ended is started again before the next check, and that is written down; what failed meanwhile has failed.
    """

    def __init__(
        self, models: Mapping[str, Model], access: Access, folder: Path, journal: Journal, observer: Observer
    ) -> None:
        """``folder`` of the run, which takes the servers' logs."""
        served = {name: one for name, one in models.items() if one.served}
        self._models = _started_here(served)
        self._ports = {name: port for name, one in served.items() if (port := _port_here(one)) is not None}
        self._access = access
        self._folder = folder
        self._journal = journal
        self._observer = observer
        self._running: dict[str, ServerProcess] = {}
        self._refused: dict[str, EvalspecError] = {}

    def ensure(self, models: Iterable[str]) -> dict[str, int]:
        """Start the servers of these models that don't run yet, and wait until they are ready.

        Returns:
            Model: process id of its server, where it is on this machine and can be seen.

        Raises:
            InputError: It may not run, or is not ready in time.
        """
        from evalspec.runtimes.http_client.process import listening

        pids = {}
        for name in dict.fromkeys(models):
            if name in self._refused:
                raise self._refused[name]
            if name in self._models:
                try:
                    pids[name] = self._up(name).pid
                except EvalspecError as error:
                    self._refused[name] = error
                    raise
            elif name in self._ports and (pid := listening(self._ports[name])) is not None:
                pids[name] = pid
        return pids

    def _up(self, name: str) -> ServerProcess:
        from evalspec.runtimes.http import secrets
        from evalspec.runtimes.http_client.process import ServerProcess, check_free

        before = self._running.get(name)
        if before is not None and before.ended is None:
            return before
        model = self._models[name]
        if before is not None:
            self._journal.write("server ended", model=name, code=before.ended)
            before.stop()
        headers = secrets(model, self._access)
        check_free(name, model)
        self._observer.step(f"starting the server of {name}")
        process = ServerProcess(model, self._access, self._folder / "logs" / f"server-{name}.log")
        self._running[name] = process
        ready_s = process.wait_ready(headers)
        self._journal.write("server ready", model=name, pid=process.pid, seconds=round(ready_s, 3))
        return process

    def stop(self) -> None:
        """Stop all servers."""
        for process in self._running.values():
            process.stop()
        self._running.clear()


def _started_here(served: Mapping[str, Model]) -> dict[str, Http]:
    """Those of served models whose servers a run starts."""
    if not served:
        return {}
    from evalspec.runtimes.http import Http

    return {name: one for name, one in served.items() if isinstance(one, Http) and one.starts_server}


def _port_here(model: Model) -> int | None:
    """Port of a server on this machine; None where it is on another one."""
    from evalspec.language.places import is_loopback
    from evalspec.runtimes.http import Http

    if isinstance(model, Http) and is_loopback(model.address.host):
        return model.address.port
    return None
