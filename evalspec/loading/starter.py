"""A new spec to start from: a commented template, and the schema that an editor completes it with."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Container
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from evalspec.errors import Problem, SpecError
from evalspec.language.parts import Access
from evalspec.language.registry import Registry, discover
from evalspec.loading.column_roles import ColumnRoles
from evalspec.loading.profile import LoadedProfile, known_profile, load_profile
from evalspec.loading.profile_match import COARSE, MIXED
from evalspec.loading.scan_folder import Finding, Looks, find, plain
from evalspec.loading.schema import SPEC_VERSION, dump, spec_schema

SPEC_FILE = "evalspec.yaml"
SCHEMA_FILE = f"spec.v{SPEC_VERSION}.json"
WIDTH = 116
"""Of a line of comment."""
CLASSES = ("no", "yes")
"""Names to be replaced."""
GUESSED = (
    "kind of output (logits, probabilities, value, ...), and its name in the model",
    "replace these with the label of each index, in order",
)
"""Comments on the lines that no file tells."""
SLICES = """\
  - check: slices
    dataset: test
    by: [{groups}]
    min_n: 100                         # smaller groups are only counted, not judged
    require: [worst_accuracy >= 80 %, slices_too_small == 0]"""
NO_SLICES = """\
  # - check: slices                    # recommended: a column, or names from `slices:`
  #   dataset: test
  #   by: [group]
  #   require: [worst_accuracy >= 80 %, slices_too_small == 0]"""
LEAKAGE = """
  - check: leakage
    train: [train]
    test: test
    group: {group:<27} # no group is on both sides
    require: [group_overlap == 0]"""
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_TOKEN = re.compile(r"@(\w+)@")


class Started(NamedTuple):
    """Files that were written.

    Args:
        spec: The spec's file.
        schema: Its schema's.
        left: A sentence on the files that it names and that are not there; empty: none is known of.
    """

    spec: Path
    schema: Path
    left: str


def template() -> str:
    """The text of the template."""
    return resources.files("evalspec.loading").joinpath("template.yaml").read_text(encoding="utf-8")


def profile_template(profile: str, folder: Path, registry: Registry, finding: Finding | None = None) -> tuple[str, str]:
    """A new spec for a profile, with the files that are there and suggested thresholds.

    Args:
        profile: Name of a profile that comes with evalspec.
        folder: Where the spec will stand.
        registry: The kinds there are.
        finding: What there is; None: the folder's files are looked at.

    Returns:
        Its text, and a sentence on the files that are still missing; empty: none is.

    Raises:
        SpecError: There is no such profile; with the choices.
    """
    name = re.sub(r"[^a-z0-9._-]+", "-", folder.resolve().name.lower()).strip("-._") or "my-model"
    loaded = load_profile(known_profile(profile), Access(folder), registry)
    starts = resources.files("evalspec.loading").joinpath("starts")
    text = "".join(starts.joinpath(f"{one}.yaml").read_text(encoding="utf-8") for one in ("_head", profile))
    found, tokens = finding or find(folder, registry), frozenset(_TOKEN.findall(text))
    for token, value in (_values(loaded, found, tokens) | {"name": plain(name)}).items():
        text = text.replace(f"@{token}@", value)
    return text, found.left(_roles(tokens))


def _values(loaded: LoadedProfile, found: Finding, tokens: frozenset[str]) -> dict[str, str]:
    """Values of the tokens of a template."""
    roles = _roles(tokens)
    about = [f"{loaded.file.name}: {loaded.file.about}", *found.lines(roles)]
    values = {
        "about": "\n# ".join(line for text in about for line in textwrap.wrap(text, WIDTH)),
        "profile": loaded.file.name,
        "label": found.label,
        "text": plain(found.text),
        "inputs": _inputs(found.looks["candidate"]),
        "artifact": plain(found.models["candidate"][1]),
    }
    values |= _of_columns(found.columns, found.trained)
    values |= {role: _model(role, found) for role in found.models}
    return values | {
        role: f"kind: {kind}, path: {plain(path)}{found.more.get(role, '')}"
        for role, (kind, path) in found.datasets.items()
    }


def _roles(tokens: frozenset[str]) -> frozenset[str]:
    """Roles of the files that a template names; a server's artifact is the candidate's file."""
    return tokens | {"candidate"} if "artifact" in tokens else tokens


def _of_columns(columns: ColumnRoles, trained: Container[str]) -> dict[str, str]:
    """Values of the tokens for columns of the test set: row names, what rows share, slices, classes, leakage."""
    shared, groups = columns.cluster, ", ".join(map(plain, columns.groups))
    key = f", key: {plain(columns.key)}" if columns.key else ""
    recalls = "".join(f"\n      - recall({name}) >= 70 %" for name in columns.classes if _PART.fullmatch(name))
    return {
        "key": key,
        "rows": f"{key}, cluster: {plain(shared)}" if shared else key,
        "cluster": plain(shared or "patient"),
        "groups": groups or "group",
        # A column that is not there is no group of rows; of a file that is still to come nothing is known.
        "by": "# " if columns.is_read and not groups else "",
        "unseen": "\n      - unseen_categories <= 2 %" if columns.has_categories else "",
        "slices": SLICES.format(groups=groups) if groups else NO_SLICES,
        "recalls": recalls,
        "leakage": LEAKAGE.format(group=plain(shared)) if shared and shared in trained else "",
    }


def _model(role: str, found: Finding) -> str:
    kind, path = found.models[role]
    looks = found.looks[role]
    precision = looks.precision
    lines = [f"kind: {kind}", f"path: {plain(path)}", f"precision: {precision}"]
    if precision in COARSE:
        lines.append("quantization: {method: static, calibration: train}")
    elif precision == MIXED:
        lines.append("quantization: {method: dynamic}")
    if found.doubles and kind != "sklearn":
        lines.append("preprocess: [{cast: float32}]")
    lines.append(f"inputs: {_inputs(looks)}")
    if kind != "sklearn":
        classes = ", ".join(map(plain, found.columns.classes or CLASSES))
        guesses = [f"outputs: {{{looks.scores}: {plain(looks.gives)}}}", f"classes: [{classes}]"]
        if role == "candidate":
            guesses = [f"{line:<34} # {why}" for line, why in zip(guesses, GUESSED, strict=True)]
        lines += guesses
    return "\n    ".join(lines)


def _inputs(looks: Looks) -> str:
    return f"{{{', '.join(f'{plain(name)}: {columns}' for name, columns in looks.takes.items())}}}"


def start(
    folder: Path, *, force: bool = False, registry: Registry | None = None, profile: str | None = None
) -> Started:
    """Write a spec and its schema into a folder, which is made where it is not there.

    Args:
        folder: Where.
        force: Files that are there may be overwritten.
        registry: The kinds that the schema shows; None: all that are installed.
        profile: Name of the profile that the spec is for; None: the template that shows the language.

    Raises:
        SpecError: A file is there already, the folder can't be written, or there is no such profile.
    """
    registry = registry or discover()
    content, left = (template(), "") if profile is None else profile_template(profile, folder, registry)
    spec, schema = folder / SPEC_FILE, folder / SCHEMA_FILE
    there = [path for path in (spec, schema) if path.exists()]
    if there and not force:
        remedy = "pass --force to overwrite it, or name another folder"
        raise SpecError([Problem("this file already exists", file=str(path), remedy=remedy) for path in there])
    text = dump(spec_schema(registry))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        schema.write_text(text, encoding="utf-8")
        spec.write_text(content, encoding="utf-8")
    except OSError as error:
        message = f"can't be written: {error.strerror or error}"
        raise SpecError(Problem(message, file=error.filename or str(folder))) from error
    return Started(spec, schema, left)
