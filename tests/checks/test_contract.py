"""What every check owes, held over all that there are."""

from __future__ import annotations

import ast
import inspect
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalspec.checks.model.generalization.spec import Generalization
from evalspec.errors import EvalspecError, InputError, InvalidError, NotRunError, SpecError
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.units import UNITS
from evalspec.language.parts import Check, CheckResult, NeedPredictions, NeedRows, NeedTiming, SpecNames
from evalspec.language.registry import discover
from evalspec.language.requirement import Requirement, parse_requirement
from evalspec.language.yaml import read_text
from tests.checks.deciding import outcome, the
from tests.checks.planting import Planted, every

SECTIONS = ("What it measures", "Why it matters", "Method", "What it cannot show", "Example")
REGISTRY = discover(plugins=False)
KINDS = REGISTRY.kinds("checks")
PLANTED = every()
# To import its library takes five seconds.
CASES = [pytest.param(one, id=one.name, marks=[pytest.mark.proof] if one.kind == "evaluate" else []) for one in PLANTED]
ROWS = (0, 1, 2, 5, 19)


def sections(check: type[Check]) -> dict[str, str]:
    """Section: its text."""
    text = inspect.cleandoc(check.__doc__ or "")
    found = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {title.strip(): body.strip() for title, body in zip(found[1::2], found[2::2], strict=True)}


def example(check: type[Check]) -> Mapping[str, Any]:
    """The check in its own example."""
    block = re.search(r"```yaml\n(.*?)```", sections(check)["Example"], flags=re.DOTALL)
    assert block is not None, "the Example has no ```yaml block"
    value = read_text(block[1], "Example").value
    if isinstance(value, dict):
        assert list(value) == [check.dimension], "above the list stands its dimension, or nothing"
        value = value[check.dimension]
    assert isinstance(value, list) and len(value) == 1, "the Example is a list with this one check"
    assert isinstance(value[0], dict)
    return value[0]


def test_there_are_checks_of_each_kind_asked_for() -> None:
    assert {"quality", "slices"} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_documentation_has_its_sections_in_order(kind: str) -> None:
    check = REGISTRY.check(kind)
    found = sections(check)
    assert tuple(found) == SECTIONS
    assert all(len(body) > 40 for body in found.values())
    first = inspect.cleandoc(check.__doc__ or "").split("\n\n")[0]
    assert first.endswith("."), "the docstring begins with one sentence"
    assert len(first) < 160


@pytest.mark.parametrize("kind", KINDS)
def test_documentation_names_every_metric(kind: str) -> None:
    text = REGISTRY.check(kind).__doc__ or ""
    bases = {re.sub(r"^worst_|_gap$|_p\d+(_\d+)?$|_mean$", "", metric.name) for metric in REGISTRY.check(kind).metrics}
    unnamed = [base for base in bases if base not in text and kind != "slices"]
    assert not unnamed


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_is_valid(kind: str) -> None:
    check_type = REGISTRY.check(kind)
    check = check_type.model_validate(example(check_type))
    assert check.requirements, "the Example shows at least one requirement"
    assert check.needs()
    names = SpecNames(
        models=("candidate", "baseline"),
        datasets=("train", "test", "field"),
        slices=("dark", "occluded"),
        origins={"test": {"site": "lab"}, "field": {"site": "field"}},
    )
    assert check.check_names(names) is None
    enough = {dataset: 10_000_000 for dataset in _datasets(check)}
    assert [check.check_requirement(requirement, enough) for requirement in check.requirements] == [None] * len(
        check.requirements
    )


def _datasets(check: Check) -> set[str]:
    return {need.dataset for need in check.needs() if isinstance(need, NeedRows | NeedPredictions | NeedTiming)}


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_are_declared_whole(kind: str) -> None:
    check = REGISTRY.check(kind)
    names = [metric.name for metric in check.metrics]
    assert names
    assert len(names) == len(set(names))
    for metric in check.metrics:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
        assert metric.unit in UNITS, f"{metric.name}: {metric.unit!r} is not a unit"
        assert metric.better in ("lower", "higher", "neither")
        assert metric.summary.endswith("."), metric.name
        assert not (metric.interval and metric.exact), f"{metric.name}: an interval, or exact, and not both"


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_without_an_interval_can_not_be_required(kind: str) -> None:
    """Exact facts aside: with no bound nothing is ever shown, and a requirement would only block."""
    check_type = REGISTRY.check(kind)
    check = check_type.model_validate(example(check_type))
    for metric in check_type.metrics:
        if not metric.interval and not metric.exact:
            upper = metric.better != "higher"
            required = Requirement("", metric.name, None, "<=" if upper else ">=", 0.5, metric.unit)
            assert check.check_requirement(required, {}) is not None, metric.name


@pytest.mark.parametrize("kind", KINDS)
def test_more_rows_than_there_are_can_not_be_required(kind: str) -> None:
    """`orphans <= 900 rows` of 500 rows is a gate that never goes red."""
    check_type = REGISTRY.check(kind)
    check = check_type.model_validate(example(check_type))
    there = dict.fromkeys(_datasets(check), 500)
    for metric in check_type.metrics:
        if metric.unit != "rows":
            continue
        upper = metric.better != "higher"
        sentence = f"{metric.name} {'<=' if upper else '>='} 900 rows"
        asked = Requirement(sentence, metric.name, None, "<=" if upper else ">=", 900.0, "rows")
        try:
            reason = check.check_requirement(asked, there)
        except SpecError:
            continue
        remedy = "let `check_requirement` end with `evalspec.language.reach.check_rows`"
        assert reason is not None, f"{sentence!r} of 500 rows is let through: {remedy}"


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_that_points_the_wrong_way_is_refused(kind: str) -> None:
    units = {"fraction": "", "score": "", "count": "", "label": ""}
    for metric in REGISTRY.check(kind).metrics:
        wrong = {"higher": "<=", "lower": ">="}.get(metric.better)
        if wrong is None:
            continue
        sentence = f"{metric.name} {wrong} 0.5 {units.get(metric.unit, metric.unit)}".strip()
        with pytest.raises(SpecError):
            parse_requirement(sentence, REGISTRY.check(kind).metrics)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(kind: str) -> None:
    check = REGISTRY.check(kind)
    own = {name: field for name, field in check.model_fields.items() if name not in Check.model_fields}
    own.pop("check", None)
    assert [name for name, field in own.items() if not (field.description or _described(field.metadata))] == []


def _described(metadata: list[Any]) -> bool:
    return any(getattr(one, "description", None) for one in metadata)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_field_is_refused(kind: str) -> None:
    check = REGISTRY.check(kind)
    with pytest.raises(ValueError, match="colour"):
        check.model_validate({**example(check), "colour": "red"})


def test_check_files_import_neither_numpy_nor_anything_heavy() -> None:
    """In a process of its own: here everything is loaded already."""
    program = (
        "import sys\n"
        "from evalspec.language.registry import discover\n"
        "registry = discover(plugins=False)\n"
        "for kind in registry.kinds('checks'): registry.check(kind)\n"
        "heavy = ('numpy', 'scipy', 'torch', 'onnx', 'onnxruntime', 'sklearn', 'pandas', 'datasets', 'transformers')\n"
        "sys.exit(', '.join(name for name in heavy if name in sys.modules) or 0)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"loaded by the checks' files: {ran.stderr}"


@pytest.mark.parametrize("kind", KINDS)
def test_its_file_has_no_print_and_catches_nothing_unnamed(kind: str) -> None:
    tree = ast.parse(Path(inspect.getfile(REGISTRY.check(kind))).read_text(encoding="utf-8"))
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not calls & {"print", "eval", "exec"}


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_a_planted_defect(kind: str) -> None:
    check = REGISTRY.check(kind)
    folder = f"tests/checks/{check.dimension}/{kind}"
    assert kind in {planted.kind for planted in PLANTED}, f"no `PLANTED` of {folder}/planted.py is about {kind}"


def test_planted_defects_are_of_checks_that_are_there() -> None:
    assert {planted.kind for planted in PLANTED} <= set(KINDS)


@pytest.mark.parametrize("planted", CASES)
def test_clean_inputs_pass(planted: Planted, tmp_path: Path) -> None:
    inputs, check = planted.clean(tmp_path)
    result = check.run(inputs)
    well_formed(result)
    requirement = the(check, planted.sentence)
    assert requirement.metric == planted.metric
    assert outcome(result, requirement) == "PASS"


@pytest.mark.parametrize("planted", CASES)
def test_a_planted_defect_fails(planted: Planted, tmp_path: Path) -> None:
    inputs, check = planted.planted(tmp_path)
    result = check.run(inputs)
    well_formed(result)
    assert outcome(result, the(check, planted.sentence)) == "FAIL"


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("planted", CASES)
def test_little_or_nothing_gives_a_reason_and_no_number(planted: Planted, rows: int, tmp_path: Path) -> None:
    inputs, check = planted.small(tmp_path, rows)
    try:
        result = check.run(inputs)
    except (InputError, NotRunError, InvalidError) as reason:
        assert len(str(reason)) > 15
        assert "nan" not in str(reason).lower().split()
        return
    except EvalspecError as wrong:  # pragma: no cover
        pytest.fail(f"{type(wrong).__name__} is not a reason for too few rows")
    well_formed(result)
    requirement = the(check, planted.sentence)
    metric = check.metric(requirement.metric)
    assert metric is not None
    if rows == 0 or not metric.exact:
        assert outcome(result, requirement) in ("MISSING", "INCONCLUSIVE", "INVALID")


def well_formed(result: CheckResult) -> None:
    """No NaN, no infinity, every estimate with n and method, every reason a sentence."""
    for name, found in result.estimates.items():
        bare = found.estimate if isinstance(found, Measured) else found
        parts = {} if isinstance(bare, Parts) else {"": bare}
        if isinstance(bare, Parts):
            parts |= {key: one.estimate if isinstance(one, Measured) else one for key, one in bare.parts.items()}
        if isinstance(bare, Parts) and bare.whole is not None:
            parts[""] = bare.whole
        for part, estimate in parts.items():
            assert isinstance(estimate, Fact | Estimate), f"{name}({part}) is neither an estimate nor a fact"
            assert estimate.value is None or math.isfinite(estimate.value), f"{name}({part}) is {estimate.value}"
            assert estimate.n >= 0
            if not isinstance(estimate, Fact):
                bounds_make_sense(f"{name}({part})", estimate)
    assert all(len(reason) > 10 for reason in result.missing.values())
    assert len({block.title for block in result.blocks}) == len(result.blocks), "two blocks have the same title"
    for block in result.blocks:
        # A block holds no NaN by its type; written and read again it is the same.
        assert type(block).model_validate_json(block.model_dump_json()) == block


def bounds_make_sense(name: str, estimate: Estimate) -> None:
    """Bounds are finite, on their own side of each other, and nothing has bounds without a value."""
    lower, upper = estimate.bound(0.95, "lower"), estimate.bound(0.95, "upper")
    if estimate.value is None:
        assert (lower, upper) == (None, None), name
    assert all(bound is None or math.isfinite(bound) for bound in (lower, upper)), name
    if lower is not None and upper is not None:
        assert lower <= upper, name
    assert estimate.method, name


def test_nothing_passes_by_having_no_parts() -> None:
    """All of no parts hold, and of parts that could not be measured nothing is known: neither is a PASS."""
    asked = Generalization.model_validate(
        {"check": "generalization", "inside": "test", "outside": ["field"], "require": ["ood_gap <= 5 pp"]}
    ).requirements[0]
    there = Parts({"field": Fact(0.0, 100)})
    assert outcome(CheckResult(estimates={"ood_gap": Parts({})}), asked) == "MISSING"
    assert outcome(CheckResult(estimates={"ood_gap": there}), asked) == "PASS"
    assert (
        outcome(CheckResult(estimates={"ood_gap": there}, missing={"ood_gap(clinic)": "no rows"}), asked) == "MISSING"
    )
