"""`compression`: gained and lost in one table, each kind with its mandatory part, and the front of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.checks.model.compression.divergence import divergences, logit_distances, logits
from evalspec.checks.model.compression.measure import measure
from evalspec.checks.model.compression.show import front
from evalspec.checks.model.compression.spec import Compression, uncalibrated
from evalspec.checks.model.quality.spec import Quality
from evalspec.evidence.blocks import Bars, Examples, Intervals, Table
from evalspec.evidence.estimate import ComparisonParts, Estimate, Fact, Measured
from evalspec.language.inputs import Predictions, Probe, Samples, Schedule
from evalspec.language.names import SpecNames
from evalspec.language.parts import CheckResult, NeedTiming
from evalspec.scoring.scored_rows import Scored, Undefined, scored
from tests.checks.deciding import outcome, the
from tests.checks.model.compression.planted import of_language
from tests.checks.planting import confident
from tests.checks.system.probed import Row, operators_of
from tests.fakes import FakeInputs, classifier, regressor, samples, tagger


def check(*require: str, **fields: Any) -> Compression:
    given = {"method": "pruning", "speed": False, "report_only": not require} | fields
    return Compression.model_validate({"check": "compression", "dataset": "test", "require": list(require)} | given)


def inputs_of(folder: Path, truth: np.ndarray, *said: Predictions, **fields: Any) -> FakeInputs:
    given: dict[str, Any] = {
        "facts": {one.model: {"size_bytes": 1000 * (1 + at)} for at, one in enumerate(said)},
        "tables": {"test": pa.table({"x": np.arange(len(truth)), "label": truth})},
    } | fields
    return FakeInputs(
        evidence=folder, labels={"test": "label"}, answers={("test", one.model): one for one in said}, **given
    )


def told(right: np.ndarray, truth: np.ndarray, model: str, classes: int = 7, sure: float = 0.9) -> Predictions:
    return classifier(confident(truth, right, classes, sure), truth, model=model)


def value(result: CheckResult, metric: str) -> float:
    found = result.estimates[metric]
    inner = found.estimate if isinstance(found, Measured) else found
    assert isinstance(inner, Estimate | Fact)
    assert inner.value is not None
    return inner.value


ROWS = np.arange(2000)
TRUTH = ROWS % 7


def test_points_lost_are_the_test_that_quality_makes(tmp_path: Path) -> None:
    """Both count once in the family, so both must say the same."""
    rng = np.random.default_rng(0)
    said = [told(rng.random(2000) < share, TRUTH, name) for name, share in (("candidate", 0.9), ("baseline", 0.93))]
    inputs = inputs_of(tmp_path, TRUTH, *said)
    sentences = {"accuracy_drop": "accuracy", "top_5_drop": "top_k_accuracy(5)"}
    drops = check().run(inputs)
    asked = [f"{metric} >= baseline - 2 pp" for metric in sentences.values()]
    compared = Quality.model_validate({"check": "quality", "dataset": "test", "require": asked}).run(inputs)
    whole = compared.comparisons[("accuracy", "baseline")]
    by_k = compared.comparisons[("top_k_accuracy", "baseline")]
    assert not isinstance(whole, ComparisonParts) and isinstance(by_k, ComparisonParts)
    for drop, better in (("accuracy_drop", whole), ("top_5_drop", by_k.parts["5"])):
        lost = drops.estimates[drop]
        assert isinstance(lost, Estimate)
        kept = better.difference(1.0, -0.02)
        assert kept.p_value(-0.02, "lower") == pytest.approx(lost.p_value(0.02, "upper"), rel=1e-9), drop
        assert kept.p_value(-0.02, "upper") == pytest.approx(lost.p_value(0.02, "lower"), rel=1e-9), drop


def test_every_loss(tmp_path: Path) -> None:
    """4 % right before only, 1 % right after only, 2 % wrong in another way."""
    before = ROWS % 100 >= 10
    after = (before & (ROWS % 100 < 96)) | (ROWS % 100 == 0)
    shares = confident(TRUTH, after, 7)
    other = np.isin(ROWS % 100, [1, 2])
    shares[other] = np.roll(shares[other], 1, axis=1)
    result = check().run(
        inputs_of(tmp_path, TRUTH, classifier(shares, TRUTH, model="candidate"), told(before, TRUTH, "baseline"))
    )
    assert value(result, "accuracy_drop") == pytest.approx(0.03)
    assert value(result, "break_rate") == pytest.approx(0.04)
    assert value(result, "flip_rate") == pytest.approx(0.07)
    assert value(result, "size_ratio") == 2.0
    flips = next(block for block in result.blocks if block.title == "Flips by direction")
    assert isinstance(flips, Table)
    assert [row[1] for row in flips.rows] == [80, 20, 40, 140]
    table = result.blocks[0]
    assert isinstance(table, Table)
    assert "Exact McNemar" in table.caption
    examples = result.blocks[-1]
    assert isinstance(examples, Examples)
    assert examples.total == 100
    assert examples.examples[0].fields["baseline"] == examples.examples[0].fields["true"]


def test_rows_are_not_shown_where_they_are_private(tmp_path: Path) -> None:
    sides = told(ROWS % 9 > 0, TRUTH, "candidate"), told(ROWS % 10 > 0, TRUTH, "baseline")
    shown = check(show_examples=False).run(inputs_of(tmp_path, TRUTH, *sides))
    assert not any(isinstance(block, Examples) for block in shown.blocks)


def test_a_loss_in_one_slice_only(tmp_path: Path) -> None:
    dark = ROWS % 10 == 0
    before = np.ones(len(ROWS), dtype=bool)
    after = ~(dark & (ROWS % 50 == 0))
    inputs = inputs_of(
        tmp_path,
        TRUTH,
        told(after, TRUTH, "candidate"),
        told(before, TRUTH, "baseline"),
        slices={("dark", "test"): dark},
    )
    asked = check("worst_slice_drop <= 5 pp", "accuracy_drop <= 5 pp", by=["dark"])
    result = asked.run(inputs)
    assert value(result, "worst_slice_drop") == pytest.approx(0.2)
    assert [outcome(result, one) for one in asked.require] == ["FAIL", "PASS"]
    assert any(isinstance(block, Intervals) for block in result.blocks)


def test_surer_than_it_is_right(tmp_path: Path) -> None:
    right = ROWS % 10 > 0
    inputs = inputs_of(
        tmp_path, TRUTH, told(right, TRUTH, "candidate", sure=0.999), told(right, TRUTH, "baseline", sure=0.9)
    )
    asked = check("accuracy_drop <= 2 pp", "ece_increase <= 0.05", method="quantization")
    result = asked.run(inputs)
    assert [outcome(result, one) for one in asked.require] == ["PASS", "FAIL"]


def test_divergence_is_scipys(tmp_path: Path) -> None:
    from scipy.stats import entropy

    draw = np.random.default_rng(1)
    p, q = draw.dirichlet(np.ones(4), 300), draw.dirichlet(np.ones(4), 300)
    q[0], p[1] = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
    truth = np.arange(300) % 4
    inputs = inputs_of(tmp_path, truth, classifier(q, truth, model="candidate"), classifier(p, truth, model="baseline"))
    each = divergences(scored(inputs, "test", "candidate"), scored(inputs, "test", "baseline")).each
    assert np.isfinite(each).all()
    assert each[1:] == pytest.approx(np.array([entropy(a, b) for a, b in zip(p, q, strict=True)])[1:], rel=1e-6)


def test_values(tmp_path: Path) -> None:
    truth = np.linspace(0, 10, 500)
    wave = np.sin(np.arange(500))
    sides = regressor(truth + 2 * wave, truth), regressor(truth + wave, truth, model="baseline")
    inputs = FakeInputs(
        evidence=tmp_path, tables={"test": pa.table({"y": truth})}, labels={"test": "y"},
        answers={("test", one.model): one for one in sides},
    )  # fmt: skip
    result = check(method="distillation").run(inputs)
    assert value(result, "mae_increase") == pytest.approx(np.abs(wave).mean())
    assert value(result, "output_divergence") == pytest.approx(np.abs(wave).mean() / distance(truth + wave))
    assert set(result.missing) >= {"accuracy_drop", "ece_increase", "flip_rate", "worst_slice_drop", "speedup"}


def timed(ms: dict[str, float]) -> Any:
    def pairs(schedule: Schedule, baseline: str) -> tuple[list[Samples], list[Samples]]:
        draw = np.random.default_rng(5)

        def side(model: str) -> list[Samples]:
            return [
                samples(
                    ms[model] * np.exp(0.05 * draw.standard_normal(200)), process=k, model=model,
                    block=np.repeat([0, 3] if model == "candidate" else [1, 2], 100),
                )
                for k in range(schedule.processes)
            ]  # fmt: skip

        return side("candidate"), side(baseline)

    return pairs


def test_speed_and_the_front(tmp_path: Path) -> None:
    right = {"candidate": ROWS % 25 > 0, "half": ROWS % 30 > 0, "bad": ROWS % 5 > 0, "baseline": ROWS % 32 > 0}
    inputs = inputs_of(
        tmp_path, TRUTH, *(told(hits, TRUTH, model) for model, hits in right.items()),
        pairs=timed({"candidate": 1.0, "half": 2.0, "bad": 1.5, "baseline": 3.0}),
        facts={
            name: {"size_bytes": size}
            for name, size in (("candidate", 25), ("half", 50), ("bad", 60), ("baseline", 100))
        },
    )  # fmt: skip
    asked = check(candidates=["half", "bad"], speed=True)
    result = asked.run(inputs)
    assert value(result, "speedup") == pytest.approx(3.0, rel=0.05)
    table = next(block for block in result.blocks if block.title == "Candidates")
    assert isinstance(table, Table)
    assert [(row[0], row[4]) for row in table.rows] == [
        ("baseline", "yes"), ("candidate", "yes"), ("half", "yes"), ("bad", "no"),
    ]  # fmt: skip
    assert table.rows[2][2] == pytest.approx(1.5, rel=0.1)


def test_the_front() -> None:
    assert front([(1.0, 1.0, 0.0), (4.0, 3.0, 0.01), (3.0, 2.0, 0.02), (4.0, None, 0.0)]) == [False, False, False, True]
    assert front([(1.0, 1.0, 0.0), (1.0, 1.0, 0.0)]) == [True, True]
    assert front([(None, None, None)]) == [True]


def test_tensors(tmp_path: Path) -> None:
    probe = Probe(
        "tensor_noise", "candidate", 0, {}, {"signal_to_noise_db": np.array([30.0, 12.0])}, {"names": ("one", "two")}
    )
    sides = told(ROWS % 9 > 0, TRUTH, "candidate"), told(ROWS % 10 > 0, TRUTH, "baseline")
    result = check(float_model="fp32.onnx").run(inputs_of(tmp_path, TRUTH, *sides, probes={"tensor_noise": [probe]}))
    bars = next(block for block in result.blocks if isinstance(block, Bars))
    assert [bar.label for bar in bars.bars] == ["two", "one"]
    without = check(float_model="fp32.onnx").run(inputs_of(tmp_path, TRUTH, *sides))
    assert any("no signal-to-noise ratio of tensors" in note for note in without.notes)


@pytest.mark.parametrize(
    ("method", "require", "lacking"),
    [
        ("quantization", ["accuracy_drop <= 2 pp"], "ece_increase"),
        ("pruning", ["accuracy_drop <= 2 pp"], "worst_slice_drop"),
        ("distillation", ["flip_rate <= 5 %"], "accuracy_drop and ece_increase"),
    ],
)
def test_each_kind_of_compression_has_its_mandatory_part(method: str, require: list[str], lacking: str) -> None:
    with pytest.raises(ValidationError, match=f"method {method} needs a requirement on {lacking}"):
        check(*require, method=method, by=["dark"])


def test_what_means_nothing() -> None:
    with pytest.raises(ValidationError, match="compared with itself"):
        check(baseline="candidate")
    asked = check("worst_slice_drop <= 5 pp", "speedup >= 2x", "accuracy_drop <= baseline")
    problems = [asked.check_requirement(one, {}) for one in asked.require]
    assert "needs `by:`" in str(problems[0])
    assert "speed: false" in str(problems[1])
    assert "is against `baseline:` already" in str(problems[2])
    small = check("worst_slice_drop <= 5 pp", by=["site"])
    assert "add `slices_too_small == 0`" in str(small.check_names(SpecNames((), (), ())))


def test_calibration_data_are_named() -> None:
    assert "the spec does not say how int8 was quantized" in str(uncalibrated("int8", {}, "test"))
    assert "which rows int8 was calibrated" in str(uncalibrated("int8", {"method": "static"}, "test"))
    assert "test can't judge it" in str(uncalibrated("int8", {"method": "static", "calibration": "test"}, "test"))
    assert uncalibrated("int8", {"method": "static", "calibration": "train"}, "test") is None
    assert uncalibrated("int8", {"method": "dynamic"}, "test") is None
    asked = check("ece_increase <= 0.05", method="quantization")
    names = SpecNames(("candidate",), ("test",), (), quantization={"candidate": {"method": "static"}})
    assert "was calibrated" in str(asked.check_names(names))
    assert check("worst_slice_drop <= 5 pp", by=["dark"]).check_names(SpecNames((), (), ("dark",))) is None


def test_the_plan_knows_the_pairs() -> None:
    asked = check(speed=True, candidates=["half"])
    timings = [need for need in asked.needs() if isinstance(need, NeedTiming)]
    assert [need.model for need in timings] == ["candidate", "half", "baseline"]
    assert not [need for need in check().needs() if isinstance(need, NeedTiming)]
    assert asked.baselines == ("baseline", "half")


def test_worked_table(tmp_path: Path) -> None:
    """Top-1 71.8 to 70.9 of 50,000: holds `- 1 pp` at a discordance of 1.2 %, and is not decided at 6 %."""
    n = 50_000
    truth = np.zeros(n, dtype=np.int64)

    def both(discordance: float) -> FakeInputs:
        lost, won = round(n * (discordance + 0.009) / 2), round(n * (discordance - 0.009) / 2)
        before = np.arange(n) < round(0.718 * n)
        after = before.copy()
        after[:lost] = False
        after[-won:] = True
        return inputs_of(tmp_path, truth, told(after, truth, "candidate", 2), told(before, truth, "baseline", 2))

    asked = check("accuracy_drop <= 1 pp", "ece_increase <= 0.05", method="quantization")
    for discordance, word in ((0.012, "PASS"), (0.06, "INCONCLUSIVE")):
        result = asked.run(both(discordance))
        assert value(result, "accuracy_drop") == pytest.approx(0.009)
        assert outcome(result, the(asked, "accuracy_drop <= 1 pp")) == word


def distance(points: np.ndarray) -> float:
    """Mean distance of rows from their mean."""
    apart = (points - points.mean(axis=0)).reshape(len(points), -1)
    return float(np.sqrt((apart**2).sum(axis=1)).mean())


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def of_scores(folder: Path, ours: np.ndarray, theirs: np.ndarray) -> tuple[Scored, Scored]:
    truth = theirs.argmax(axis=1)
    sides = [classifier(softmax(one), truth, model=name) for one, name in ((ours, "candidate"), (theirs, "baseline"))]
    inputs = inputs_of(folder, truth, *sides)
    return scored(inputs, "test", "candidate"), scored(inputs, "test", "baseline")


def test_distance_before_softmax_is_that_of_the_scores_themselves(tmp_path: Path) -> None:
    """Whatever all classes have more: probabilities tell the rest."""
    draw = np.random.default_rng(2)
    theirs = 5.0 * draw.standard_normal((300, 4))
    moved = draw.standard_normal((300, 4))
    centred, off = (one - one.mean(axis=1, keepdims=True) for one in (theirs, moved))
    spread = distance(centred)
    rows = of_scores(tmp_path, theirs + moved + draw.standard_normal((300, 1)), theirs)
    assert logit_distances(*rows).each == pytest.approx(np.sqrt((off**2).sum(axis=1)) / spread, rel=1e-9)
    assert logits(rows[1]) == pytest.approx(centred, abs=1e-9)
    truth = theirs.argmax(axis=1)
    found = check().run(inputs_of(tmp_path, truth, *(classifier(one.shares(), truth, model=one.model)
                                                     for one in rows)))  # fmt: skip
    assert value(found, "logit_distance") == pytest.approx(logit_distances(*rows).each.mean())
    tails = next(block for block in found.blocks if block.title == "Distance before softmax")
    assert isinstance(tails, Table)
    assert tails.rows[0][5] == pytest.approx(logit_distances(*rows).each.max())


def test_of_two_classes_it_is_the_distance_of_the_log_odds(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    theirs = 10.0 * draw.standard_normal(400)
    ours = theirs + draw.standard_normal(400)
    zero = np.zeros(400)
    rows = of_scores(tmp_path, np.stack([zero, ours], axis=1), np.stack([zero, theirs], axis=1))
    assert logit_distances(*rows).each == pytest.approx(np.abs(ours - theirs) / distance(theirs), rel=1e-9)


def test_a_temperature_moves_no_answer_and_is_seen(tmp_path: Path) -> None:
    scores = 4.0 * np.random.default_rng(4).standard_normal((500, 5))
    truth = scores.argmax(axis=1)
    sides = (
        classifier(softmax(one), truth, model=name) for one, name in ((scores / 2, "candidate"), (scores, "baseline"))
    )
    found = check().run(inputs_of(tmp_path, truth, *sides))
    assert value(found, "flip_rate") == 0.0
    assert 0.4 < value(found, "logit_distance") < 0.6


def test_a_score_whose_probability_is_nothing_is_not_known(tmp_path: Path) -> None:
    shares = np.full((400, 4), 0.25)
    forest = np.where(np.arange(4) == 0, 0.0, 1 / 3) * np.ones((400, 1))
    truth = np.arange(400) % 4
    mixed = np.where((np.arange(400) < 3)[:, None], forest, shares)
    told = classifier(mixed, truth, model="candidate"), classifier(shares, truth, model="baseline")
    found = check().run(inputs_of(tmp_path, truth, *told))
    assert "3 of 400 rows of candidate have a probability of 0" in found.missing["logit_distance"]
    alike = classifier(shares, truth, model="candidate"), classifier(shares, truth, model="baseline")
    assert "answers every row alike" in check().run(inputs_of(tmp_path, truth, *alike)).missing["logit_distance"]
    labels = tagger(np.eye(4)[truth] > 0, np.eye(4)[truth] > 0)
    with pytest.raises(Undefined, match="labels without probabilities"):
        logits(scored(FakeInputs(tmp_path, answers={("test", "candidate"): labels}), "test", "candidate"))


def test_any_number_of_classes_a_row(tmp_path: Path) -> None:
    """A row is right where all of its classes are; distances are of the log-odds of each."""
    draw = np.random.default_rng(5)
    truth = draw.random((1500, 3)) < 0.4
    theirs = np.where(truth, 3.0, -3.0) + draw.standard_normal((1500, 3))
    ours = theirs.copy()
    ours[:90, 0] *= -1.0
    odds = {"candidate": ours, "baseline": theirs}
    said = {name: tagger(one >= 0, truth, probabilities=1 / (1 + np.exp(-one)), model=name)
            for name, one in odds.items()}  # fmt: skip
    inputs = FakeInputs(
        tmp_path, labels={"test": "tags"}, answers={("test", name): one for name, one in said.items()},
        tables={"test": pa.table({"x": np.arange(1500), "tags": [["a"]] * 1500})},
    )  # fmt: skip
    found = check(method="distillation").run(inputs)
    before, after = ((one >= 0) == truth for one in (theirs, ours))
    assert value(found, "accuracy_drop") == pytest.approx(before.all(axis=1).mean() - after.all(axis=1).mean())
    assert value(found, "flip_rate") == pytest.approx(90 / 1500)
    spread = distance(theirs)
    assert value(found, "logit_distance") == pytest.approx((2 * np.abs(theirs[:90, 0])).sum() / spread / 1500)
    p, q = (1 / (1 + np.exp(-one)) for one in (theirs, ours))
    each = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum(axis=1)
    assert value(found, "output_divergence") == pytest.approx(each.mean(), rel=1e-6)
    assert "any number of classes" in found.missing["top_5_drop"]
    ece = found.estimates["ece_increase"]
    assert isinstance(ece, Estimate) and ece.n == 4500
    examples = found.blocks[-1]
    assert isinstance(examples, Examples)
    assert set(examples.examples[0].fields["true"].split(", ")) <= {"0", "1", "2", "none"}  # type: ignore[union-attr]


def looked_at(folder: Path, models: dict[str, list[Row]], **fields: Any) -> CheckResult:
    sides = told(ROWS % 9 > 0, TRUTH, "candidate"), told(ROWS % 10 > 0, TRUTH, "baseline")
    facts: dict[str, Any] = {name: {"device": "cuda:0", "size_bytes": 1} for name in ("candidate", "baseline")}
    return check(**fields).run(inputs_of(folder, TRUTH, *sides, probes=operators_of(models), facts=facts))


def row(name: str, kind: str, place: str = "cuda:0") -> Row:
    return (name, kind, place, "float32", "float32", "float32", 1e6)


CONVOLUTIONS = [row("one", "Conv"), row("two", "Conv"), row("act", "Relu"), row("last", "Gemm")]


def test_operators_that_fell_back_and_that_were_left_out(tmp_path: Path) -> None:
    int8 = [row("one", "QLinearConv"), row("q", "QuantizeLinear", "cpu"), row("last", "QGemm")]
    found = looked_at(tmp_path, {"candidate": int8, "baseline": CONVOLUTIONS})
    assert value(found, "operator_coverage") == pytest.approx(2 / 3)
    assert value(found, "operators_lost") == 1.0
    assert any("1 of 3 operators of candidate did not run on cuda:0: QuantizeLinear" in note for note in found.notes)
    blocks = {block.title: block for block in found.blocks}
    places, kinds = blocks["Where operators ran"], blocks["Operators lost and gained"]
    assert isinstance(places, Table) and isinstance(kinds, Table)
    assert [one[:4] for one in places.rows] == [("candidate", "cuda:0", 3, 2), ("baseline", "cuda:0", 4, 4)]
    assert ("Conv", 2, 0, -2) in kinds.rows and ("QLinearConv", 0, 1, 1) in kinds.rows
    assert "Operators of candidate that did not run on cuda:0" in blocks
    verdict = found.blocks[0]
    assert isinstance(verdict, Table)
    assert ("operators that run on the device asked for", "%", pytest.approx(200 / 3)) in [r[:3] for r in verdict.rows]


def test_operators_of_two_frameworks_are_counted_by_what_they_do(tmp_path: Path) -> None:
    torch = [row("0", "aten.convolution"), row("1", "aten.convolution"), row("2", "aten.relu"), row("3", "aten.addmm")]
    found = looked_at(tmp_path, {"candidate": CONVOLUTIONS, "baseline": torch})
    assert value(found, "operators_lost") == 0.0
    attention = [row("0", "aten._scaled_dot_product_flash_attention"), row("1", "aten.mm")]
    products = [row("0", "MatMul"), row("1", "MatMul"), row("2", "MatMul")]
    assert value(looked_at(tmp_path, {"candidate": products, "baseline": attention}), "operators_lost") == 0.0
    assert value(looked_at(tmp_path, {"candidate": products[:2], "baseline": attention}), "operators_lost") == 1.0
    recurrent = looked_at(tmp_path, {"candidate": [row("0", "LSTM")], "baseline": torch})
    assert "write recurrent layers differently, so" in recurrent.missing["operators_lost"]


def test_where_operators_can_not_be_seen_or_counted(tmp_path: Path) -> None:
    alone = looked_at(tmp_path, {"candidate": CONVOLUTIONS})
    assert value(alone, "operator_coverage") == 1.0
    assert alone.missing["operators_lost"].startswith("baseline: the operators of baseline can't be seen")
    neither = looked_at(tmp_path, {"baseline": CONVOLUTIONS})
    assert {"operator_coverage", "operators_lost"} <= set(neither.missing)
    trees = [row("0", "TreeEnsembleClassifier")]
    assert "could be lost" in looked_at(tmp_path, {"candidate": trees, "baseline": trees}).missing["operators_lost"]
    off = looked_at(tmp_path, {"candidate": CONVOLUTIONS, "baseline": CONVOLUTIONS}, operators=False)
    assert "`operators: false`" in off.missing["operator_coverage"]
    asked = check("operators_lost == 0", "worst_slice_drop <= 5 pp", by=["dark"], operators=False)
    assert "operators: false" in str(asked.check_requirement(asked.require[0], {}))


def test_perplexities_of_two_tokenizers_and_without_texts_are_no_ratio(tmp_path: Path) -> None:
    inputs, check = of_language(tmp_path, other_tokens=True)
    assert "as other tokens" in measure(check, inputs).missing["perplexity_ratio"]
    bare = check.model_copy(update={"heldout": None})
    assert measure(bare, inputs).missing["perplexity_ratio"] == "the check names no `heldout:`"
    requirement = next(one for one in check.requirements if one.metric == "perplexity_ratio")
    assert "needs `heldout:`" in str(bare.check_requirement(requirement, {}))
    assert "add documents" in str(check.check_requirement(requirement, {"heldout": 20}))
    assert list(check.paired_by_token()) == [(requirement, "baseline")]


def test_the_ratio_of_perplexities_is_that_of_sums_by_token(tmp_path: Path) -> None:
    inputs, check = of_language(tmp_path, lost=0.05)
    found = measure(check, inputs).estimates["perplexity_ratio"]
    assert isinstance(found, Estimate) and found.value == pytest.approx(np.exp(0.05), rel=3e-3)
    low, high = (found.bound(0.95, side) for side in ("lower", "upper"))
    assert low is not None and high is not None and low < np.exp(0.05) < high < 1.06
