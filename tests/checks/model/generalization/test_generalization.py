"""`generalization`: worse elsewhere is found, the same origin shows nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.checks.model.generalization.spec import Generalization
from evalspec.errors import InvalidError
from evalspec.evidence.blocks import Intervals, Table
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.language.names import SpecNames
from evalspec.language.parts import CheckResult
from evalspec.stats.shares.proportion import proportion
from evalspec.stats.shares.two_shares import SharesApart
from tests.checks.deciding import outcome, the
from tests.checks.planting import confident
from tests.fakes import FakeInputs, classifier, regressor

HERE, THERE = {"site": "lab", "collected": "2026-05-01"}, {"site": "field", "collected": "2026-05-01"}


def check(*require: str, **fields: Any) -> Generalization:
    given = {"inside": "test", "outside": ["field"], "report_only": not require} | fields
    return Generalization.model_validate({"check": "generalization", "require": list(require)} | given)


def inputs_of(folder: Path, **right: tuple[int, int]) -> FakeInputs:
    """Dataset: (rows, right ones)."""
    tables, answers = {}, {}
    for name, (rows, good) in right.items():
        truth = np.arange(rows) % 2
        site = np.where(np.arange(rows) < rows // 2, "north", "south")
        tables[name] = pa.table({"x": np.arange(rows), "site": site.tolist(), "label": truth})
        shares = confident(truth, np.arange(rows) < good, 2)
        answers[name, "candidate"] = classifier(shares, truth, dataset=name)
    origins = {name: HERE if name == "test" else THERE for name in right}
    return FakeInputs(
        evidence=folder, tables=tables, labels=dict.fromkeys(right, "label"), answers=answers, origins=origins
    )


def gaps(result: CheckResult, metric: str = "ood_gap") -> dict[str, float | None]:
    found = result.estimates[metric]
    assert isinstance(found, Parts)
    return {name: part.value for name, part in found.parts.items() if isinstance(part, Estimate)}


@pytest.mark.parametrize(
    ("home", "away", "points"), [(0.97, 0.70, 27.0), (0.95, 0.70, 25.0), (0.92, 0.80, 12.0)]
)  # fmt: skip
def test_worked_numbers(tmp_path: Path, home: float, away: float, points: float) -> None:
    """Wildlife cameras, photos against CIFAR-10, user text: 27, 25 and 12 points."""
    inputs = inputs_of(tmp_path, test=(4000, int(4000 * home)), field=(4000, int(4000 * away)))
    asked = check("ood_gap <= 5 pp", "ood_gap <= 30 pp")
    result = asked.run(inputs)
    assert gaps(result)["field"] == pytest.approx(points / 100)
    assert outcome(result, the(asked, "ood_gap <= 5 pp")) == "FAIL"
    assert outcome(result, the(asked, "ood_gap <= 30 pp")) == "PASS"


def test_as_good_elsewhere(tmp_path: Path) -> None:
    asked = check("ood_gap <= 5 pp")
    result = asked.run(inputs_of(tmp_path, test=(4000, 3800), field=(2000, 1910)))
    assert gaps(result)["field"] == pytest.approx(-0.005)
    assert outcome(result, asked.require[0]) == "PASS"
    assert asked.run(inputs_of(tmp_path, test=(60, 57), field=(60, 57))).estimates.keys() == {"ood_gap"}


def test_the_interval_is_that_of_separate_rows(tmp_path: Path) -> None:
    result = check().run(inputs_of(tmp_path, test=(500, 460), field=(300, 240)))
    found = result.estimates["ood_gap"]
    assert isinstance(found, Parts)
    part = found.parts["field"]
    assert isinstance(part, Estimate)
    by_hand = SharesApart(proportion(np.arange(500) < 460), proportion(np.arange(300) < 240))
    assert part.bound(0.95, "upper") == by_hand.bound(0.95, "upper")
    assert part.n == by_hand.n == 800
    # A score test, as in `slices`: MOVER says 0.0263 here.
    part = check().run(inputs_of(tmp_path, test=(4000, 3880), field=(300, 290))).estimates["ood_gap"].parts["field"]  # type: ignore[union-attr]
    assert part.bound(0.95, "upper") == pytest.approx(0.0254, abs=5e-5)  # type: ignore[union-attr]
    forest, table = result.blocks
    assert isinstance(forest, Intervals)
    assert [row.label for row in forest.rows] == ["test", "field"]
    assert isinstance(table, Table)
    assert table.rows[1][3] == pytest.approx(12.0)


def test_every_origin_must_hold(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, test=(2000, 1900), field=(2000, 1890), clinic=(2000, 1500))
    asked = check("ood_gap <= 5 pp", "ood_gap(field) <= 5 pp", outside=["field", "clinic"])
    result = asked.run(inputs)
    assert [outcome(result, one) for one in asked.require] == ["FAIL", "PASS"]


def test_origins_in_a_column(tmp_path: Path) -> None:
    asked = check("ood_gap(site=south) <= 5 pp", "ood_gap(site=north) <= 5 pp", by="site")
    result = asked.run(inputs_of(tmp_path, test=(2000, 1900), field=(4000, 2600)))
    assert gaps(result) == pytest.approx({"site=north": -0.05, "site=south": 0.65})
    assert [outcome(result, one) for one in asked.require] == ["FAIL", "PASS"]
    assert asked.columns_read(SpecNames((), (), ())) == {"field": ("site",)}


def test_values(tmp_path: Path) -> None:
    x = np.linspace(0, 10, 400)
    wave = np.sin(np.arange(400))
    inputs = FakeInputs(
        evidence=tmp_path, tables={name: pa.table({"x": x, "y": x}) for name in ("test", "field")},
        labels={"test": "y", "field": "y"}, origins={"test": HERE, "field": THERE},
        answers={
            ("test", "candidate"): regressor(x + 0.1 * wave, x), ("field", "candidate"): regressor(x + wave, x),
        },
    )  # fmt: skip
    asked = check("ood_gap_mae <= 0.1", "ood_gap_rmse <= 2", metric="mae")
    result = asked.run(inputs)
    assert gaps(result, "ood_gap_mae")["field"] == pytest.approx(0.9 * np.abs(wave).mean())
    assert [outcome(result, one) for one in asked.require] == ["FAIL", "PASS"]
    assert "use ood_gap_mae" in result.missing["ood_gap"]


def test_no_rows_of_a_class_outside_passes_nothing(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, test=(400, 380), field=(400, 380))
    ones = np.ones(400, dtype=np.int64)
    inputs.answers = {**inputs.answers, ("field", "candidate"): classifier(confident(ones, ones == 1, 2), ones)}
    asked = check("ood_gap <= 5 pp", metric="balanced_accuracy")
    result = asked.run(inputs)
    assert gaps(result) == {"field": None}
    assert outcome(result, asked.require[0]) == "INCONCLUSIVE"
    assert "has no rows" in result.missing["ood_gap(field)"]


def test_the_same_origin_shows_nothing(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, test=(400, 380), field=(400, 380))
    inputs.origins = {"test": HERE, "field": HERE}
    with pytest.raises(InvalidError, match=r"field has the same origin as test \(site: lab, collected: 2026-05-01\)"):
        check().run(inputs)


def test_a_value_of_a_column_is_no_origin_where_the_inside_is_from_it(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, test=(2000, 1900), field=(2000, 1900))
    asked = check("ood_gap <= 5 pp", by="site")
    everywhere = inputs.tables["field"]
    inputs.tables = {**inputs.tables, "field": everywhere.set_column(1, "site", pa.array(["lab"] * 2000))}
    for there in (THERE, HERE, {}):
        inputs.origins = {"test": HERE, "field": there}
        with pytest.raises(InvalidError, match=r"site=lab of field has the same origin as test \(site: lab"):
            asked.run(inputs)
    inputs.origins = {}
    with pytest.raises(InvalidError, match="the origin of test is not given"):
        asked.run(inputs)
    # One of several values is left out, and said so.
    mixed = everywhere.set_column(1, "site", pa.array(["lab"] * 1500 + ["north"] * 500))
    inputs.tables = {**inputs.tables, "field": mixed}
    inputs.origins = {"test": HERE, "field": HERE}
    result = asked.run(inputs)
    assert list(gaps(result)) == ["site=north"]
    assert outcome(result, asked.require[0]) == "FAIL"
    assert result.counts.dropped == 1500
    assert result.notes[0].startswith("1,500 rows are left out: site=lab of field has the same origin as test")


def test_a_column_without_a_value_has_no_origins(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, test=(400, 380), field=(400, 380))
    empty = inputs.tables["field"].set_column(1, "site", pa.nulls(400, pa.string()))
    inputs.tables = {**inputs.tables, "field": empty}
    asked = check("ood_gap <= 5 pp", by="site")
    result = asked.run(inputs)
    assert outcome(result, asked.require[0]) == "MISSING"
    assert result.missing["ood_gap"] == "no row of field has a value for 'site'"


def test_a_spec_says_which_of_the_columns_values_the_inside_is_from() -> None:
    def problem(here: dict[str, str], there: dict[str, str]) -> str | None:
        names = SpecNames(("candidate",), ("test", "field"), (), {"test": here, "field": there})
        return check(by="site").check_names(names)

    assert problem(HERE, HERE) is None
    assert problem({"device": "a"}, {"device": "b"}) is None
    assert "the origin of test is not given; add `origin: {site: ...}`" in str(problem({}, THERE))
    assert "add `site:` to its `origin:`" in str(problem({"device": "a"}, {"device": "a"}))
    assert "add `site:` to its `origin:`" in str(problem({"device": "a"}, {"site": "north"}))


def test_a_spec_must_say_where_data_are_from() -> None:
    def problem(here: dict[str, str], there: dict[str, str]) -> str | None:
        return check().check_names(SpecNames(("candidate",), ("test", "field"), (), {"test": here, "field": there}))

    assert problem(HERE, THERE) is None
    assert "same origin" in str(problem(HERE, HERE))
    assert "the origin of test is not given" in str(problem({}, THERE))
    assert "the origin of field is not given" in str(problem(HERE, {}))
    assert "state the same keys for both" in str(problem({"site": "a"}, {"device": "b"}))


def test_requirements_that_mean_nothing() -> None:
    one = check("ood_gap <= 5 pp", metric="mae")
    assert "write ood_gap_mae" in str(one.check_requirement(one.require[0], {}))
    other = check("ood_gap <= baseline + 1 pp")
    assert "not compared between models" in str(other.check_requirement(other.require[0], {}))
    assert check("ood_gap <= 5 pp").check_requirement(check("ood_gap <= 5 pp").require[0], {}) is None
    with pytest.raises(ValidationError, match="both inside and outside"):
        check(outside=["test"])
    with pytest.raises(ValidationError, match="is listed twice"):
        check(outside=["field", "field"])
