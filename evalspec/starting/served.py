"""A server by its URL: the Open Inference Protocol, or the API of OpenAI's kind."""

from __future__ import annotations

import re
import ssl
from typing import Any

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.runtimes.http_client.connection import Connection
from evalspec.runtimes.http_client.openai import MODELS
from evalspec.runtimes.http_client.served_facts import listed_models
from evalspec.runtimes.http_client.wire import check_host, parse_json, parse_url, request_bytes
from evalspec.starting.artifact import ModelKind

ASK_S = 5.0
OK = 200
OIP_MODEL = re.compile(r"(?P<url>.*?)/v2/models/(?P<name>[A-Za-z0-9._~-]+)(/.*)?")
INDEX = "/v2/repository/index"


def recognize_server(url: str, access: Access) -> ModelKind:
    """Protocol of a server, and its name for the model.

    Args:
        url: As the user named it.
        access: Machines that may be asked.

    Raises:
        InputError: It is another machine, which was not allowed; nobody answers; or it speaks neither.
    """
    check_host(parse_url(url), access)
    named = OIP_MODEL.fullmatch(url.rstrip("/"))
    if named is not None:
        _ask(named["url"], f"/v2/models/{named['name']}")
        return _oip(named["url"], named["name"])
    base = url.rstrip("/")
    for root in dict.fromkeys((base if base.endswith("/v1") else f"{base}/v1", base)):
        models = listed_models(_told(_ask(root, MODELS, needed=False)))
        if models:
            return _openai(root, models)
    base = base.removesuffix("/v2")
    found = _told(_ask(base, "/v2", needed=False))
    if not found:
        raise InputError(
            f"the server at {url} answers neither /v1/models nor /v2",
            remedy="give the URL where these paths begin; for a different JSON API write the entry by hand: `kind: "
            "http`, `protocol: json`, `url:`, `request:` and `response:` (docs/served.md)",
        )
    index = _ask(base, INDEX, body=b"{}", needed=False)
    names = (
        [str(one["name"]) for one in index if isinstance(one, dict) and "name" in one]
        if isinstance(index, list)
        else []
    )
    if len(names) != 1:
        raise InputError(
            f"the server at {url} speaks the Open Inference Protocol and has "
            f"{'several models' if names else 'no list of its models'}",
            choices=names,
            remedy=f"name one: {base}/v2/models/NAME",
        )
    return _oip(base, names[0])


def _oip(url: str, name: str) -> ModelKind:
    return ModelKind(
        "http", f"the model {name} of a server (Open Inference Protocol)", {"url": url, "model_name": name}
    )


def _openai(url: str, names: tuple[str, ...]) -> ModelKind:
    fields = {"protocol": "openai", "url": url, "model_name": names[0]}
    return ModelKind("http", f"the language model {names[0]} of a server", fields)


def _ask(url: str, path: str, body: bytes | None = None, *, needed: bool = True) -> Any:
    """The JSON that a path answers; None where it answers something else.

    Raises:
        InputError: Nobody answers; or, where the answer is needed, there is none.
    """
    address = parse_url(url)
    connection = Connection(address, ASK_S, ssl.create_default_context() if address.secure else None)
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        reply = connection.ask(request_bytes(address, path, headers, body))
    finally:
        connection.close()
    if needed and reply.status != OK:
        raise InputError(f"{url}{path} answers with status {reply.status}", remedy="check the model's name")
    if reply.status != OK:
        return None
    try:
        return parse_json(reply.body)
    except InputError:
        return None


def _told(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {}
