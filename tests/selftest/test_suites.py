"""Suites whose runs no other test of `make proof` makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import trains_classifiers
from tests.selftest.holding import holds
from tests.shared import predictions_run
from tests.suites.test_suites import made

pytestmark = [pytest.mark.proof, trains_classifiers]


def test_predictions(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = predictions_run(tmp_path_factory)
    holds("predictions/evalspec.yaml", folder / "run", file=folder / "suite" / "evalspec.yaml")


@pytest.mark.parametrize(
    "spec",
    ["labels/evalspec.yaml", "contamination/evalspec.yaml", "tabular-shift/evalspec.yaml", "tabular-shift/clean.yaml",
     "digits/evalspec.yaml"],
)  # fmt: skip
def test_every_requirement_is_red_for_its_own_defect_or_named_as_what_it_is(spec: str, tmp_path: Path) -> None:
    holds(spec, made(spec, tmp_path / "run"))
