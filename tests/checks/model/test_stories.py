"""Stories of models that looked good and were not: each told twice, red for its reason, and green in a clean twin.

The red instance passes every other sentence of the same checks: what hides the defect holds in both.

Not told here, with what they wait for: F20 (time to accuracy of a training run), F21 (throughput over a number of
devices), F27 (a rule that a release needs requirements of every dimension), F38 (several seeds of one training),
F39 (grounding and safety of what a language model writes), F40 (several judges and templates of one comparison),
F42 (a table of several machines). Told in part: F22 on the stages of an answer and not on the loop of a training, F28
with the confidence as a logged column and not against an exported baseline, F37 without a warning that the limit of a
promise is about another statistic. Conditions that no row has, the age of the data and what is left under a ceiling
(F2, F7, F9, F23, F25, F26, F27, F41, F49) are told beside the checks of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.checks.data.shift.spec import Shift
from evalspec.checks.model.calibration.spec import Calibration
from evalspec.checks.model.compression.spec import Compression
from evalspec.checks.model.generalization.spec import Generalization
from evalspec.checks.model.quality.spec import Quality
from evalspec.checks.model.robustness.spec import Robustness
from evalspec.checks.model.slices.spec import Slices
from evalspec.checks.system.energy.spec import Energy
from evalspec.checks.system.latency.spec import Latency
from evalspec.checks.system.stages.spec import Stages
from evalspec.errors import InvalidError
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.language.inputs import Predictions, Samples, Schedule
from evalspec.language.parts import Check, CheckResult
from evalspec.language.requirement import Requirement
from tests.checks.deciding import Outcome, outcome, the
from tests.checks.model.mobilenet import mobilenet
from tests.checks.planting import confident
from tests.checks.system.probed import stages
from tests.fakes import FakeInputs, classifier, samples, writer
from tests.meters import Machine

Told = list[tuple[FakeInputs, Check]]

KINDS: dict[str, type[Check]] = {
    one.model_fields["check"].default: one
    for one in (
        Calibration, Compression, Contamination, Energy, Generalization, Latency, Quality, Robustness, Shift, Slices,
        Stages,
    )
}  # fmt: skip
ROWS = np.arange(10_000)


@dataclass(frozen=True)
class Story:
    """One of them.

    Args:
        name: Its name and what happens.
        tell: From a folder, and whether the defect is there, to inputs and checks.
        red: Sentence that is violated: its value with the defect, and without.
        word: What becomes of these sentences.
        within: Of the values, absolute.
    """

    name: str
    tell: Callable[[Path, bool], Told]
    red: Mapping[str, tuple[float, float]]
    word: Outcome = "FAIL"
    within: float = 1e-9


def ask(kind: str, *require: str, **fields: Any) -> Check:
    """A check that asks this; of the test rows, where it is about one dataset."""
    given: dict[str, Any] = {"check": kind, "require": list(require)}
    if "dataset" in KINDS[kind].model_fields:
        given["dataset"] = "test"
    return KINDS[kind].model_validate(given | fields)


def spread(share: float, where: np.ndarray | None = None) -> np.ndarray:
    """So many of the rows, exactly, and evenly over whatever they are ordered by; or of those in a slice."""
    inside = np.ones(len(ROWS), dtype=bool) if where is None else where
    rank, size = np.cumsum(inside) - 1, int(inside.sum())
    return inside & ((rank * 7919) % size < round(share * size))


def said(right: np.ndarray, model: str = "candidate", sure: float = 0.96, classes: int = 2, **of: Any) -> Predictions:
    """A model that is right on these rows, and as sure of each."""
    truth = np.arange(len(right)) % classes
    return classifier(confident(truth, right, classes, sure), truth, model=model, **of)


def inputs_of(folder: Path, *answers: Predictions, **fields: Any) -> FakeInputs:
    """What models said of the rows of datasets."""
    given: dict[str, Any] = {
        "tables": {one.dataset: pa.table({"row": np.arange(one.n), "label": one.truth}) for one in answers},
        "labels": dict.fromkeys((one.dataset for one in answers), "label"),
        "answers": {(one.dataset, one.model): one for one in answers},
    }
    return FakeInputs(evidence=folder, **(given | fields))


def clock(ms: Mapping[str, float], waiting: float = 0.0) -> Callable[[str, Schedule], list[Samples]]:
    """Models that take about so long; a share of the queries waits 490 ms more."""
    draw = np.random.default_rng(2)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        count = max(200, schedule.queries) // 2 * 2
        blocks = np.repeat([0, 3] if model == "candidate" else [1, 2], count // 2)
        return [
            samples(ms[model] * draw.gamma(2500.0, 1 / 2500.0, count) + 490.0 * (draw.random(count) < waiting),
                    process=process, model=model, block=blocks)
            for process in range(schedule.processes)
        ]  # fmt: skip

    return make


def wide_beam(folder: Path, bad: bool) -> Told:
    """BLEU from 28 to 28.5, and from 50 to 200 ms."""
    draw = np.random.default_rng(8)
    truth, luck = draw.choice([f"word{i}" for i in range(200)], (2000, 10)), draw.random((2000, 10))
    wrote = [[" ".join(row) for row in np.where(luck < share, "oops", truth)] for share in (0.3955, 0.3995)]
    meant = [" ".join(row) for row in truth]
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"source": meant, "text": meant})}, labels={"test": "text"},
        answers={("test", name): writer(text, meant, model=name)
                 for name, text in zip(("candidate", "baseline"), wrote, strict=True)},
        samples=clock({"candidate": 200.0 if bad else 50.0, "baseline": 50.0}),
    )  # fmt: skip
    fast = ask("latency", "latency_p99 <= 100 ms", "latency_p50 <= 1.2x baseline", caching_audit=False)
    return [(inputs, ask("quality", "bleu >= baseline", metrics=["bleu"], show_examples=False)), (inputs, fast)]


def low_light(folder: Path, bad: bool) -> Told:
    """2 ms and 97 % on the test set; 12 % wrong in low light, which is one row in twenty there and half of traffic."""
    draw = np.random.default_rng(3)
    dark = ROWS % 20 == 0
    right = spread(0.88 if bad else 0.97, dark) | spread(0.98, ~dark)
    lux = {"test": np.where(dark, 5.0, 400.0), "traffic": np.where(ROWS % (2 if bad else 20) == 0, 5.0, 400.0)}
    tables = {name: pa.table({"lux": light + draw.random(len(ROWS)), "label": ROWS % 2}) for name, light in lux.items()}
    inputs = inputs_of(
        folder, said(right), tables=tables, labels=dict.fromkeys(tables, "label"), slices={("dark", "test"): dark},
        samples=clock({"candidate": 2.0}),
    )  # fmt: skip
    return [
        (inputs, ask("latency", "latency_p99 <= 5 ms", caching_audit=False)),
        (inputs, ask("quality", "accuracy >= 96 %")),
        (inputs, ask("slices", "accuracy(dark) >= 93 %", by=["dark"])),
        (inputs, ask("shift", "shift(lux) <= 0.1", reference="test", current="traffic")),
    ]


def int8(folder: Path, bad: bool) -> Told:
    """MobileNetV2's table: top-1 holds either way."""
    inputs = mobilenet(folder) if bad else mobilenet(folder, sure=0.74, edge_lost=22)
    return [
        (inputs, ask("quality", "accuracy >= baseline - 1 pp", show_examples=False)),
        (inputs, ask("calibration", "ece <= 0.05")),
        (inputs, ask("slices", "accuracy(edge) >= baseline - 2 pp", by=["edge"])),
        (inputs, ask("compression", "ece_increase <= 0.03", "worst_slice_drop <= 2 pp", "accuracy_drop <= 1 pp",
                     method="quantization", speed=False, by=["edge"], show_examples=False)),
    ]  # fmt: skip


def routed(folder: Path, bad: bool) -> Told:
    """Top-1 within 0.3 points; one row in five is no longer sure enough to be answered alone."""
    sure, truth = np.random.default_rng(6).uniform(0.6, 1.0, len(ROWS)), ROWS % 2
    answers = []
    for model, share, less in (("candidate", 0.847, 0.08 if bad else 0.002), ("baseline", 0.85, 0.0)):
        said_one = np.where(spread(share), truth, 1 - truth) == 1
        one = np.where(said_one, sure - less, 1 - sure + less)
        answers.append(classifier(np.stack([1 - one, one], axis=1), truth, model=model))
    inputs = inputs_of(folder, *answers)
    check = ask("calibration", "routing_change <= 5 %", threshold=0.85, baseline="baseline")
    return [(inputs, ask("quality", "accuracy >= baseline - 1 pp")), (inputs, check)]


def pruned(folder: Path, bad: bool) -> Told:
    """A tenth of the bytes; zeros that the device multiplies all the same."""
    inputs = inputs_of(
        folder, said(spread(0.949)), said(spread(0.95), "baseline"),
        facts={"candidate": {"size_bytes": 1_000_000}, "baseline": {"size_bytes": 10_000_000}},
        slices={("rare", "test"): ROWS % 5 == 0},
        samples=clock({"candidate": 10.0 if bad else 4.0, "baseline": 10.0}),
    )  # fmt: skip
    sentences = ("size_ratio >= 5x", "speedup >= 1.5x", "accuracy_drop <= 1 pp", "worst_slice_drop <= 2 pp")
    return [(inputs, ask("compression", *sentences, method="pruning", by=["rare"], show_examples=False))]


def starved(folder: Path, bad: bool) -> Told:
    """The accelerator works for 30 % of the time: it is the augmentation on the CPU that takes the rest."""
    times = {"augment": 11.0 if bad else 2.0, "inference": 5.0}
    check = ask("stages", "stage_share(augment) <= 50 %", "amdahl_ceiling(inference) >= 2x")
    inputs = FakeInputs(evidence=folder, probes=stages(times), samples=clock({"candidate": sum(times.values())}))
    return [(inputs, ask("latency", "latency_p99 <= 20 ms", caching_audit=False)), (inputs, check)]


def fraud(folder: Path, found: float) -> Told:
    """1 % fraud, of which so much is found; accuracy is 99 % and more."""
    truth = (ROWS % 100 == 0).astype(np.int64)
    right = spread(found, truth == 1) | (truth == 0)
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"label": truth})}, labels={"test": "label"},
        answers={("test", "candidate"): classifier(confident(truth, right, 2), truth, classes=("legitimate", "fraud"))},
    )  # fmt: skip
    sentences = ["accuracy >= 98.5 %", "recall(fraud) >= 75 %", "balanced_accuracy >= 85 %"]
    return [(inputs, ask("quality", *sentences))]


def subgroup(folder: Path, bad: bool) -> Told:
    """95 % for all; 60 % for those in two groups at once, who are 5 %."""
    dark, female = ROWS % 5 == 0, (ROWS // 5) % 4 == 0
    both = dark & female
    right = spread(0.6 if bad else 0.95, both) | spread((0.95 - 0.03) / 0.95 if bad else 0.95, ~both)
    skin, sex = np.where(dark, "darker", "lighter").tolist(), np.where(female, "female", "male").tolist()
    table = pa.table({"skin": skin, "sex": sex, "label": ROWS % 2})
    inputs = inputs_of(folder, said(right), tables={"test": table})
    sentences = [
        "accuracy(skin=darker) >= 85 %", "accuracy(sex=female) >= 85 %",
        "accuracy(skin=darker & sex=female) >= 85 %", "slices_too_small == 0",
    ]  # fmt: skip
    check = ask("slices", *sentences, by=["skin", "sex", {"cross": ["skin", "sex"]}], min_n=400)
    return [(inputs, ask("quality", "accuracy >= 94 %", show_examples=False)), (inputs, check)]


def hospitals(folder: Path, bad: bool) -> Told:
    """Sepsis: fitted and tested at A, used at B, whose patients are older."""
    draw = np.random.default_rng(5)
    ages = {"test": draw.normal(60, 12, len(ROWS)), "b": draw.normal(72 if bad else 60, 12, len(ROWS))}
    tables = {name: pa.table({"age": age, "label": ROWS % 2}) for name, age in ages.items()}
    inputs = inputs_of(
        folder, said(spread(0.92)), said(spread(0.74 if bad else 0.91), dataset="b"), tables=tables,
        origins={"test": {"hospital": "A"}, "b": {"hospital": "B"}},
    )  # fmt: skip
    return [
        (inputs, ask("quality", "accuracy >= 90 %", show_examples=False)),
        (inputs, ask("generalization", "ood_gap(b) <= 5 pp", inside="test", outside=["b"])),
        (inputs, ask("shift", "shift(age) <= 0.1", reference="test", current="b")),
    ]


def phones(folder: Path, bad: bool) -> Told:
    """Trained on professional pictures: each month's phone pictures are further from them, and noisier."""
    month = ROWS % 4 + 1
    lost = {1: 0.0, 2: 0.01, 3: 0.02, 4: 0.2 if bad else 0.02}
    right = np.any([spread(0.95 - less, month == one) for one, less in lost.items()], axis=0)
    pixels = np.where(np.arange(600)[:, None] % 2 == 1, 9.0, 7.0) * np.ones((600, 64))
    pictures = pa.table({"pixels": pixels.tolist(), "label": np.arange(600) % 2})
    seen = 1 if bad else 64

    def told(rows: pa.Table, dataset: str, model: str) -> Predictions:
        bright = np.array(rows["pixels"].to_pylist())[:, :seen].mean(axis=1) > 8
        return classifier(np.eye(2)[bright.astype(np.int64)] * 0.8 + 0.1, np.asarray(rows["label"]), dataset=dataset)

    answers = [said(spread(0.95)), said(right, dataset="phones"), told(pictures, "pictures", "candidate")]
    tables = {
        "test": pa.table({"row": ROWS, "label": ROWS % 2}),
        "phones": pa.table({"month": month, "label": ROWS % 2}), "pictures": pictures,
    }  # fmt: skip
    origins = {"test": {"source": "studio"}, "phones": {"source": "phones"}}
    inputs = inputs_of(folder, *answers, tables=tables, origins=origins, answering=told)
    months = [f"ood_gap(month={one}) <= 5 pp" for one in lost]
    noise = {"corruptions": ["gaussian_noise"], "severities": [5], "range": [0, 16], "dataset": "pictures"}
    return [
        (inputs, ask("generalization", *months, inside="test", outside=["phones"], by="month")),
        (inputs, ask("robustness", "worst_corruption_accuracy >= 90 %", show_examples=False, **noise)),
    ]


def silent(folder: Path, bad: bool) -> Told:
    """Inputs look as ever, no query fails, and the model is less sure of its answers than it was."""
    draw = np.random.default_rng(7)
    tables = {
        name: pa.table({"amount": draw.gamma(2.0, 50.0, len(ROWS)), "confidence": draw.beta(a, 2.0, len(ROWS))})
        for name, a in (("test", 12.0), ("traffic", 6.0 if bad else 12.0))
    }
    inputs = FakeInputs(evidence=folder, tables=tables)
    sentences = ("shift(amount) <= 0.1", "shift(confidence) <= 0.1")
    return [(inputs, ask("shift", *sentences, reference="test", current="traffic"))]


def leaderboard(folder: Path, bad: bool) -> Told:
    """12 to 8 ms by rounding harder, which no leaderboard's accuracy shows."""
    inputs = inputs_of(
        folder, said(spread(0.949), sure=0.999 if bad else 0.96), said(spread(0.95), "baseline"),
        samples=clock({"candidate": 8.0, "baseline": 12.0}),
    )  # fmt: skip
    sentences = ("accuracy_drop <= 1 pp", "ece_increase <= 0.02", "speedup >= 1.3x")
    return [
        (inputs, ask("latency", "latency_p99 <= 10 ms", caching_audit=False)),
        (inputs, ask("compression", *sentences, method="quantization", show_examples=False)),
    ]


def better_but(folder: Path, bad: bool) -> Told:
    """2.1 points more on the benchmark; 40 % more energy, and 25 points less outside."""
    machines = {"candidate": Machine(active_w=140.0 if bad else 100.0), "baseline": Machine(active_w=100.0, seed=1)}
    inputs = inputs_of(
        folder, said(spread(0.782)), said(spread(0.761), "baseline"),
        said(spread(0.532 if bad else 0.772), dataset="field"),
        origins={"test": {"source": "benchmark"}, "field": {"source": "field"}},
        samples=lambda model, schedule: machines[model](model, schedule),
    )  # fmt: skip
    return [
        (inputs, ask("quality", "accuracy >= baseline + 1 pp", show_examples=False)),
        (inputs, ask("energy", "energy_per_inference <= 1.1x baseline", boundary="package")),
        (inputs, ask("generalization", "ood_gap(field) <= 5 pp", inside="test", outside=["field"])),
    ]


def wrong_target(folder: Path, bad: bool) -> Told:
    """A mean known to a hundredth of a millisecond, where the promise is about the p99."""
    inputs = FakeInputs(evidence=folder, samples=clock({"candidate": 2.5}, 0.015 if bad else 0.0))
    mean = ["latency_mean <= 15 ms"]
    return [(inputs, ask("latency", "latency_p99 <= 100 ms", warn=mean, queries=10_000, caching_audit=False))]


def saturated(folder: Path, bad: bool) -> Told:
    """99.8 % against 99.79 % on a benchmark with 20 errors left, or 85 % against 80 % on one with room."""
    new, old = (0.998, 0.9979) if bad else (0.85, 0.80)
    inputs = inputs_of(folder, said(spread(new)), said(spread(old), "baseline"))
    return [(inputs, ask("quality", "accuracy > baseline", "accuracy >= 84 %", show_examples=False))]


def student(folder: Path, bad: bool) -> Told:
    """It says what its teacher says where it was taught; on fresh rows it is 12 points behind."""
    draw = np.random.default_rng(9)
    taught, rows = draw.random((600, 16)), {"test": draw.random((10_000, 16)), "fresh": draw.random((10_000, 16))}
    rows["test"][: 600 if bad else 0] = taught[: 600 if bad else 0]
    tables = {
        name: pa.table(
            {"signal": pa.FixedSizeListArray.from_arrays(signal.ravel(), 16), "label": np.arange(len(signal)) % 2}
        )
        for name, signal in {"taught": taught, **rows}.items()
    }
    inputs = inputs_of(
        folder, said(spread(0.949)), said(spread(0.95), "baseline"),
        said(spread(0.82 if bad else 0.935), dataset="fresh"), said(spread(0.94), "baseline", dataset="fresh"),
        tables=tables, labels=dict.fromkeys(tables, "label"),
    )  # fmt: skip
    agree = ask("compression", "flip_rate <= 1 %", "accuracy_drop <= 1 pp", "ece_increase <= 0.02",
                method="distillation", speed=False, show_examples=False)  # fmt: skip
    return [
        (inputs, agree),
        (inputs, ask("quality", "accuracy >= baseline - 2 pp", dataset="fresh", show_examples=False)),
        (inputs, ask("contamination", "exact_duplicates == 0", train=["taught"], test="test")),
    ]


STORIES = (
    Story("F1: a wide beam wins the leaderboard and takes four times as long", wide_beam,
          {"latency_p99 <= 100 ms": (209.5, 52.4), "latency_p50 <= 1.2x baseline": (200.0, 50.0)}, within=1.0),
    Story("F2: 12 % errors in low light", low_light,
          {"accuracy(dark) >= 93 %": (0.88, 0.97), "shift(lux) <= 0.1": (0.45, 0.0)}, within=0.02),
    Story("F3: top-1 holds, confidence and edge cases do not", int8,
          {"ece <= 0.05": (0.089, 0.031), "accuracy(edge) >= baseline - 2 pp": (0.614, 0.6732),
           "ece_increase <= 0.03": (0.058, 0.0), "worst_slice_drop <= 2 pp": (0.068, 0.0088)}, within=1e-6),
    Story("F4: one row in five is routed to a person", routed, {"routing_change <= 5 %": (0.2, 0.005)}, within=0.01),
    Story("F19: ten times smaller, and as slow as before", pruned, {"speedup >= 1.5x": (1.0, 2.5)}, within=0.02),
    Story("F22: the model is blamed for what augmentation takes", starved,
          {"stage_share(augment) <= 50 %": (0.6875, 0.2857), "amdahl_ceiling(inference) >= 2x": (1.4545, 3.5)},
          within=0.12),
    Story("F23: 99 % accurate, and finds one fraud in ten", lambda f, bad: fraud(f, 0.1 if bad else 0.9),
          {"recall(fraud) >= 75 %": (0.1, 0.9), "balanced_accuracy >= 85 %": (0.55, 0.95)}),
    Story("F23: 99 % accurate, and never says fraud", lambda f, bad: fraud(f, 0.0 if bad else 0.9),
          {"recall(fraud) >= 75 %": (0.0, 0.9), "balanced_accuracy >= 85 %": (0.5, 0.95)}),
    Story("F24: 60 % for a group inside two groups", subgroup,
          {"accuracy(skin=darker & sex=female) >= 85 %": (0.6, 0.95)}, within=1e-3),
    Story("F25: another hospital", hospitals,
          {"ood_gap(b) <= 5 pp": (0.18, 0.01), "shift(age) <= 0.1": (0.383, 0.01)}, within=0.02),
    Story("F26: worse with every month's phones", phones,
          {"ood_gap(month=4) <= 5 pp": (0.2, 0.02), "worst_corruption_accuracy >= 90 %": (0.6, 1.0)}, within=0.05),
    Story("F28: less sure, and nobody looks", silent, {"shift(confidence) <= 0.1": (0.35, 0.01)}, within=0.02),
    Story("F29: 12 to 8 ms, and no longer calibrated", leaderboard,
          {"ece_increase <= 0.02": (0.039, 0.0)}, within=2e-3),
    Story("F30: better on the benchmark only", better_but,
          {"energy_per_inference <= 1.1x baseline": (1.4, 1.0), "ood_gap(field) <= 5 pp": (0.25, 0.01)}, within=0.03),
    Story("F37: a sure answer to another question", wrong_target,
          {"latency_p99 <= 100 ms": (492.5, 2.62)}, within=1.0),
    Story("F41: progress on a benchmark that has no room", saturated,
          {"accuracy > baseline": (0.998, 0.85)}, word="INCONCLUSIVE"),
    Story("F50: a student that learned the answers", student,
          {"accuracy >= baseline - 2 pp": (0.82, 0.935), "exact_duplicates == 0": (600.0, 0.0)}),
)  # fmt: skip


def value(result: CheckResult, requirement: Requirement) -> float:
    """Of the candidate, what a requirement is about."""
    found = result.estimates[requirement.metric]
    if isinstance(found, Measured):
        found = found.estimate
    if isinstance(found, Parts):
        found = found.whole if requirement.part is None else found.parts[requirement.part]  # type: ignore[assignment]
    if isinstance(found, Measured):
        found = found.estimate
    assert isinstance(found, Estimate | Fact)
    assert found.value is not None
    return found.value


@pytest.mark.proof
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("bad", [True, False], ids=["red", "green"])
def test_a_story(story: Story, bad: bool, tmp_path: Path) -> None:
    words: dict[str, Outcome] = {}
    values: dict[str, float] = {}
    for inputs, check in story.tell(tmp_path, bad):
        result = check.run(inputs)
        for one in check.requirements:
            words[one.sentence] = outcome(result, one)
            if one.sentence in story.red:
                values[one.sentence] = value(result, one)
    assert words == {sentence: story.word if bad and sentence in story.red else "PASS" for sentence in words}
    expected = {sentence: both[0 if bad else 1] for sentence, both in story.red.items()}
    assert values == pytest.approx(expected, abs=story.within)
    assert set(words) - set(story.red), "something must look good in both"


def test_a_holdout_of_the_same_hospital_shows_nothing(tmp_path: Path) -> None:
    """F25: what is no evidence of another place is not taken for it, however good it looks."""
    inputs, check = hospitals(tmp_path, False)[1]
    assert outcome(check.run(inputs), the(check, "ood_gap(b) <= 5 pp")) == "PASS"
    inputs.origins = {name: {"hospital": "A"} for name in ("test", "b")}
    with pytest.raises(InvalidError, match="same origin"):
        check.run(inputs)


def test_an_answer_that_never_looks_stands_beside_the_accuracy(tmp_path: Path) -> None:
    """F23: 99 % accuracy is what never saying fraud gives, and the verdict is told so."""
    for found, sentences in ((0.0, 1), (0.9, 0)):
        inputs, check = fraud(tmp_path, found)[0]
        weakens = check.run(inputs).weakens
        assert ["always the most frequent class" in line for line in weakens] == [True] * sentences
