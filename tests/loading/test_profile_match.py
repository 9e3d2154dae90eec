"""What of a spec answers an item of a profile, and what comes near and does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalspec.loading import LoadOptions, load
from evalspec.loading.summary import profile_lines
from tests.loading.test_profile import LATENCY, OWN, SPEC, TEAM, found, spec

LOAD = "system:\n  - {check: load, dataset: test, slo: latency_p99 <= 9 ms, rates: [9 qps], arrivals: {kind: %s}}"
COMPRESSION = "  - {check: compression, dataset: test, method: pruning, by: [a], %s}"
PAIRS = {
    "a check": (
        "{check: latency, why: w}",
        LATENCY % "report_only: true",
        LATENCY % "require: [latency_p50 <= 9 ms]",
    ),
    "a check that blocks": (
        "{check: latency, why: w}",
        LATENCY % "warn: [latency_p50 <= 9 ms]",
        LATENCY % "slo: latency_p99 <= 9 ms",
    ),
    "of the candidate": (
        "{check: latency, why: w}",
        LATENCY % "model: baseline, require: [latency_p50 <= 9 ms]",
        LATENCY % "model: candidate, require: [latency_p50 <= 9 ms]",
    ),
    "one of several": (
        "{any_of: [shift, leakage], name: latency, why: w}",
        "data:\n  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}",
        "data:\n  - {check: shift, id: latency, reference: test, current: traffic, require: [drifted_columns <= 9 %]}",
    ),
    "a metric": (
        "{check: latency, metrics: [latency_p95, latency_p99], why: w}",
        LATENCY % "require: [latency_p50 <= 9 ms], warn: [latency_p95 <= 9 ms]",
        LATENCY % "require: [latency_p95 <= 9 ms]",
    ),
    "a soft one": (
        "{check: latency, metrics: [latency_p95], soft: true, why: w}",
        LATENCY % "warn: [latency_p50 <= 9 ms]",
        LATENCY % "warn: [latency_p95 <= 9 ms]",
    ),
    "a field": (
        "{check: load, name: latency, with: {arrivals.kind: [gamma, trace]}, why: w}",
        LOAD % "poisson",
        (LOAD % "gamma, burstiness: 0.5").replace("check: load", "check: load, id: latency"),
    ),
    "a number": (
        "{check: latency, number: true, why: w}",
        LATENCY % "require: [latency_p50 <= 2x baseline]",
        LATENCY % "require: [latency_p50 <= 2x baseline, latency_p99 <= 9 ms]",
    ),
    "a baseline": (
        "{states: baseline, name: latency, why: w}",
        LATENCY % "require: [latency_p50 <= 9 ms]",
        LATENCY % "require: [latency_p50 <= 2x baseline]",
    ),
}


@pytest.mark.parametrize(("item", "red", "green"), PAIRS.values(), ids=PAIRS)
def test_each_kind_of_item_is_missing_where_it_must_be_and_found_in_its_twin(
    tmp_path: Path, item: str, red: str, green: str
) -> None:
    assert found(spec(tmp_path, item, red)) == {"quality": ("quality",), "latency": ()}
    assert found(spec(tmp_path, item, green)) == {"quality": ("quality",), "latency": ("latency",)}


NEAR = {
    "it only warns": (
        "{check: latency, why: w}",
        LATENCY % "warn: [latency_p50 <= 9 ms]",
        "latency is in the spec, but without such a requirement",
    ),
    "it is of another model": (
        "{check: latency, why: w}",
        LATENCY % "model: baseline, require: [latency_p50 <= 9 ms]",
        "latency is about the model baseline",
    ),
    "a field is otherwise": (
        "{check: load, name: latency, with: {arrivals.kind: [gamma, trace]}, why: w}",
        LOAD % "poisson",
        "load has arrivals.kind poisson",
    ),
    "rows that nothing is judged on": (
        "{any_of: [contamination, leakage], name: latency, why: w}",
        "data:\n  - {check: contamination, train: [train], test: traffic, require: [exact_duplicates == 0]}",
        "contamination is about traffic, and the model is judged on test",
    ),
    "rows that were trained on": (
        "{check: calibration, name: latency, why: w}",
        "  - {check: calibration, dataset: train, require: [ece <= 0.05]}\n"
        "data:\n  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}",
        "calibration is about train, which the model was trained on",
    ),
    "labels that were trained on": (
        "{check: integrity, name: latency, why: w}",
        "data:\n  - {check: integrity, dataset: train, require: [duplicate_rows == 0]}\n"
        "  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}",
        "integrity is about train, which the model was trained on",
    ),
}


@pytest.mark.parametrize(("item", "checks", "reason"), NEAR.values(), ids=NEAR)
def test_what_comes_near_does_not_count_and_it_is_said_why(tmp_path: Path, item: str, checks: str, reason: str) -> None:
    one = spec(tmp_path, item, checks)
    assert one.profile is not None
    (missing,) = one.profile.missing
    assert (missing.name, missing.near) == ("latency", (reason,))
    assert f"  missing, so no run can be READY: latency: {missing.asks} ({reason}): w" in list(profile_lines(one))


def test_a_score_on_the_rows_of_training_is_no_score(tmp_path: Path) -> None:
    data = "data:\n  - {check: contamination, train: [%s], test: test, require: [exact_duplicates == 0]}"
    item = "{states: baseline, why: w}"
    quality = "  - {check: quality, id: more, dataset: test, require: [accuracy >= baseline - 2 pp]}\n"
    assert found(spec(tmp_path, item, quality + data % "train")) == {
        "quality": ("quality", "more"),
        "baseline": ("more",),
    }
    # The rows that everything is judged on are said to be those of training.
    swapped = (data % "test").replace("test: test", "test: train")
    assert found(spec(tmp_path, item, quality + swapped)) == {"quality": (), "baseline": ()}


def test_compression_compares_by_itself_and_a_rollback_is_a_key(tmp_path: Path) -> None:
    item = "{states: baseline, why: w}"
    assert found(spec(tmp_path, item))["baseline"] == ()
    assert found(spec(tmp_path, item, COMPRESSION % "require: [worst_slice_drop <= 2 pp, slices_too_small == 0]"))[
        "baseline"
    ] == ("compression",)
    item = "{states: rollback, why: w}"
    assert found(spec(tmp_path, item))["rollback"] == ()
    assert found(spec(tmp_path, item, more="rollback: [{when: accuracy < 80 %}]"))["rollback"] == ("rollback",)


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        ("", ()),
        ("precision: fp16", ("precision",)),
        ("precision: int8", ()),
        ("precision: int8, quantization: {method: static}", ()),
        ("precision: int8, quantization: {method: static, calibration: train}", ("precision", "quantization")),
        ("precision: int8, quantization: {method: dynamic}", ("precision", "quantization")),
        ("precision: mixed", ()),
        ("precision: mixed, quantization: {method: amp}", ("precision", "quantization")),
    ],
)
def test_how_a_coarse_model_was_quantized_has_to_be_stated(tmp_path: Path, model: str, answer: tuple[str, ...]) -> None:
    (tmp_path / "team.yaml").write_text(TEAM.format(item="{states: quantization, why: w}"))
    text = SPEC.format(checks="", more="").replace(
        "path: m.onnx,", f"path: m.onnx, {model}," if model else "path: m.onnx,"
    )
    (tmp_path / "s.yaml").write_text(text)
    assert found(load(tmp_path / "s.yaml", options=LoadOptions(files=False), registry=OWN))["quantization"] == answer


def test_what_readers_said_may_be_of_rows_of_their_own(tmp_path: Path) -> None:
    item = "{check: agreement, why: w}"
    checks = "data:\n  - {check: agreement, dataset: traffic, raters: [a, b], require: [alpha >= 0.8]}"
    assert found(spec(tmp_path, item, checks))["agreement"] == ("agreement",)


def test_a_slice_that_others_are_held_against_is_no_dataset(tmp_path: Path) -> None:
    asked = "require: [accuracy_disparity <= 5 pp, slices_too_small == 0]"
    checks = f"  - {{check: slices, dataset: test, by: [site], reference: 'site=north', {asked}}}"
    assert found(spec(tmp_path, "{check: slices, why: w}", checks))["slices"] == ("slices",)
