"""The text of a new spec: plain YAML with comments."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalspec.loading.scan_folder import plain
from evalspec.starting.drafts import SECTIONS, Ask, CheckDraft
from evalspec.starting.sketch import ModelSketch, Sketch

WIDTH = 116
COLUMN = 38
"""At which comments beside a line begin, where there is room."""
HEAD = """\
# yaml-language-server: $schema=@schema@
#
@about@
#
#   evalspec validate @file@@flags@
#   evalspec plan @file@@flags@
#   evalspec run @file@@flags@
# `evalspec checks` lists every check, `evalspec checks NAME` explains one.

evalspec: 1
name: @name@
seed: 7                               # seed of all random draws
"""
WROTE = (
    "Written by `evalspec init` from {files}. A threshold is what you need, not what the model happens to reach. "
    "Every measured number is marked as such and is yours to decide.  `require` blocks the release, `warn` does not."
)


def spec_text(
    sketch: Sketch, checks: Sequence[CheckDraft], tokens: Mapping[str, str], policy: Mapping[str, Any] | None = None
) -> str:
    """A whole spec.

    Args:
        sketch: What was seen.
        checks: What is written of checks.
        tokens: Values of ``@name@`` in its head.
        policy: Its policy; None: the default one.
    """
    test = sketch.test.fields["path"]
    files = f"{sketch.model.fields.get('path') or sketch.model.fields.get('url')} and {test}"
    text = HEAD.replace("@about@", comment(WROTE.format(files=files)))
    for token, value in tokens.items():
        text = text.replace(f"@{token}@", value)
    parts = [text.rstrip("\n"), "", *models_lines(sketch), "", *datasets_lines(sketch)]
    for section in SECTIONS:
        own = [draft for draft in checks if draft.section == section]
        if own:
            parts += ["", *_section(section, own)]
    if policy is not None:
        parts += ["", f"policy: {flow(policy)}"]
    return "\n".join(parts) + "\n"


def models_lines(sketch: Sketch) -> list[str]:
    """The models."""
    lines = ["models:", *_model("candidate", sketch.model, "The model that should ship")]
    if sketch.baseline is not None:
        lines += _model("baseline", sketch.baseline, "The model to compare with")
    return lines


def _model(name: str, model: ModelSketch, what: str) -> list[str]:
    lines = [comment(f"{what}: {model.what}.", "  ")]
    if model.unopened:
        told = f"It was not opened ({model.unopened}), so this entry is a guess; `init --trust` opens it."
        lines.append(comment(told, "  "))
    if model.answers:
        lines.append(comment(f"The first rows were answered: {model.answers}.", "  "))
    lines += [comment(f"To check: {note}.", "  ") for note in model.notes]
    return [*lines, f"  {name}:", *entry_lines(model.fields, "    ")]


def datasets_lines(sketch: Sketch) -> list[str]:
    """The datasets."""
    lines = ["datasets:"]
    for role, rows in sketch.datasets.items():
        if role == "test":
            lines.append(comment("Rows that the model has not seen, similar to those in production.", "  "))
            if rows.guess and rows.label:
                lines.append(comment(f"To check: {rows.label} was taken for the label column.", "  "))
            if rows.times:
                lines.append(comment(f"When: {', '.join(rows.times)}.", "  "))
        else:
            lines.append(comment("Rows that it was trained on.", "  "))
        lines.append(f"  {role}: {flow(sketch.dataset_fields(role))}")
    return lines


def _section(name: str, checks: Sequence[CheckDraft]) -> list[str]:
    written = [draft for draft in checks if not draft.left_out]
    lines = [f"{name}:" if written else f"# {name}:"]
    for draft in checks:
        lines += _check(draft)
    return lines


def _check(draft: CheckDraft) -> list[str]:
    lines = [comment(draft.about, "  ")]
    own = entry_lines(draft.entry, "    ")
    own[0] = f"  - {own[0].lstrip()}"
    for key, blocking in (("require", True), ("warn", False)):
        asks = [ask for ask in draft.asks if ask.blocking is blocking]
        live = [ask for ask in asks if not ask.left_out]
        if live:
            own.append(f"    {key}:")
        own += [_ask(ask) for ask in live]
        own += [line for ask in asks if ask.left_out for line in left_out(f"      - {_whole(ask)}", ask.left_out)]
    return [*lines, *(commented(own, draft.left_out) if draft.left_out else own)]


def _ask(ask: Ask) -> str:
    line = f"      - {scalar(ask.sentence)}"
    return f"{line:<{COLUMN}}  # {ask.comment}" if ask.comment else line


def _whole(ask: Ask) -> str:
    return scalar(ask.sentence if ask.threshold or not ask.otherwise else f"{ask.start} {ask.otherwise}")


def commented(lines: Sequence[str], reason: str) -> list[str]:
    """Lines that are not in force, with the reason before them."""
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    return [comment(f"Left out: {reason}.", indent), *(f"{indent}# {line.removeprefix(indent)}" for line in lines)]


def left_out(line: str, reason: str) -> list[str]:
    """A line that is not in force, with the reason beside it."""
    indent = line[: len(line) - len(line.lstrip())]
    return [f"{indent}# {line.lstrip()}    # left out: {reason}"]


def comment(text: str, indent: str = "") -> str:
    """A text as lines of comment."""
    start = f"{indent}# "
    return "\n".join(textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=start, break_long_words=False))


def entry_lines(fields: Mapping[str, Any], indent: str) -> list[str]:
    """A mapping, one field a line; long lists go on below."""
    return [line for key, value in fields.items() for line in _field(key, value, indent)]


def _field(key: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and len(f"{indent}{key}: {flow(value)}") > WIDTH:
        yield f"{indent}{plain(key)}:"
        yield from entry_lines(value, f"{indent}  ")
        return
    whole = f"{plain(key)}: {flow(value)}"
    if "  " in whole:
        # A name with two spaces would lose one at the end of a line.
        yield f"{indent}{whole}"
        return
    yield from textwrap.wrap(
        whole,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{plain(str(key))}: {flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(value)
    return value if value.isdigit() and str(int(value)) == value else plain(str(value))


def scalar(sentence: str) -> str:
    """A sentence as an item of a list: quoted where YAML would read it otherwise."""
    return (
        json.dumps(sentence, ensure_ascii=False)
        if any(mark in sentence for mark in (": ", " #", '"', "'"))
        else sentence
    )
