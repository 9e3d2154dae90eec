"""Faults of an extension bear its name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evalspec.errors import InputError, SpecError
from evalspec.evidence.estimate import Parts
from evalspec.language.extensions import at_fault, whose
from evalspec.language.parts import Check, CheckResult
from evalspec.language.registry import discover
from evalspec.running.children.checking import checked
from evalspec.stats.shares.proportion import Proportion
from tests.language.test_registry import PLUGIN, add_distribution

Written = Callable[[str], type[Check]]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Install a check of another distribution, from its text; gives its class."""

    def install(text: str) -> type[Check]:
        add_distribution(tmp_path, "sour-milk", "evalspec.checks", "fresh_kind = sour_module:Fresh", text)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "sour_module", raising=False)
        return discover().check("fresh_kind")

    return install


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("def needs", "def need", "its class Fresh has no method needs(), which every check needs"),
        ("def run", "def ran", "its class Fresh has no method run(), which every check needs"),
        ('(Metric("fresh", "rows", "lower", "How fresh.", exact=True),)', "()", "Fresh.metrics is empty"),
        ('Metric("fresh", "rows", "lower", "How fresh.", exact=True)', '"fresh"', "something other than a Metric"),
        ("class Fresh", "import no_such_module\nclass Fresh", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_class_that_can_t_be_used(written: Written, before: str, after: str, why: str) -> None:
    assert before in PLUGIN
    with pytest.raises(SpecError) as caught:
        written(PLUGIN.replace(before, after))
    assert "'fresh_kind' of sour-milk (sour_module) can't be used: " in str(caught.value)
    assert why in str(caught.value)
    assert caught.value.exit_code == 2


def test_what_its_code_raises(written: Written) -> None:
    check = written(PLUGIN).model_validate({"check": "fresh_kind", "require": ["fresh == 0"]})
    assert whose(check) == "'fresh_kind' of sour-milk (sour_module)"
    with pytest.raises(ValueError, match="sour") as caught:
        check.run(None)  # type: ignore[arg-type]  # it looks at nothing
    said = at_fault(caught.value)
    assert said is not None
    assert said.startswith(
        "'fresh_kind' of sour-milk (sour_module) failed: ValueError: the milk is sour (in sour_module.py:"
    )
    with pytest.raises(ZeroDivisionError) as own:
        _ = 1 / 0
    assert at_fault(own.value) is None


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (0.5, "returned an object of type float from run; return a CheckResult"),
        (None, "returned None from run"),
        (CheckResult(estimates={"fresh": 0.5}), "returned an object of type float for fresh; return an estimate"),  # type: ignore[dict-item]
        (CheckResult(estimates={"fresh": Parts({"a": 1})}), "returned an object of type int for fresh"),  # type: ignore[dict-item]
        (CheckResult(estimates={}), "returned nothing for fresh, which 'fresh == 0' is about"),
    ],
)
def test_what_is_no_result(written: Written, result: object, why: str) -> None:
    check = written(PLUGIN).model_validate({"check": "fresh_kind", "require": ["fresh == 0"]})
    with pytest.raises(InputError) as caught:
        checked(check, result)
    assert str(caught.value).startswith(f"'fresh_kind' of sour-milk (sour_module) {why}")


def test_what_is_one(written: Written) -> None:
    check = written(PLUGIN).model_validate({"check": "fresh_kind", "require": ["fresh == 0"]})
    for result in (
        CheckResult(estimates={"fresh": Proportion.of_counts(1, 2)}),
        CheckResult(estimates={}, missing={"fresh": "there is no milk"}),
    ):
        assert checked(check, result) is result
