"""The entry of a language model: a prompt about the longest text of a row."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.language.registry import Registry
from evalspec.loading.scan_folder import ASKED
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.transformers_model.folder import context_of
from evalspec.starting.entry import validated
from evalspec.starting.rows import RowsSketch
from evalspec.starting.sketch import ModelSketch

if TYPE_CHECKING:
    import pyarrow as pa

MOST_TOKENS = 64
CONTEXT_SHARE = 4
SHOWN = 3
TEXTS = ("string", "large_string")
NOTE = "the prompt is only the text of the row: write the one that you use"


def prompted(
    fields: Mapping[str, Any], what: str, access: Access, registry: Registry, rows: RowsSketch, table: pa.Table
) -> ModelSketch:
    """The entry of a model that writes text, with its answers to the first rows.

    Args:
        fields: Of its entry so far.
        what: What it is, in words.
        access: Where it may look.
        registry: The kinds there are.
        rows: The dataset as it was seen.
        table: Its first rows.

    Raises:
        InputError: No column holds text, or the model does not answer.
    """
    column = _text(rows, table)
    entry = {
        **fields,
        "inputs": {"question": column},
        "prompt": {"user": "{question}"},
        "generate": {"max_tokens": _most_tokens(fields, access)},
    }
    model = validated(registry, entry)
    hidden = None if access.trust else model.may_hide_code(access)
    if hidden:
        return ModelSketch(entry, what, unopened=hidden)
    loaded = model.load(access, threads=1)
    try:
        served = Served(model, loaded, access, DatasetFacts("test", rows.label or None))
        began = time.perf_counter()
        answers = served.predict_all(table.slice(0, SHOWN))
        taken = (time.perf_counter() - began) / min(SHOWN, len(table))
    finally:
        loaded.close()
    # Each of them was asked by itself.
    texts = [] if answers.texts is None else [str(one) for one in answers.texts.tolist()]
    shown = ", ".join(repr(one[:40]) for one in texts)
    return ModelSketch(entry, what, task=answers.task, answers=shown, notes=(NOTE,), row_s=taken, query_s=taken)


def _most_tokens(fields: Mapping[str, Any], access: Access) -> int:
    """Tokens of an answer: as many as usual, and no more than leave most of a small context to the question."""
    if fields["kind"] != "transformers":
        return MOST_TOKENS
    context = context_of(access.path(str(fields["path"])))
    return MOST_TOKENS if context is None else max(1, min(MOST_TOKENS, context // CONTEXT_SHARE))


def _text(rows: RowsSketch, table: pa.Table) -> str:
    """The column of texts that is called as questions are, else the one with the longest."""
    texts = [name for name in rows.features() if rows.columns[name].startswith(TEXTS)]
    named = next((name for one in ASKED for name in texts if name.lower() == one), None)
    if named is not None:
        return named
    if not texts:
        raise InputError("no column holds a text for the model's prompt", choices=rows.columns)
    from evalspec.starting.matching import mean_length

    return max(texts, key=lambda name: mean_length(table, name))
