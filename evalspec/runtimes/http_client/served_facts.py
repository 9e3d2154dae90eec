"""Facts that a server of the OpenAI protocol tells of itself, each as far as it does: for the record, not for trust."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalspec.evidence.record import TEMPLATE, TEMPLATE_PLANNED
from evalspec.runtimes.http_client.openai import MODELS
from evalspec.runtimes.http_client.readiness import SAID, told, told_at

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell
    from evalspec.runtimes.http_client.connection import Connection
    from evalspec.runtimes.http_client.server import ServerFields

PROPERTIES, VERSION = "/props", "/version"
"""Of llama.cpp and of vLLM; both stand at the server's root."""
API_VERSION = "/v1"
SHOWN_MODELS = 8


def listed_models(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the models in the answer to `MODELS`; empty where there is none."""
    return tuple(name for one in _entries(answer) if isinstance(name := one.get("id"), str))[:SHOWN_MODELS]


def template_digest(text: str) -> str:
    """Digest of a chat template, white space around it left out."""
    return hashlib.sha256(text.strip().encode()).hexdigest()


def served_facts(
    model: ServerFields, headers: Mapping[str, str], connection: Connection, planned: str | None = None
) -> tuple[tuple[str, ...], dict[str, Cell]]:
    """Models that a server lists, and facts about it and the one that is asked.

    Args:
        model: The server.
        headers: To send.
        connection: To it.
        planned: Digest of the chat template that it should have; None: nobody says.
    """
    listed = told(model, headers, connection, MODELS)
    # These two are no part of the protocol, and stand at the server's root.
    root = replace(model.address, path=model.address.path.removesuffix(API_VERSION))
    props, version = (told_at(root, headers, connection, path) for path in (PROPERTIES, VERSION))
    names = listed_models(listed)
    own = next((one for one in _entries(listed) if one.get("id") == model.model_name), {})
    defaults = props.get("default_generation_settings")
    context = own.get("max_model_len") or (defaults.get("n_ctx") if isinstance(defaults, dict) else None)
    said = {
        "models_listed": ", ".join(names),
        "server_version": version.get("version") or props.get("build_info"),
        "server_slots": props.get("total_slots"),
        "server_context": context,
        "served_from": own.get("root") or props.get("model_path"),
    }
    facts: dict[str, Cell] = {name: _cell(model, value) for name, value in said.items() if value}
    template = props.get("chat_template")
    if isinstance(template, str) and template:
        facts[TEMPLATE] = template_digest(template)
    if planned is not None:
        facts[TEMPLATE_PLANNED] = planned
    return names, facts


def _entries(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    data = answer.get("data")
    return [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []


def _cell(model: ServerFields, value: Any) -> Cell:
    return value if isinstance(value, int) and not isinstance(value, bool) else model.hidden.text(str(value))[:SAID]
