"""Remedies for what servers of the OpenAI protocol refuse."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from evalspec.runtimes.http_client.openai import WHERE_IT_BEGINS
from evalspec.runtimes.http_client.wire import HttpError, Reply, parse_json

TOO_LONG = ("context_length_exceeded", "exceed_context_size_error")
"""Codes of OpenAI and of llama.cpp."""
TOO_LONG_WORDS = ("context length", "context size", "context window", "maximum model length", "max_model_len")
"""Words of servers that send no code."""
UNKNOWN_MODEL = ("model_not_found",)


def remedy(reply: Reply, *, sent_key: bool, models: Collection[str]) -> str | None:
    """Remedy for a status that is none of success, as far as one is known.

    Args:
        reply: With that status.
        sent_key: It was sent a key.
        models: That it lists.
    """
    if reply.status in (401, 403):
        if sent_key:
            return "it refuses the key: check `api_key:`, or the header"
        return "set its key as `api_key: {env: NAME}`, and pass --env NAME"
    if reply.status == 429:
        return (
            "it was asked again after the delay that it requested; raise its limit, or measure when nobody else uses it"
        )
    if reply.status >= 500:
        return "see the server's log for the reason; once it answers, continue this run with `--resume`"
    return _of_request(reply, models)


def _of_request(reply: Reply, models: Collection[str]) -> str | None:
    """Remedy for a request that no server would answer otherwise a second time."""
    codes, message = _error(reply)
    if codes & set(TOO_LONG) or any(words in message for words in TOO_LONG_WORDS):
        return (
            "a row's prompt and `max_tokens:` are longer than its context: use fewer tokens or examples, exclude long "
            "rows with `where:` in the dataset, or start the server with a longer context"
        )
    if reply.status == 404 or codes & set(UNKNOWN_MODEL):
        if models:
            return f"`url:` ends in /v1, and `model_name:` is one of: {', '.join(models)}"
        return WHERE_IT_BEGINS
    if "chat template" in message or "chat_template" in message:
        return "start it with the model's chat template, or do without one: `api: completions`"
    if "logprobs" in message:
        return (
            "make it report enough of them (`--max-logprobs` of vLLM), or extract the letter from a text, without "
            "`options`"
        )
    return "its message says which field it refuses; what is sent is in `generate:` and `prompt:`"


def _error(reply: Reply) -> tuple[set[str], str]:
    """Codes of an error, and its message in small letters; of a body that is no error, the body."""
    try:
        value: Any = parse_json(reply.body)
    except HttpError:
        value = None
    error = value.get("error", value) if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return set(), reply.body[:4096].decode(errors="replace").lower()
    codes = {one for name in ("code", "type") if isinstance(one := error.get(name), str)}
    return codes, str(error.get("message", "")).lower()
