"""Files of a folder, for a new spec: those that look like a model, a test set or a label column."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evalspec.errors import InputError
from evalspec.language.parts import Access, Dataset
from evalspec.language.registry import Registry
from evalspec.loading.class_files import KINDS
from evalspec.loading.column_roles import ColumnRoles, column_roles

MODELS = {".onnx": "onnx", ".pt2": "torch", ".skops": "sklearn", ".joblib": "sklearn"}
"""Ending of a model's file: its kind."""
BASELINES = ("baseline", "fp32", "float", "previous", "old")
ROLES = {
    "train": ("train",),
    "traffic": ("traffic", "prod", "field", "current", "today", "live"),
    "elsewhere": ("elsewhere", "external", "outside", "other"),
    "test": ("test", "valid", "eval", "holdout"),
}
LABELS = (
    *("label", "labels", "target", "class", "y", "outcome", "answer", "truth", "category", "species", "diagnosis"),
    *("sentiment", "digit", "score", "rating"),
)
NO_FEATURES = ("id", "key", "index", "group", "patient", "audited", "reader_1", "reader_2", "time")
TEXTS = ("text", "sentence", "review", "comment", "message", "prompt", "question", "title", "name", "path", "url")
ASKED = ("question", "prompt", "instruction", "text", "message")
WORDS = ("string", "large_string", "dictionary")
WHOLE = ("int", "uint", "bool")
NUMBERS = ("int", "uint", "float", "double", "half", "bool", "list", "fixed_size_list", "large_list")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset(("null", "true", "false"))


INPUTS = {"onnx": "input", "torch": "x", "sklearn": "X"}
"""Kind of model: what its input is often called."""


@dataclass(frozen=True, slots=True)
class Looks:
    """A model's file.

    Args:
        precision: What it computes in.
        takes: Name of each input: the column that it reads, or several in brackets.
        gives: Name of its output.
        scores: What that output is: ``logits`` or ``probabilities``.
    """

    precision: str
    takes: Mapping[str, str]
    gives: str = "output"
    scores: str = "logits"


@dataclass(frozen=True, slots=True)
class Finding:
    """Contents of a folder as a new spec names them; what was not found has a name that is to be replaced.

    Args:
        models: Role: kind and path.
        datasets: Role: kind and path.
        found: Roles that files were found for.
        label: Name of the label's column.
        text: Name of the column of texts that a language model is asked with.
        looks: Role: what the model takes, gives and computes in, read from its file where that tells, else a guess.
        doubles: Features are numbers of 64 bits, which few models take.
        columns: What other columns of the test set are.
        trained: Columns of the training set.
        more: Role: fields of a dataset beside kind and path, as they are written behind these.
    """

    models: Mapping[str, tuple[str, str]]
    datasets: Mapping[str, tuple[str, str]]
    found: frozenset[str]
    label: str
    text: str
    looks: Mapping[str, Looks]
    doubles: bool
    columns: ColumnRoles
    trained: frozenset[str]
    more: Mapping[str, str] = field(default_factory=dict)

    def lines(self, roles: Container[str]) -> list[str]:
        """Lines on the files of these roles that were found, and on those that were not."""
        named = {role: path for role, (_, path) in (*self.models.items(), *self.datasets.items()) if role in roles}
        here = [f"{path} ({role})" for role, path in named.items() if role in self.found]
        lines = [f"Found here: {', '.join(here)}.", self.left(roles)]
        return [line for line in (lines if here else lines[1:]) if line]

    def left(self, roles: Container[str]) -> str:
        """A sentence on the files of these roles that were not found; empty: all were."""
        named = {role: path for role, (_, path) in (*self.models.items(), *self.datasets.items()) if role in roles}
        paths = [path for role, path in named.items() if role not in self.found]
        return f"Still to be added, or renamed in the spec: {', '.join(paths)}." if paths else ""


def find(folder: Path, registry: Registry) -> Finding:
    """Look at the names of a folder's files, and at the columns of its test set.

    Args:
        folder: It need not be there.
        registry: The kinds of dataset.
    """
    files = sorted(one.name for one in folder.iterdir() if one.is_file()) if folder.is_dir() else []
    models = _models([name for name in files if Path(name).suffix.lower() in MODELS])
    datasets = _datasets([name for name in files if Path(name).suffix.lower() in KINDS])
    found = frozenset((*models, *datasets))
    models = {role: models.get(role, f"{name}.onnx") for role, name in (("candidate", "model"), ("baseline",) * 2)}
    datasets = {role: datasets.get(role, f"{role}.parquet") for role in ("test", "train", "traffic", "elsewhere")}
    columns, test = _columns(folder, datasets["test"], registry), _source(datasets["test"], registry)
    label = _label(columns)
    roles = column_roles(test, Access(folder), label) if columns else ColumnRoles()
    features = [name for name in _features(columns, label) if name not in (roles.key, roles.cluster)]
    return Finding(
        models={role: (MODELS[Path(name).suffix.lower()], name) for role, name in models.items()},
        datasets={role: (KINDS[Path(name).suffix.lower()], name) for role, name in datasets.items()},
        found=found,
        label=plain(label),
        text=next((name for one in ASKED for name in columns if name.lower() == one and name != label), ASKED[0]),
        looks={role: _looks(folder / name, columns, label, features) for role, name in models.items()},
        doubles=any("double" in columns[name] for name in features),
        columns=roles,
        trained=frozenset(_columns(folder, datasets["train"], registry)),
    )


def plain(text: str) -> str:
    """A text as YAML reads it back, quoted where it must be."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)


def _models(files: Sequence[str]) -> dict[str, str]:
    """Which file is the candidate, and which the baseline."""
    before = [name for name in files if any(word in name.lower() for word in BASELINES)]
    rest = [name for name in files if name not in before]
    ordered = [*rest, *before]
    found = dict(zip(("candidate",), ordered, strict=False))
    left = before if rest else before[1:]
    if left or len(rest) > 1:
        found["baseline"] = left[0] if left else rest[1]
    return found


def _datasets(files: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in files:
        role = next((role for role, words in ROLES.items() if any(word in name.lower() for word in words)), None)
        if role is not None:
            found.setdefault(role, name)
    if not found and len(files) == 1:
        found["test"] = files[0]
    return found


def _columns(folder: Path, name: str, registry: Registry) -> Mapping[str, str]:
    """Columns of a file and their types; none where it can't be read."""
    try:
        return _source(name, registry).header(Access(folder)).columns
    except (InputError, OSError):
        return {}


def _source(name: str, registry: Registry) -> Dataset:
    kind = KINDS[Path(name).suffix.lower()]
    return registry.source(kind).model_validate({"kind": kind, "path": name})


def _looks(path: Path, columns: Iterable[str], label: str, features: Sequence[str]) -> Looks:
    kind = MODELS[path.suffix.lower()]
    guess = Looks("fp64" if kind == "sklearn" else "fp32", {INPUTS[kind]: _listed(features)})
    if kind != "onnx":
        return guess
    from evalspec.runtimes.onnx_model.graph import read_graph

    try:
        graph = read_graph(path, path.name)
    except (InputError, OSError):
        return guess
    likely = [name for name in graph.outputs if "prob" in name.lower()]
    return Looks(
        precision=graph.precision or guess.precision,
        takes=_takes(tuple(graph.inputs), [name for name in columns if name != label], features) or guess.takes,
        gives=next(iter((*likely, *graph.outputs)), guess.gives),
        scores="probabilities" if likely else guess.scores,
    )


def _takes(inputs: Sequence[str], columns: Iterable[str], features: Sequence[str]) -> dict[str, str]:
    """Which columns each input reads: of several inputs each that of its own name, else what no other one reads."""
    if len(inputs) == 1:
        return {inputs[0]: _listed(features)}
    known = {name.lower(): name for name in columns}
    own = {name: known[name.lower()] for name in inputs if name.lower() in known}
    rest = _listed([name for name in features if name not in own.values()])
    return {name: plain(own[name]) if name in own else rest for name in inputs}


def _label(columns: Mapping[str, str]) -> str:
    """The column that is called as labels are, else the only one of words, else the only one of whole numbers."""
    named = [name for one in LABELS for name in columns if name.lower() == one]
    named += [name for name in columns if name.lower().rpartition("_")[2] in LABELS]
    others = {name: kind for name, kind in columns.items() if name.lower() not in (*NO_FEATURES, *TEXTS)}
    for kinds in (WORDS, WHOLE):
        alike = [name for name, kind in others.items() if kind.startswith(kinds)]
        named += alike if len(alike) == 1 and len(columns) > 1 else []
    return named[0] if named else "label"


def _features(columns: Mapping[str, str], label: str) -> list[str]:
    """Columns of numbers that are neither the label nor name a row."""
    return [
        name
        for name, kind in columns.items()
        if name != label and name.lower() not in NO_FEATURES and kind.startswith(NUMBERS)
    ]


def _listed(names: Sequence[str]) -> str:
    """Columns as a spec names them; none is a name to be replaced."""
    shown = [plain(name) for name in names] or ["features"]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
