"""A server that is killed under load, and how it comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.clocks import now_ns
from evalspec.errors import InputError, InvalidError
from evalspec.language.abilities import KillPlan, KillResult
from evalspec.language.parts import Access
from evalspec.language.timings import ANSWERED
from evalspec.runtimes.http_client.open_loop import Client
from evalspec.runtimes.http_client.pool import Outcome
from evalspec.runtimes.http_client.process import ServerProcess, kill_group
from evalspec.runtimes.http_client.wire import HttpError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.runtimes.http_client.rows import RemoteRows
    from evalspec.runtimes.http_client.server import Server

LEAD_NS = 20_000_000
OPEN_S = 5.0


def recover(
    loaded: Server, rows: RemoteRows, kill: KillPlan, access: Access, progress: Callable[[float, float, str], None]
) -> list[KillResult]:
    """As `evalspec.language.abilities.Recoverable.recover`; the last server that was started is stopped at the end."""
    kills: list[KillResult] = []
    server: ServerProcess | None = None
    try:
        for repeat in range(kill.repeats):
            progress(repeat, kill.repeats, f"kill {repeat + 1} of {kill.repeats}")
            asked = replace(kill, seed=kill.seed + repeat, pid=kill.pid if server is None else server.pid)
            before, (one, server) = server, _once(loaded, rows, asked, access)
            kills.append(one)
            if before is not None:
                before.stop()
            if one.healthy_s is None:
                break
    finally:
        if server is not None:
            server.stop()
    return kills


def _once(loaded: Server, rows: RemoteRows, kill: KillPlan, access: Access) -> tuple[KillResult, ServerProcess]:
    rng = np.random.default_rng(kill.seed)
    span_s = kill.kill_after_s + kill.within_s + kill.settle_s
    gaps = rng.exponential(1e9 / kill.rate_qps, int(kill.rate_qps * span_s) + 1)
    chosen = rng.integers(0, rows.n, len(gaps))
    requests = {row: rows.take(np.array([row])).requests[0] for row in np.unique(chosen).tolist()}
    client = Client(loaded.model.address, kill.connections, int(kill.timeout_s * 1e9), loaded.trusted)
    outcomes: dict[int, Outcome] = {}
    with contextlib.ExitStack() as unless_done, contextlib.closing(client):
        client.open(OPEN_S)
        due = now_ns() + LEAD_NS + np.cumsum(gaps).astype(np.int64)
        with _load(client, [requests[row] for row in chosen.tolist()], due, outcomes) as load:
            # One that can't go on ends now, before anything is killed.
            if wait([load], timeout=kill.kill_after_s + LEAD_NS / 1e9).done:
                load.result()
            killed = kill_group(kill.pid)
            server = ServerProcess(loaded.model, access, kill.log)
            unless_done.callback(server.stop)
            healthy_s = _ready(server, dict(loaded.headers), kill.within_s, killed)
            until = client.until_ns = now_ns() + int(kill.settle_s * 1e9)
            load.result()
        _check_all(outcomes, int(np.searchsorted(due, until, side="right")))
        one = replace(_killed(outcomes, due, killed, healthy_s), first_token_s=_first_token(loaded, outcomes, killed))
        unless_done.pop_all()
    return one, server


@contextlib.contextmanager
def _load(
    client: Client, requests: Sequence[bytes], due_ns: NDArray[np.int64], outcomes: dict[int, Outcome]
) -> Iterator[Future[bool]]:
    """Queries in a thread beside this one, which must have ended before their connections are closed.

    The load has the other thread: Linux ends a server together with the thread that has started it.
    """
    with ThreadPoolExecutor(1) as threads:
        try:
            yield threads.submit(client.run, requests, due_ns.tolist(), outcomes.__setitem__)
        finally:
            client.until_ns = min(client.until_ns, now_ns())


def _check_all(outcomes: dict[int, Outcome], due: int) -> None:
    """Stop where the client does not say the outcome of each query.

    Args:
        outcomes: By number of the query; later ones than were due are not sent, and known to be.
        due: Queries whose time had come.

    Raises:
        InvalidError: Some are not there.
    """
    if len(outcomes) < due or set(outcomes) != set(range(len(outcomes))):
        raise InvalidError(f"the client reported {len(outcomes):,} queries, but {due:,} were due")


def _ready(server: ServerProcess, headers: dict[str, str], within_s: float, killed_ns: int) -> float | None:
    try:
        server.wait_ready(headers, within_s)
    except InputError:
        return None
    return (now_ns() - killed_ns) / 1e9


def _first_token(loaded: Server, outcomes: dict[int, Outcome], killed_ns: int) -> float | None:
    """When the first piece of any answer came to what was sent after the kill, from the kill; None: none did."""
    if loaded.model.protocol != "openai":
        return None
    first: list[int] = []
    for one in outcomes.values():
        if one.outcome == ANSWERED and one.sent_ns > killed_ns and one.reply is not None:
            # One that breaks off has told of no answer.
            with contextlib.suppress(HttpError):
                first += loaded.streamed(one.reply).piece_ns[:1]
    return (min(first) - killed_ns) / 1e9 if first else None


def _killed(
    outcomes: dict[int, Outcome], due_ns: NDArray[np.int64], killed_ns: int, healthy_s: float | None
) -> KillResult:
    order = sorted(outcomes)
    made = [outcomes[index] for index in order]
    lag = [one.lag_ns for one in made if one.sent_ns]
    return KillResult(
        healthy_s=healthy_s,
        due_s=(due_ns[order] - killed_ns) / 1e9,
        end_s=(np.array([one.end_ns for one in made], dtype=np.int64) - killed_ns) / 1e9,
        outcome=np.array([one.outcome for one in made], dtype=np.int64),
        lag_p99_ms=float(np.quantile(lag, 0.99)) / 1e6 if lag else None,
    )
