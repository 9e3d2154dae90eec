"""Readiness of a server, and the facts that it tells of itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError
from evalspec.language.timings import ANSWERED, BROKE, SERVER_ERROR
from evalspec.runtimes.http_client.connection import Connection
from evalspec.runtimes.http_client.wire import Address, HttpError, Reply, parse_json, request_bytes, status_outcome

if TYPE_CHECKING:
    import ssl

    from evalspec.redaction import Redaction
    from evalspec.runtimes.http_client.server import ServerFields

READ = 65536
"""Bytes of an answer that are looked at for a sentence."""
AGAIN_S = 0.05
ASK_S = 5.0
"""Longest time for the answer to a question about health or metadata."""
SAID = 300
TRIES = 5
"""For an answer that is not timed."""


def check_ready(model: ServerFields, headers: Mapping[str, str], connection: Connection) -> None:
    """Stop where a server does not say that it is ready.

    Raises:
        InputError: It does not answer, or with another status than one of success.
    """
    path = model.health_path
    remedy = (
        ("start it first, or add its command as `start:`") if not model.start else "see its log in the run's folder"
    )
    try:
        if path is None:
            connection.open(ASK_S)
            return
        reply = connection.ask(request_bytes(_base(model, path), path, headers), ASK_S)
    except HttpError as error:
        raise HttpError(error.outcome, error.problem.message, remedy=remedy) from error
    outcome = status_outcome(reply.status)
    if outcome != ANSWERED:
        message = f"the server at {model.address} is not ready: {path} answers {said(reply, model.hidden)}"
        raise HttpError(outcome, message, remedy=remedy)


def wait_for(model: ServerFields, headers: Mapping[str, str], connection: Connection) -> None:
    """As `check_ready`; one that errs at times is asked again."""
    for _ in range(TRIES - 1):
        try:
            check_ready(model, headers, connection)
        except InputError as error:
            if not isinstance(error, HttpError) or error.outcome not in (BROKE, SERVER_ERROR):
                raise
            time.sleep(AGAIN_S)
        else:
            return
    check_ready(model, headers, connection)


def why_not_ready(model: ServerFields, headers: Mapping[str, str], trusted: ssl.SSLContext | None = None) -> str | None:
    """Why a server is not ready, asked once over a connection of its own; None: it says that it is.

    Args:
        model: The server.
        headers: To send.
        trusted: As `Http.trusted` gives it.
    """
    connection = Connection(model.address, ASK_S, trusted)
    try:
        check_ready(model, headers, connection)
    except InputError as error:
        return error.problem.message
    finally:
        connection.close()
    return None


def said(reply: Reply, hidden: Redaction) -> str:
    """Status and the beginning of what a server answered, for a sentence.

    Args:
        reply: The answer.
        hidden: What must not be in it; of a secret that is cut through, the first half would not be known as one.
    """
    text = " ".join(hidden.text(reply.body[:READ].decode(errors="replace")).split())[:SAID]
    return f"HTTP {reply.status}" + (f": {text}" if text else "")


def _base(model: ServerFields, path: str) -> Address:
    # Plain JSON is posted to the URL itself; a path of its own counts from the server's root.
    return model.address if model.protocol == "oip" and path != model.health else replace(model.address, path="")


def told(model: ServerFields, headers: Mapping[str, str], connection: Connection, path: str) -> dict[str, Any]:
    """Facts that a server tells of itself, or of a model; empty where it tells none."""
    return told_at(model.address, headers, connection, path)


def told_at(address: Address, headers: Mapping[str, str], connection: Connection, path: str) -> dict[str, Any]:
    """As `told`, of a path that counts from another place of the server."""
    for _ in range(TRIES):
        try:
            reply = connection.ask(request_bytes(address, path, headers), ASK_S)
            found = parse_json(reply.body) if status_outcome(reply.status) == ANSWERED else None
        except HttpError as error:
            if error.outcome == BROKE:
                continue
            break
        if status_outcome(reply.status) != SERVER_ERROR:
            return found if isinstance(found, dict) else {}
    return {}
