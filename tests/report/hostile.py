"""Records in which every free text is an attack."""

from __future__ import annotations

from typing import Any

from evalspec.evidence.record import Record
from tests.report import records

SCRIPT = "</script></style></title><script>window.owned=1</script><img src=x onerror=window.owned=1>"
ATTRIBUTE = "\" onmouseover=\"window.owned=1\" ' style='position:fixed;inset:0'"
LINK = "[x](javascript:window.owned=1) <a href='javascript:window.owned=1'>x</a> https://evil.example/ |`*_~$"
TEMPLATE = "{{ 7*7 }} {% raw %} ${7*7} &lt;b&gt; ]]> <!-- -->"
DIRECTION = "safe \u202etxet\u202c \u2066x\u2069 \x1b[31m\x00\x0b\ufffe end"
LONG = "wide" * 400
ATTACKS = (SCRIPT, ATTRIBUTE, LINK, TEMPLATE, DIRECTION, LONG)

WORDS = frozenset(
    {"title", "caption", "label", "name", "text", "said", "sentence", "why", "owner", "note", "x_label", "y_label"}
    | {"spec", "spec_file", "reason", "headline", "of", "by", "source", "value", "expires", "detail", "what", "path"}
    | {"summary", "cannot_show", "metric", "method", "unit", "kind", "row_label", "column_label", "evalspec", "part"}
    | {"started", "finished", "group", "missing", "device", "precision", "digest", "subject", "check", "id", "against"}
)
LISTS = frozenset({"notes", "not_tested", "weakened", "command", "only", "preprocess", "classes", "rows", "columns"})
MAPS = frozenset(
    {"conditions", "facts", "packages", "details", "fields", "origin", "counts", "measured", "quantization"}
)


def attacked(record: Record, attack: str) -> Record:
    """The record with this attack in every place where text from a spec, a model or data may stand."""
    return Record.model_validate(_poison(record.model_dump(mode="python"), attack))


def _poison(value: Any, attack: str, key: str = "") -> Any:
    if isinstance(value, dict):
        poisoned = {name: _poison(item, attack, name) for name, item in value.items()}
        if key in MAPS and value and "attempted" not in value and "PASS" not in value:
            poisoned[attack] = next(iter(poisoned.values()))
        return poisoned
    if isinstance(value, list | tuple):
        return tuple(_poison(item, attack, key) for item in value)
    if isinstance(value, str) and (key in WORDS or key in LISTS or key in MAPS):
        return f"{value} {attack}"
    return value


def worst(attack: str) -> Record:
    """Every status, all blocks, poisoned."""
    return attacked(records.every_status(), attack)
