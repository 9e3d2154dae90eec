"""Rules of the house that no import shows."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import evalspec.evidence
from evalspec.evidence.frozen import Frozen
from evalspec.evidence.units import UNITS
from evalspec.language.parts import Check
from evalspec.language.registry import discover

ROOT = Path(__file__).resolve().parent.parent / "evalspec"
OF_CHECKS = ("checks", "scoring", "screens", "tables", "timing")
"""Checks, and the rooms that hold what several checks of a dimension share: these know their own metrics. Screens
suggest requirements; that each of these loads beside its spec is held by their tests."""
BELOW = ("answers", "measure", "metrics", "pipeline", "runtimes", "sources", "stats", "trainings")
"""Rooms below the checks. Only what is handed one of these classes there can name a part of a check."""
CHECK_CLASSES = frozenset(("Check", "CheckResult", "CheckRecord", "Record", "Test"))
OLD_RECORDS = "lineage/before_0_3.py"
"""The single module that may: what checks did not say of themselves when records were older."""
LITERAL = ("Literal", "Annotated")

OTHER_WORDS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "a function, a method or a stage of loading, to import or to report": {
        "__init__.py": ["load"], "loading/__init__.py": ["load"], "running/children/worker.py": ["load"],
        "running/children/workers.py": ["load"],
        "running/subjects.py": ["load"], "running/timing.py": ["load"],
    },
    "a command, a heading or a mark of the report": {
        "cli/_app.py": ["report"], "cli/report.py": ["report"], "report/words.py": ["report"],
    },
    "a key of what is printed for machines": {
        "cli/_output.py": ["column"], "cli/compare.py": ["alpha"], "loading/catalogue.py": ["interval"],
        "planning/explain.py": ["alpha"],
    },
    "what parts of a metric are, or the singular in a sentence": {
        "loading/files.py": ["column"], "loading/matching.py": ["column"],
    },
    "a part of a spec beside its checks": {
        "lineage/settings.py": ["slices"], "loading/crosscheck.py": ["slices"], "loading/files.py": ["slices"],
        "loading/schema.py": ["slices"], "loading/spec_file.py": ["slices"],
        "running/children/screening.py": ["slices"],
    },
    "a key of `quantization:` of a model": {
        "loading/crosscheck.py": ["calibration"], "loading/profile_match.py": ["calibration"],
    },
    "what a model's answers are": {
        "language/predictions.py": ["labels", "embedding"], "running/guardrail.py": ["embedding"],
        "running/servers/fingerprint.py": ["labels"],
    },
    "a word in the names of files and columns, guessed at for a new spec": {
        "loading/scan_folder.py": [
            "train", "test", "index", "audited", "current", "outside", "labels", "features", "target",
        ],
        "loading/column_roles.py": ["index", "audited"],
    },
    "a token in the template of a new spec": {"loading/starter.py": ["groups", "slices", "leakage"]},
    "a column or a fact of the raw samples, as the loops write them": {
        "running/journal/replay.py": ["repeats"], "running/samples.py": ["warmup"],
        "running/servers/clients.py": ["connections", "generator_lag_", "clients"],
    },
    "what a model answers, as evidence, files and defects call it": {
        "language/timings.py": ["answers"], "running/samples.py": ["answers"], "runtimes/record.py": ["answers"],
        "selftest/answers.py": ["answers"], "selftest/trials.py": ["answers"],
    },
    "a file with nothing in it": {"loading/files.py": ["empty"]},
    "a field of a profile's subject, and a name of label columns": {
        "loading/profile_match.py": ["judged"],
    },
    "a role of a dataset, a fact that was seen, or a key of a message, of a new gate": {
        "starting/as_message.py": ["groups"], "starting/drafts.py": ["train", "labels", "groups"],
        "starting/load_check.py": ["answers"], "starting/look.py": ["test", "train"],
        "starting/matching.py": ["test"], "starting/profile_start.py": ["test", "train"],
        "starting/prompted.py": ["test"], "starting/rehearsal.py": ["labels", "answers"],
        "starting/rows.py": ["day", "test", "train"], "starting/sketch.py": ["test", "train"],
        "starting/writing.py": ["test"],
    },
    "a distribution of Python packages": {"running/environment.py": ["evaluate"]},
    "Python itself, or a stage that is code": {
        "running/doctor.py": ["python"], "running/engines/node.py": ["python"],
        "running/environment.py": ["python"], "verdict/diagnosis.py": ["python"],
    },
    "a kind of model and of dataset": {"loading/in_memory.py": ["memory"]},
    "a field of comparability, which a record holds": {
        "lineage/comparability.py": ["scenario", "stages"], "report/claims.py": ["scenario", "stages"],
    },
    "what a claim says of its conditions, or leaves out": {
        "verdict/claimed.py": ["boundary", "duration", "quality", "stages", "accuracy"],
        "verdict/claims.py": ["load", "cold_start", "idle", "boundary"],
    },
    "what a machine is asked about": {"running/doctor.py": ["clock"]},
    "what runs short, or whose doing it is": {"verdict/diagnosis.py": ["memory"], "verdict/owners.py": ["calibration"]},
    "what so many more are needed of": {"verdict/sentence.py": ["processes"]},
}  # fmt: skip
"""What words are that a kind, a field or a metric is called by too: file: the words."""
STILL_NAMED: Mapping[str, Mapping[str, Sequence[str]]] = {
    "a claim may name a metric that no check of the run has, so that no record says what it shows": {
        "verdict/claimed.py": ["size_ratio", "parameters", "model_size", "latency"],
    },
}
"""Why it is still so: file: metrics that it names. Nothing is added here."""


@dataclass(frozen=True, slots=True)
class CheckNames:
    """Names that only checks know.

    Args:
        whole: Kinds, fields and metrics, without the words that records, models, datasets and units have too.
        metrics: All metrics.
    """

    whole: Set[str]
    metrics: Set[str]

    def is_named_by(self, text: str) -> bool:
        """Whether a string is one of the names, or the beginning or the end of metrics (``latency_``, ``_gap``)."""
        if text.removesuffix("(") in self.whole:
            return True
        if len(text) < 3:
            return False
        begins = text.endswith("_") and any(metric.startswith(text) for metric in self.metrics)
        return begins or (text.startswith("_") and any(metric.endswith(text) for metric in self.metrics))


def fields_of_records() -> Set[str]:
    """Names of fields of records, verdicts and what else is in `evalspec.evidence`."""
    for module in pkgutil.iter_modules(evalspec.evidence.__path__):
        importlib.import_module(f"evalspec.evidence.{module.name}")
    classes = list(Frozen.__subclasses__())
    for one in classes:
        classes += one.__subclasses__()
    return {name for one in classes if one.__module__.startswith("evalspec.evidence.") for name in one.model_fields}


@cache
def check_names() -> CheckNames:
    registry = discover(plugins=False)
    checks = [registry.check(kind) for kind in registry.kinds("checks")]
    parts = [registry.runtime(kind) for kind in registry.kinds("runtimes")]
    parts += [registry.source(kind) for kind in registry.kinds("sources")]
    others = {about.alias or name for part in (Check, *parts) for name, about in part.model_fields.items()}
    others |= fields_of_records() | {unit.kind for unit in UNITS.values()}
    fields = {about.alias or name for check in checks for name, about in check.model_fields.items()}
    metrics = {metric.name for check in checks for metric in check.metrics}
    return CheckNames((fields | metrics | set(registry.kinds("checks"))) - others, metrics)


def words_apart(tree: ast.AST) -> Iterator[ast.Constant]:
    """Strings that name nothing of a check wherever they stand.

    Docstrings and others that stand alone; words of a type; keys of the conditions, which are the record's own words.
    """
    for node in ast.walk(tree):
        inside: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside = [node.value]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in LITERAL:
            inside = list(ast.walk(node.slice))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("conditions.get"):
            inside = list(node.args)
        yield from (one for one in inside if isinstance(one, ast.Constant))


def names_in(source: str, names: CheckNames) -> dict[str, int]:
    """Names of checks' parts among the strings of a module, and the line of the first."""
    tree = ast.parse(source)
    apart = {id(one) for one in words_apart(tree)}
    return {
        node.value: node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart
        if names.is_named_by(node.value)
    }


def is_handed_checks(source: str) -> bool:
    """Whether a module imports a class of checks or of their records."""
    imports = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
    return any(one.name in CHECK_CLASSES for node in imports for one in node.names)


def modules() -> Iterator[tuple[str, str]]:
    """Modules that could know checks of others: path and source."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        room, source = name.partition("/")[0], path.read_text()
        if room not in OF_CHECKS and name != OLD_RECORDS and (room not in BELOW or is_handed_checks(source)):
            yield name, source


def excused() -> Mapping[str, Set[str]]:
    """File: words that are not names of checks there, or still are."""
    found: dict[str, set[str]] = {}
    for files in (*OTHER_WORDS.values(), *STILL_NAMED.values()):
        for name, words in files.items():
            found.setdefault(name, set()).update(words)
    return found


@pytest.mark.proof
def test_no_string_outside_checks_names_a_check_a_field_or_a_metric() -> None:
    """Base classes' own fields, and words that records, models, datasets and units have too, are not looked for."""
    names = check_names()
    found = {name: names_in(source, names) for name, source in modules()}
    allowed = excused()
    new = [
        f"evalspec/{name}:{line}: {word!r}"
        for name, words in found.items()
        for word, line in words.items()
        if word not in allowed.get(name, ())
    ]
    assert not new, "declare it on the field, the metric or the check:\n" + "\n".join(new)
    gone = [f"{name}: {word!r}" for name, words in allowed.items() for word in sorted(words - found[name].keys())]
    assert not gone, f"no longer there, so take it off the list: {gone}"


SITES = {
    "settings": """HOW_MUCH = frozenset(("queries", "search"))""",
    "comparability": """RELATIVE_CHECKS = ("compression",)""",
    "profile_match": """BESIDE = ("test", "reference", "current")""",
    "owners, kinds": """TIMED = ("latency", "load")""",
    "owners, beginnings": """LATE = ("latency_", "goodput")""",
    "owners, calls": """found = seen.failing("slices")""",
    "diagnosis, a beginning": """found = [name for name in measured if name.startswith("stage_share(")]""",
    "diagnosis, a number": """found = number(check, "roof_fraction")""",
    "claims, a table": """ELSEWHERE = {"idle": ("idle_power",)}""",
    "claims, a check": """found = trusted_checks(record, "sustained")""",
    "clean": """CLEAN, CHANGE = "clean_score", "clean_score_change" """,
    "report of claims": """QUALITY = ("accuracy", "bleu")""",
    "monitoring": """wanted = check.check != "shift" """,
    "compare": """wanted = check.check == "quality" """,
    "class files": """found = getattr(check, "positive", None)""",
    "explain": """found = metric.name.startswith("worst_") or metric.name.endswith("_gap")""",
}


@pytest.mark.parametrize("source", SITES.values(), ids=SITES)
def test_every_way_in_which_a_module_knew_the_checks_of_others_is_found(source: str) -> None:
    assert names_in(source, check_names())


@pytest.mark.parametrize(
    "source",
    [
        '"""What `quality` finds."""',
        'Word = Literal["quality", "load"]',
        'found = check.conditions.get("reference")',
        'found = f"`{name}` of the model"',
        'found = record["datasets"], dataset["label"], model.precision == "precision"',
    ],
)
def test_what_names_nothing_of_a_check_is_left_alone(source: str) -> None:
    assert not names_in(source, check_names())
