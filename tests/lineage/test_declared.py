"""What a check declares is what readers took of it before checks declared anything."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from evalspec.evidence.declaration import Declaration
from evalspec.evidence.metric import Shows
from evalspec.evidence.record import CheckRecord
from evalspec.language.parts import Check
from evalspec.language.registry import discover
from evalspec.lineage.comparability import own_fields
from evalspec.lineage.declared import declared, number_that_shows, numbers_that_show
from evalspec.lineage.settings import settings_of, unlike_settings
from evalspec.report.claims import claim_sentence
from evalspec.running.describe import declaration_of
from evalspec.timing.budget import POOLED_GAP, STREAMED, TOKEN_FACTS, TOKEN_RATES
from tests.report import records
from tests.verdict.test_decide import a_test

REGISTRY = discover(plugins=False)
KINDS = REGISTRY.kinds("checks")
NEW = {"scaling", "time_to_accuracy", "training_recovery", "judged", "likelihood", "recorded_load"}
"""No version that declared nothing knew it."""
NEW_METRICS = {*STREAMED, POOLED_GAP, *TOKEN_FACTS, *TOKEN_RATES, "good_share", "energy_per_token", "first_token",
               "perplexity_ratio"}  # fmt: skip
"""The same of metrics."""
NEW_FIELDS = {"shuffles"}
"""The same of fields."""
NOT_BESIDE_A_MODEL = {("robustness", "mae_increase")}
"""Was taken for a comparison with a baseline since a metric of `compression` has the same name."""


def recorded(kind: str, **fields: Any) -> CheckRecord:
    """A check of a kind as a version recorded it that declared nothing, with every metric that it has."""
    part = REGISTRY.check(kind)
    measured = {metric.name: 1.0 for metric in part.metrics}
    return CheckRecord(
        **(
            {"id": kind, "check": kind, "dimension": part.dimension, "status": "measured", "measured": measured}
            | fields
        )
    )


def fields_of(part: type[Check]) -> set[str]:
    return {about.alias or name for name, about in part.model_fields.items()}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - NEW))
def test_a_check_declares_what_was_taken_of_it_before(kind: str) -> None:
    part = REGISTRY.check(kind)
    now, before = declaration_of(part), declared(recorded(kind))
    for what in ("effort", "conditions", "lists"):
        assert set(getattr(now, what)) - NEW_FIELDS == set(getattr(before, what)) & fields_of(part), what
    for metric in (one for one in part.metrics if one.name not in NEW_METRICS):
        for shown in get_args(Shows):
            assert now.is_shown(shown, metric.name) == before.is_shown(shown, metric.name), (shown, metric.name)
        beside = None if (kind, metric.name) in NOT_BESIDE_A_MODEL else before.neutral.get(metric.name)
        assert now.neutral.get(metric.name) == beside, metric.name
        if part.dimension == "model":
            assert now.headline.get(metric.name) == before.headline.get(metric.name), metric.name


def test_everything_that_can_be_shown_is_shown_by_some_check() -> None:
    every = [declaration_of(REGISTRY.check(kind)) for kind in KINDS]
    assert {what for what in get_args(Shows) if not any(one.is_shown(what) for one in every)} == set()


def spec(**fields: Any) -> dict[str, Any]:
    return {"model": [{"check": "theirs", "dataset": "test", "require": ["rate <= 1 %"], **fields}]}


def differs(declares: Declaration | None, before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    check = CheckRecord(id="theirs", check="theirs", dimension="model", status="measured", declares=declares)
    test = a_test("theirs", "rate")
    return unlike_settings(settings_of(spec(**before), check, test), settings_of(spec(**after), check, test))


@pytest.mark.parametrize("field", ["search", "report", "queries", "holdout", "scenario"])
def test_a_field_is_compared_unless_its_own_check_says_that_it_is_effort(field: str) -> None:
    assert differs(Declaration(), {field: 1}, {field: 2}) == (f"theirs.{field}: 1, then 2",)
    assert differs(Declaration(effort=(field,)), {field: 1}, {field: 2}) == ()


def test_a_record_that_declares_nothing_is_read_as_it_was() -> None:
    assert differs(None, {"search": 1}, {"search": 2}) == ()
    assert differs(None, {"holdout": 1}, {"holdout": 2}) == ("theirs.holdout: 1, then 2",)


def test_a_number_is_read_by_what_it_shows_and_not_by_its_name() -> None:
    shows: dict[Shows, tuple[str, ...]] = {"best batch": ("favourite",), "share of a stage": ("part",)}
    measured = {"favourite": 8.0, "part(resize)": 40.0, "part(model)": None, "best_batch": 2.0}
    check = recorded("throughput", measured=measured, declares=Declaration(metrics=shows))
    assert number_that_shows(check, "best batch") == 8.0
    assert dict(numbers_that_show(check, "share of a stage")) == {"part(resize)": 40.0}
    assert number_that_shows(check.model_copy(update={"declares": None}), "best batch") == 2.0


def test_what_only_sets_models_apart_names_the_other_one() -> None:
    record = records.ready()
    check = next(one for one in record.checks if one.baseline_models)
    test = a_test(check.id, "distance")
    beside = check.model_copy(update={"declares": Declaration(metrics={"only a difference of models": ("distance",)})})
    alone = check.model_copy(update={"declares": Declaration()})
    names = {f"model {name}" for name in check.baseline_models}
    assert names <= set(own_fields(record, beside, test)) and names.isdisjoint(own_fields(record, alone, test))


def test_the_score_that_its_check_puts_first_is_quoted() -> None:
    record = records.ready()
    latency = next(one for one in record.checks if one.id == "latency")
    theirs = {"measured": {"rouge": 0.5, "accuracy": 0.9}, "units": {}, "declares": Declaration(headline={"rouge": 1})}
    checks = tuple(one.model_copy(update=theirs) if one.id == "quality" else one for one in record.checks)
    said = claim_sentence(record.model_copy(update={"checks": checks}), latency, {})
    assert "rouge 0.5 (quality on test)" in said and "accuracy" not in said


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_says_itself_what_a_plan_took_from_its_name(kind: str) -> None:
    errors = dict.fromkeys(("ece", "ece_after_temperature", "classwise_ece", "rms_calibration"), "error")
    more = {"mce": "largest error", "ece_increase": "increase of an error"}
    laws = {"roc_auc": "area", "c2st_auc": "area", "f1": "harmonic mean", **errors, **more}
    for metric in REGISTRY.check(kind).metrics:
        assert metric.extreme == (metric.name.startswith("worst_") or metric.name.endswith("_gap")), metric.name
        assert metric.scales == laws.get(metric.name), metric.name
        assert bool(metric.instead) == metric.name.endswith("_mean"), metric.name
