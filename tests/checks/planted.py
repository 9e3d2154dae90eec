"""For each kind of check: clean inputs that it passes, and the same with a defect that it must fail.

Whoever adds a check adds a row (or more) to `PLANTED`; `test_contract.py` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.data.agreement import Agreement
from evalspec.checks.data.contamination import Contamination
from evalspec.checks.data.integrity import Integrity
from evalspec.checks.data.labels import Labels
from evalspec.checks.data.shift import Shift
from evalspec.checks.model.calibration import Calibration
from evalspec.checks.model.compression import Compression
from evalspec.checks.model.evaluate import Evaluate
from evalspec.checks.model.generalization import Generalization
from evalspec.checks.model.quality import Quality
from evalspec.checks.model.robustness import Robustness
from evalspec.checks.model.slices import Slices
from evalspec.checks.system.cold_start import ColdStart
from evalspec.checks.system.energy import Energy
from evalspec.checks.system.latency import Latency
from evalspec.checks.system.load import Load
from evalspec.checks.system.memory import Memory
from evalspec.checks.system.recovery import Recovery
from evalspec.checks.system.sustained import Sustained
from evalspec.checks.system.throughput import Throughput
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Boxes, Inputs, Predictions, Probe, Samples, Schedule
from evalspec.language.parts import Check
from tests.checks.data.leaks import paraphrased, photographed, rekeyed, remembered
from tests.checks.data.visits import benchmark, crossing, hospital
from tests.checks.system.bottlenecks import neighbours, operators, parsed, under_the_roof
from tests.checks.system.probed import Row, operators_of
from tests.checks.system.queueing import exponential, served
from tests.fakes import FakeInputs, boxed, classifier, painter, regressor, samples, tagger, writer
from tests.meters import Machine, telemetry, times_of, with_meter

Case = tuple[Inputs, Check]


@dataclass(frozen=True)
class Planted:
    """One defect.

    Args:
        kind: Kind of the check.
        metric: What the requirement is about.
        sentence: A requirement of both checks: holds on the clean inputs, is violated on the planted ones.
        clean: From a folder for evidence to inputs and check.
        planted: The same with the defect.
        small: From a folder and a number of rows (queries), 0 included, to the clean case cut down to so many.
        what: The defect.
    """

    kind: str
    metric: str
    sentence: str
    clean: Callable[[Path], Case]
    planted: Callable[[Path], Case]
    small: Callable[[Path, int], Case]
    what: str

    @property
    def name(self) -> str:
        """Its id in pytest."""
        return f"{self.kind}: {self.what}"


def confident(truth: np.ndarray, right: np.ndarray, classes: int, sure: float = 0.9) -> np.ndarray:
    """Probabilities, shape (n, C), of a model that says the true class where ``right``, else the next one."""
    said = np.where(right, truth, (truth + 1) % classes)
    shares = np.full((len(truth), classes), (1 - sure) / (classes - 1))
    shares[np.arange(len(truth)), said] = sure
    return shares


COST = """
import datasets
import evaluate


class Cost(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        pairs = zip(predictions, references)
        total = sum((5.0 if truth == 1 else 1.0) for said, truth in pairs if said != truth)
        return {"cost": float(total / len(references))}
"""


def _cost(folder: Path, found: float, rows: int = 4000) -> Case:
    """A missed fraud costs 5, a false alarm 1: a module of the team's own."""
    (folder / "cost.py").write_text(COST)
    inputs, _ = _fraud(folder, found, rows)
    check = {"check": "evaluate", "dataset": "test", "modules": {"cost": "cost.py"}, "require": ["score(cost) <= 0.1"]}
    return inputs, Evaluate.model_validate(check)


def _elsewhere(folder: Path, share: float, rows: int = 3000) -> Case:
    """95 % right at home, and a share of the rows right elsewhere."""
    truth = np.arange(rows) % 2
    right = {"test": 0.95, "field": share}
    inputs = FakeInputs(
        evidence=folder,
        tables={name: pa.table({"x": np.arange(rows), "label": truth}) for name in right},
        labels=dict.fromkeys(right, "label"),
        origins={name: {"site": name} for name in right},
        answers={
            (name, "candidate"): classifier(confident(truth, np.arange(rows) < good * rows, 2), truth, dataset=name)
            for name, good in right.items()
        },
    )
    check = {"check": "generalization", "inside": "test", "outside": ["field"], "require": ["ood_gap <= 5 pp"]}
    return inputs, Generalization.model_validate(check)


def _compressed(folder: Path, lost: float, rows: int = 4000) -> Case:
    """A copy that loses a share of the rows, all of them in the dark; one row in ten is dark."""
    truth = np.arange(rows) % 4
    dark = np.arange(rows) % 10 == 0
    before = np.arange(rows) % 25 != 3
    after = before & ~(dark & (np.arange(rows) % 100 < 1000 * lost))
    sure = [confident(truth, right, 4, 0.96) for right in (after, before)]
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"x": np.arange(rows), "dark": dark, "label": truth})},
        labels={"test": "label"},
        slices={("dark", "test"): dark},
        facts={"candidate": {"size_bytes": 250_000}, "baseline": {"size_bytes": 1_000_000}},
        answers={
            ("test", model): classifier(shares, truth, model=model)
            for model, shares in zip(("candidate", "baseline"), sure, strict=True)
        },
    )
    check = {
        "check": "compression", "dataset": "test", "method": "pruning", "by": ["dark"], "speed": False,
        "require": ["worst_slice_drop <= 5 pp", "accuracy_drop <= 3 pp"],
    }  # fmt: skip
    return inputs, Compression.model_validate(check)


def _smaller(folder: Path, *, moved: float = 0.05, layers: int = 4, place: str = "cuda:0", rows: int = 1000) -> Case:
    """A copy of a network of four layers that answers alike: its scores moved, a layer left out, or one fell back."""
    rng = np.random.default_rng(9)
    scores = 6.0 * np.eye(4)[np.arange(rows) % 4] + rng.standard_normal((rows, 4))
    other = scores + moved * rng.standard_normal((rows, 4)) + 4.0 * moved * (scores > 3.0)

    def told(logits: np.ndarray, model: str) -> Predictions:
        return classifier(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), np.arange(rows) % 4, model=model)

    def written(count: int, last: str) -> list[Row]:
        places = ["cuda:0"] * (count - 1) + [last]
        return [(f"conv{i}", "Conv", where, "float32", "float32", "float32", 1e6) for i, where in enumerate(places)]

    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"x": np.arange(rows), "label": np.arange(rows) % 4})},
        labels={"test": "label"},
        facts={name: {"device": "cuda:0"} for name in ("candidate", "baseline")},
        answers={("test", name): told(one, name) for name, one in (("candidate", other), ("baseline", scores))},
        probes=operators_of({"candidate": written(layers, place), "baseline": written(4, "cuda:0")}),
    )
    check = {
        "check": "compression", "dataset": "test", "method": "distillation", "speed": False,
        "require": ["accuracy_drop <= 5 pp", "ece_increase <= 0.2", "logit_distance <= 0.1",
                    "operator_coverage == 100 %", "operators_lost == 0"],
    }  # fmt: skip
    return inputs, Compression.model_validate(check)


def _noisy(folder: Path, pixels: int, rows: int = 600) -> Case:
    """Bright or dark pictures, judged by so many of their 64 pixels: noise averages out over many."""
    truth = np.arange(rows) % 2
    table = pa.table(
        {"pixels": np.repeat(np.where(truth == 1, 9.0, 7.0)[:, None], 64, axis=1).tolist(), "label": truth}
    )

    def told(asked: pa.Table, dataset: str, model: str) -> Predictions:
        seen = np.array(asked["pixels"].to_pylist(), dtype=np.float64).reshape(len(asked), 64)
        bright = (seen[:, :pixels].mean(axis=1) > 8).astype(np.int64) if len(asked) else np.zeros(0, dtype=np.int64)
        return classifier(np.eye(2)[bright] * 0.8 + 0.1, np.asarray(asked["label"]), model=model)

    inputs = FakeInputs(
        evidence=folder, tables={"test": table}, labels={"test": "label"}, answering=told,
        answers={("test", "candidate"): told(table, "test", "candidate")},
    )  # fmt: skip
    check = {
        "check": "robustness", "dataset": "test", "corruptions": ["gaussian_noise"], "severities": [5],
        "range": [0, 16], "require": ["worst_corruption_accuracy >= 90 %"],
    }  # fmt: skip
    return inputs, Robustness.model_validate(check)


def _answered(folder: Path, wrong: float, rows: int = 600) -> Case:
    """Questions with an answer of four words, some of which the model gets wrong."""
    rng = np.random.default_rng(8)
    words = np.array(["red", "green", "blue", "old", "new", "big", "house", "tree", "river", "road"])
    truth = rng.choice(words, (rows, 4))
    said = np.where(rng.random((rows, 4)) < wrong, np.roll(truth, 1, axis=0) if rows else truth, truth)
    texts = [[" ".join(line) for line in lines.tolist()] for lines in (said, truth)]
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"question": [f"what is {row}?" for row in range(rows)], "answer": texts[1]})},
        labels={"test": "answer"},
        answers={("test", "candidate"): writer(texts[0], texts[1])},
    )
    require = ["exact_match >= 88 %", "token_f1 >= 85 %", "bleu >= 70"]
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": require})


def _tagged(folder: Path, found: float, rows: int = 1200) -> Case:
    """Pages with any of three tags; of the rare one the model finds a share."""
    rng = np.random.default_rng(8)
    truth = rng.random((rows, 3)) < (0.5, 0.4, 0.15)
    missed = (rng.random((rows, 3)) > (0.95, 0.95, found)) & truth
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"page": np.arange(rows), "tags": [["a"]] * rows})},
        labels={"test": "tags"},
        answers={("test", "candidate"): tagger(truth & ~missed, truth, classes=("news", "sport", "law"))},
    )
    require = ["micro_f1 >= 90 %", "recall(law) >= 80 %"]
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": require})


def _streets(folder: Path, moved: float, rows: int = 400) -> Case:
    """Pictures with cars and dogs, found at their place or beside it."""
    rng = np.random.default_rng(8)
    row = np.repeat(np.arange(rows), 2)
    corner = rng.uniform(0, 400, (len(row), 2))
    place = np.concatenate([corner, corner + rng.uniform(40, 60, corner.shape)], axis=1)
    kind = rng.integers(0, 2, len(row))
    off = np.tile(rng.normal(1.0, 0.3, (len(row), 1)) * moved, (1, 4))
    seen = rng.random(len(row)) < 0.95
    said = Boxes(row[seen], (place + off)[seen], kind[seen], rng.random(int(seen.sum())))
    answers = boxed(said, Boxes(row, place, kind), rows, classes=("car", "dog"))
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"name": np.arange(rows), "boxes": [""] * rows})},
        labels={"test": "boxes"}, answers={("test", "candidate"): answers},
    )  # fmt: skip
    check = {"check": "quality", "dataset": "test", "require": ["map_75 >= 60 %", "map_50 >= 60 %"]}
    return inputs, Quality.model_validate(check)


def _roads(folder: Path, missed: float, rows: int = 300) -> Case:
    """Pictures of road with a few pixels of people, of which the model misses a share."""
    rng = np.random.default_rng(8)
    truth = (rng.random((rows, 8, 8)) < 0.05).astype(np.int64)
    said = np.where(rng.random(truth.shape) < missed, 0, truth)
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"name": np.arange(rows), "mask": [""] * rows})},
        labels={"test": "mask"}, answers={("test", "candidate"): painter(said, truth, classes=("road", "person"))},
    )  # fmt: skip
    require = ["iou(person) >= 70 %", "pixel_accuracy >= 90 %"]
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": require})


def _searched(folder: Path, noise: float, rows: int = 5000) -> Case:
    """500 searches of ten results, one of which is relevant."""
    rng = np.random.default_rng(8)
    query = np.arange(rows) // 10
    truth = (np.arange(rows) % 10 == query % 10).astype(np.float64)
    answers = regressor(truth + noise * rng.normal(size=rows), truth)
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"search": query, "clicked": truth})}, labels={"test": "clicked"},
        answers={("test", "candidate"): answers},
    )  # fmt: skip
    require = ["ndcg(5) >= 80 %", "mrr >= 80 %", "hit_rate(1) >= 70 %"]
    check = {"check": "quality", "dataset": "test", "query": "search", "require": require}
    return inputs, Quality.model_validate(check)


def _fraud(folder: Path, found: float, rows: int = 4000) -> Case:
    """5 % fraud, of which the model finds a share; its accuracy is above 95 % either way."""
    truth = (np.arange(rows) % 20 == 0).astype(np.int64)
    order = np.cumsum(truth) - 1
    right = np.where(truth == 1, order < found * truth.sum(), True)
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"amount": np.arange(rows), "label": truth})},
        labels={"test": "label"},
        answers={("test", "candidate"): classifier(confident(truth, right, 2), truth, classes=("legitimate", "fraud"))},
    )
    check = Quality.model_validate(
        {"check": "quality", "dataset": "test", "require": ["accuracy >= 90 %", "recall(fraud) >= 80 %"]}
    )
    return inputs, check


def _minutes(folder: Path, bias: float, rows: int = 1000) -> Case:
    """Waiting times in minutes, with a constant error beside the noise."""
    rng = np.random.default_rng(5)
    truth = rng.gamma(4.0, 5.0, rows)
    values = truth + rng.normal(0.0, 2.0, rows) + bias
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"load": rng.random(rows), "wait": truth})},
        labels={"test": "wait"},
        answers={("test", "candidate"): regressor(values, truth, label_unit="min")},
    )
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": ["mae <= 3"]})


def _dark(folder: Path, right_in_dark: float, rows: int = 4000) -> Case:
    """95 % right overall; in the dark, one row in ten, as right as asked."""
    number = np.arange(rows)
    dark = number % 10 == 0
    truth = (number // 10) % 3
    share = np.where(dark, right_in_dark, (0.95 - 0.1 * right_in_dark) / 0.9)
    # A row is right when its rank inside its group is below the share: exact counts, spread over classes.
    rank = np.where(dark, number // 10, number - number // 10)
    size = np.where(dark, max(1, int(dark.sum())), max(1, int((~dark).sum())))
    right = ((rank * 37) % size) < share * size
    inputs = FakeInputs(
        evidence=folder,
        tables={
            "test": pa.table(
                {"lux": np.where(dark, 5, 500), "site": np.array(["lab", "field"])[number % 2], "label": truth}
            )
        },
        labels={"test": "label"},
        answers={("test", "candidate"): classifier(confident(truth, right, 3), truth)},
        slices={("dark", "test"): dark},
    )
    check = Slices.model_validate(
        {
            "check": "slices", "dataset": "test", "by": ["dark", "site"], "min_n": 60,
            "require": ["worst_accuracy >= 85 %", "accuracy(dark) >= 85 %", "slices_too_small == 0"],
        }
    )  # fmt: skip
    return inputs, check


def _sites(folder: Path, fields: Mapping[str, object], bad: Mapping[str, float], rows: int = 24_000) -> Case:
    """95 % right, but for rows of some site, of some users (three in ten), or where it is dark at the west site."""
    rng = np.random.default_rng(12)
    site, user = rng.choice(["north", "south", "west"], rows), rng.integers(0, 60, rows)
    lux, truth = rng.gamma(2.0, 100.0, rows), rng.integers(0, 2, rows)
    worse = {"south": site == "south", "users": user < 18, "dark west": (site == "west") & (lux < 110)}
    share = np.full(rows, 0.95)
    for what, right in bad.items():
        share = np.where(worse[what], right, share)
    right = rng.random(rows) < share
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"site": site, "user": user, "lux": lux, "label": truth})},
        labels={"test": "label"},
        answers={("test", "candidate"): classifier(confident(truth, right, 2), truth)},
    )
    return inputs, Slices.model_validate({"check": "slices", "dataset": "test", **fields})


def _disparate(folder: Path, south: float, rows: int = 24_000) -> Case:
    """A site against the site it is held against."""
    sentences = ["accuracy_disparity(site=south) <= 5 pp", "slices_too_small == 0"]
    fields = {"by": ["site"], "reference": "site=north", "require": sentences}
    return _sites(folder, fields, {"south": south}, rows)


def _users(folder: Path, some: float, rows: int = 24_000) -> Case:
    """Some users are served worse than the rest."""
    return _sites(folder, {"groups": "user", "require": ["accuracy_p10 >= 85 %"]}, {"users": some}, rows)


def _hidden(folder: Path, dark_west: float, rows: int = 24_000) -> Case:
    """A corner that nobody named."""
    fields = {"discover": {"columns": ["site", "lux", "user"]}, "require": ["weak_slices <= 0"]}
    return _sites(folder, fields, {"dark west": dark_west}, rows)


def _confidence(folder: Path, sharper: float, rows: int = 2500) -> Case:
    """A calibrated model of five classes, or one whose logits are multiplied; beside the calibrated one."""
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 1.5, (rows, 5))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (rng.random(rows)[:, None] > true.cumsum(axis=1)).sum(axis=1)
    said = np.exp(sharper * logits)
    answers = {
        ("test", "candidate"): classifier(said / said.sum(axis=1, keepdims=True), truth),
        ("test", "baseline"): classifier(true, truth, model="baseline"),
    }
    check = Calibration.model_validate(
        {
            "check": "calibration", "dataset": "test", "threshold": 0.85, "baseline": "baseline",
            "require": [
                "ece <= 0.05", "rms_calibration <= 0.06", "classwise_ece <= 0.04",
                "routing_change <= 5 %",
            ],
        }
    )  # fmt: skip
    return FakeInputs(evidence=folder, tables={"test": pa.table({"label": truth})}, answers=answers), check


def _leak(folder: Path, copied: int, blur: float, rows: int = 600) -> Case:
    """Pictures of noise; some of the test set stand in the training set, as they are or a little changed."""
    rng = np.random.default_rng(4)
    train, test = rng.random((600, 64)), rng.random((rows, 64))
    test[:copied] = np.clip(train[:copied] + blur * rng.normal(size=(copied, 64)), 0, 1)
    tables = {
        name: pa.table({"pixels": pa.FixedSizeListArray.from_arrays(pixels.ravel(), 64), "y": np.zeros(len(pixels))})
        for name, pixels in (("train", train), ("test", test))
    }
    inputs = FakeInputs(evidence=folder, tables=tables, labels={"train": "y", "test": "y"})
    check = Contamination.model_validate(
        {
            "check": "contamination", "train": ["train"], "test": "test",
            "require": ["exact_duplicates == 0", "near_duplicates <= 0.5 %"],
        }
    )  # fmt: skip
    return inputs, check


def _quoted(folder: Path, quoted: int, rows: int = 200) -> Case:
    """Texts of 40 words; some of the test set are quoted, by 20 words, in the middle of longer training texts."""
    rng = np.random.default_rng(14)
    train, test = (rng.integers(100_000, 999_999, (count, 40)).tolist() for count in (200, rows))
    for row in range(quoted):
        train[row] = [*train[row][:25], *test[row][10:30], *train[row][25:]]
    tables = {
        name: pa.table({"text": pa.array([" ".join(map(str, words)) for words in texts], pa.string())})
        for name, texts in (("train", train), ("test", test))
    }
    check = Contamination.model_validate(
        {"check": "contamination", "train": ["train"], "test": "test", "require": ["ngram_overlap <= 1 %"]}
    )
    return FakeInputs(evidence=folder, tables=tables), check


def _records(folder: Path, metres: int, empty: int, twice: int, rows: int = 800) -> Case:
    """Heights in centimetres; some may be metres, some missing, some rows copied."""
    rng = np.random.default_rng(5)
    height = np.round(rng.normal(172, 8, rows), 1)
    height[:metres] /= 100
    table = pa.table({"id": np.arange(rows), "height": pa.array(height, mask=np.arange(rows) >= rows - empty)})
    table = pa.concat_tables([table, table.slice(0, twice)])
    check = Integrity.model_validate(
        {
            "check": "integrity", "dataset": "test", "table_schema": {"height": {"min": 40, "max": 250}},
            "require": ["schema_violations == 0", "missing_rate(height) <= 1 %", "duplicate_rows == 0"],
        }
    )  # fmt: skip
    return FakeInputs(evidence=folder, tables={"test": table}), check


def _traffic(folder: Path, darker: float, rows: int = 3000) -> Case:
    """Two samples of three columns; in one of them the light may have changed."""
    rng = np.random.default_rng(9)
    tables = {
        name: pa.table(
            {
                "lux": rng.normal(100 - by, 30, rows),
                "age": rng.normal(40, 10, rows),
                "site": rng.choice(["north", "south"], rows),
                "digit": rng.integers(0, 10, rows),
            }
        )
        for name, by in (("test", 0.0), ("traffic", darker))
    }
    inputs = FakeInputs(evidence=folder, tables=tables, labels={"test": "digit", "traffic": "digit"})
    check = Shift.model_validate(
        {
            "check": "shift", "reference": "test", "current": "traffic",
            "require": ["drifted_columns <= 10 %", "c2st_auc <= 0.60"],
        }
    )  # fmt: skip
    return inputs, check


def _audited(folder: Path, anywhere: float, in_snow: float, rows: int = 2000) -> Case:
    """Wolves and dogs; one row in five is in snow. Half of the rows were looked at, and some labels are wrong."""
    rng = np.random.default_rng(6)
    number = np.arange(rows)
    wolf, snow = number % 2 == 0, number % 5 == 0
    truth = np.where(wolf, "wolf", "dog")
    swapped = (rng.random(rows) < anywhere) | (snow & wolf & (rng.random(rows) < in_snow))
    given = np.where(wolf == swapped, "dog", "wolf")
    table = pa.table(
        {
            "size": rng.normal(np.where(wolf, 2.0, -2.0), 1.0),
            "snow": snow,
            "label": given,
            "looked": pa.array(truth, mask=rng.random(rows) < 0.5),
        }
    )
    inputs = FakeInputs(
        evidence=folder, tables={"test": table}, labels={"test": "label"}, slices={("snow", "test"): snow}
    )
    check = Labels.model_validate(
        {
            "check": "labels", "dataset": "test", "audited": "looked", "features": ["size"], "by": ["snow"],
            "require": ["label_error_rate <= 5 %", "label_error_concentration <= 5x"],
            "warn": ["estimated_label_errors <= 6 %"],
        }
    )  # fmt: skip
    return inputs, check


def _rated(folder: Path, careful: float, rows: int = 400) -> Case:
    """Three people say which of four kinds a row is; where they are not careful they guess."""
    rng = np.random.default_rng(8)
    kind = rng.integers(0, 4, rows)
    said = np.where(rng.random((3, rows)) < careful, kind, rng.integers(0, 4, (3, rows)))
    table = pa.table({name: said[place] for place, name in enumerate(("anna", "ben", "chidi"))})
    inputs = FakeInputs(evidence=folder, tables={"test": table})
    check = Agreement.model_validate(
        {
            "check": "agreement", "dataset": "test", "raters": ["anna", "ben", "chidi"],
            "require": ["kappa >= 0.7", "alpha >= 0.7"],
        }
    )  # fmt: skip
    return inputs, check


def _darkened(folder: Path, dark: float, camera: float = 0.0, rows: int = 1200) -> Case:
    """Two samples with a model's answers and embeddings: in the dark it is less sure, and less often right."""
    tables, answers = {}, {}
    for seed, (name, by, new) in enumerate((("test", 0.0, 0.0), ("traffic", dark, camera))):
        rng = np.random.default_rng(seed)
        lux, truth = rng.normal(-by, 1.0, rows), rng.integers(0, 2, rows)
        sure = 0.6 + 0.39 / (1.0 + np.exp(-2.0 * (lux + 1.0)))
        maker = np.where(rng.random(rows) < new, "new", rng.choice(["north", "south"], rows))
        said = classifier(confident(truth, rng.random(rows) < sure, 2), truth, dataset=name)
        shares = np.where(np.equal.outer(said.predicted, [0, 1]), sure[:, None], 1.0 - sure[:, None])
        embeddings = np.stack((lux + 0.3 * rng.normal(size=rows), *rng.normal(size=(3, rows))), axis=1)
        tables[name] = pa.table({"lux": lux, "camera": maker, "label": truth})
        answers[name, "candidate"] = replace(said, probabilities=shares, embeddings=embeddings.astype(np.float32))
    inputs = FakeInputs(evidence=folder, tables=tables, labels=dict.fromkeys(tables, "label"), answers=answers)
    check = {
        "check": "shift", "reference": "test", "current": "traffic", "predictions": "candidate",
        "embedding": "candidate",
        "require": [
            "unseen_categories <= 5 %", "prediction_shift(confidence) <= 0.1", "reweighted_score_change <= 4 pp",
            "embedding_shift <= 0.65",
        ],
    }  # fmt: skip
    return inputs, Shift.model_validate(check)


def _queries(folder: Path, slow: float, queries: int | None = None) -> Case:
    """Latencies about 2 ms; a share of them waits 20 ms more."""
    rng = np.random.default_rng(2)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        count = schedule.queries if queries is None else queries
        made = []
        for process in range(schedule.processes):
            spent = rng.gamma(50.0, 0.04, count) + 20.0 * (rng.random(count) < slow)
            made.append(samples(spent, process=process, model=model))
        return made

    check = Latency.model_validate({"check": "latency", "dataset": "test", "require": ["latency_p99 <= 5 ms"]})
    return FakeInputs(evidence=folder, samples=make), check


def _batches(folder: Path, ms: float, batches: int | None = None) -> Case:
    """Batches back to back, so many milliseconds an item."""
    rng = np.random.default_rng(6)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        count = max(schedule.queries, 50) if batches is None else batches
        made = []
        for process in range(schedule.processes):
            spent = schedule.batch * ms * rng.normal(1.0, 0.02) * rng.gamma(400.0, 1 / 400.0, count)
            made.append(samples(spent, process=process, model=model, batch=schedule.batch))
        return made

    check = Throughput.model_validate(
        {"check": "throughput", "dataset": "test", "batch_sizes": [8], "require": ["throughput >= 500 samples/s"]}
    )
    return FakeInputs(evidence=folder, samples=make), check


def _traffic_on_a_server(folder: Path, service_ms: float, failing: float = 0.0, queries: int | None = None) -> Case:
    """Poisson arrivals at one server with exponential service times; a share of queries fails."""
    rng = np.random.default_rng(8)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        if queries is not None:
            assert schedule.arrivals_ns is not None
            schedule = replace(schedule, arrivals_ns=schedule.arrivals_ns[:queries])
        if queries == 0:
            return []
        count = len(schedule.arrivals_ns) if schedule.arrivals_ns is not None else 0
        return [served(schedule, exponential(service_ms), rng, fails=rng.random(count) < failing, model=model)]

    check = Load.model_validate(
        {
            "check": "load", "dataset": "test", "rates": ["100 qps", "400 qps"], "queries": 30_000, "search": False,
            "arrivals": {"spike": {"factor": 2, "duration": "30 s"}}, "caching_audit": False,
            "slo": "latency_p99 <= 20 ms",
            "require": [
                "max_rate >= 400 qps", "goodput(400 qps) >= 390 qps", "error_rate <= 1 %",
                "spike_factor(400 qps) <= 8 x",
                "latency_p50(400 qps) <= 5 ms",
            ],
        }
    )  # fmt: skip
    return FakeInputs(evidence=folder, samples=make), check


def _starts(folder: Path, load_s: float, count: int | None = None) -> Case:
    """Fresh processes that load the model in about so many seconds."""
    rng = np.random.default_rng(8)
    processes = 20 if count is not None else 10

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        made = []
        for process in range(processes if count is None else min(count, processes - 1)):
            spent_s = load_s * float(np.exp(0.05 * rng.standard_normal()))
            facts: dict[str, Cell] = {"start_s": 0.2, "import_s": 0.4, "load_s": spent_s, "first_inference_ms": 30.0}
            series = {"inference_ms": np.array([30.0, *[2.0] * 20])}
            made.append(Probe(probe=probe, model=model, process=process, facts=facts, series=series))
        return made

    check = ColdStart.model_validate(
        {"check": "cold_start", "dataset": "test", "processes": processes, "require": ["load_time <= 1 s"]}
    )
    return FakeInputs(evidence=folder, probes=make), check


def _resident(folder: Path, each_mib: float, processes: int = 1) -> Case:
    """Processes that need 100 MiB, and so many more for each item of a batch."""

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        peak = 100.0 + each_mib * float(options["batch"] or 0)
        facts: dict[str, Cell] = {"start_s": 0.2, "import_s": 0.4, "load_s": 0.5, "peak_host_mib": peak}
        return [Probe(probe=probe, model=model, process=index, facts=facts) for index in range(min(processes, 1))]

    check = Memory.model_validate(
        {"check": "memory", "dataset": "test", "batch_sizes": [1, 32], "require": ["peak_host_memory <= 512 MiB"]}
    )
    return FakeInputs(evidence=folder, probes=make), check


def _long(folder: Path, slower: float, batches: int | None = None) -> Case:
    """30 s of batches; from the 20th second on each may take longer, and the device says that it throttles."""
    rng = np.random.default_rng(10)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = []
        for process in range(schedule.processes):
            spent = np.full(2000, 10.0 * np.exp(0.01 * rng.standard_normal())) * rng.gamma(400.0, 1 / 400.0, 2000)
            spent = np.concatenate((spent, slower * rng.permutation(spent)[: round(1000 / slower)]))[:batches]
            one = samples(spent, process=process, model=model, batch=schedule.batch)
            events = np.maximum(0.0, times_of(30.0, 0.5) - 20.0) * (slower > 1)
            made.append(with_meter(one, telemetry(0.0, 30.0, counter=None, every_s=0.5,
                                                  more={"cpu_throttle_count": events})))  # fmt: skip
        return made

    check = Sustained.model_validate(
        {"check": "sustained", "dataset": "test", "require": ["sustained_ratio >= 0.9x", "throttled == 0"]}
    )
    return FakeInputs(evidence=folder, samples=make), check


def _metered(folder: Path, watts: float, batches: int | None = None) -> Case:
    """A machine that draws so much, at 100 items a second."""
    check = Energy.model_validate(
        {"check": "energy", "dataset": "test", "boundary": "package", "require": ["energy_per_inference <= 1.2 J"]}
    )
    return FakeInputs(evidence=folder, samples=Machine(active_w=watts, batches=batches)), check


def _kills(folder: Path, away_s: float, kills: int | None = None) -> Case:
    """A server that is killed five times, and is away for about so long each time."""
    rng = np.random.default_rng(8)
    away = away_s * rng.normal(1.0, 0.05, 5 if kills is None else min(kills, 5))
    due = np.arange(-2.0, 12.0, 0.02)
    series = {
        "healthy_s": away,
        "repeat": np.repeat(np.arange(len(away)), len(due)).astype(np.float64),
        "due_s": np.tile(due, len(away)),
        "end_s": np.tile(due + 0.002, len(away)),
        "outcome": np.concatenate([np.where((due >= 0) & (due < one), 3.0, 0.0) for one in away] or [np.empty(0)]),
    }
    probe = Probe("recovery", "candidate", 0, {"lag_p99_ms": 0.1}, series)
    check = Recovery.model_validate(
        {"check": "recovery", "dataset": "test", "require": ["time_to_healthy <= 5 s", "lost_requests <= 200"]}
    )
    return FakeInputs(evidence=folder, probes={"recovery": [probe]}, facts={"candidate": {"server_pid": 7}}), check


PLANTED: tuple[Planted, ...] = (
    Planted(
        "leakage", "group_overlap", "group_overlap == 0", hospital, lambda f: hospital(f, "patients"),
        lambda f, n: hospital(f, rows=n), "a patient of training in five test rows",
    ),
    Planted(
        "leakage", "time_overlap", "time_overlap == 0", hospital, lambda f: hospital(f, "order"),
        lambda f, n: hospital(f, rows=n), "five test rows from the time of training",
    ),
    Planted(
        "leakage", "index_overlap", "index_overlap == 0", hospital, lambda f: hospital(f, "mixed"),
        lambda f, n: hospital(f, rows=n), "lines were divided at random",
    ),
    Planted(
        "leakage", "conflicting_labels", "conflicting_labels == 0", hospital, lambda f: hospital(f, "labels"),
        lambda f, n: hospital(f, rows=n), "seven rows come again with the other label",
    ),
    Planted(
        "leakage", "target_leakage", "target_leakage <= 0.9", hospital, lambda f: hospital(f, "code"),
        lambda f, n: hospital(f, rows=n), "a code that is written when the diagnosis is known",
    ),
    Planted(
        "coverage", "missing_conditions", "missing_conditions == 0", crossing, lambda f: crossing(f, dark=0.0),
        lambda f, n: crossing(f, rows=n), "no picture by night",
    ),
    Planted(
        "coverage", "slices_too_small", "slices_too_small == 0", crossing, lambda f: crossing(f, dark=0.01),
        lambda f, n: crossing(f, rows=n), "thirty pictures by night",
    ),
    Planted(
        "coverage", "class_imbalance", "class_imbalance <= 10x", crossing, lambda f: crossing(f, fraud=0.01),
        lambda f, n: crossing(f, rows=n), "one bicycle to 99 cars",
    ),
    Planted(
        "coverage", "representation_gap", "representation_gap <= 5 pp", crossing, lambda f: crossing(f, north=0.9),
        lambda f, n: crossing(f, rows=n), "nine pictures in ten from one site, six in traffic",
    ),
    Planted(
        "saturation", "headroom", "headroom >= 1 pp", lambda f: benchmark(f, 0.03), lambda f: benchmark(f, 0.002),
        lambda f, n: benchmark(f, 0.03, n), "99.8 % is solved",
    ),
    Planted(
        "saturation", "interval_width", "interval_width <= 2 pp", lambda f: benchmark(f, 0.03),
        lambda f: benchmark(f, 0.03, 600), lambda f, n: benchmark(f, 0.03, n), "600 rows tell no gain of two points",
    ),
    Planted(
        "saturation", "data_age", "data_age <= 365 days", lambda f: benchmark(f, 0.03),
        lambda f: benchmark(f, 0.03, collected="2019-05-01"), lambda f, n: benchmark(f, 0.03, n), "data of 2019",
    ),
    Planted(
        "recovery", "time_to_healthy", "time_to_healthy <= 5 s", lambda f: _kills(f, 1.0), lambda f: _kills(f, 9.0),
        lambda f, n: _kills(f, 1.0, n // 5), "nine seconds to load again",
    ),
    Planted(
        "recovery", "lost_requests", "lost_requests <= 200", lambda f: _kills(f, 1.0), lambda f: _kills(f, 9.0),
        lambda f, n: _kills(f, 1.0, n // 5), "450 queries that nobody takes",
    ),
    Planted(
        "generalization", "ood_gap", "ood_gap <= 5 pp", lambda f: _elsewhere(f, 0.94), lambda f: _elsewhere(f, 0.7),
        lambda f, n: _elsewhere(f, 0.94, n), "25 points worse at another site",
    ),
    Planted(
        "compression", "worst_slice_drop", "worst_slice_drop <= 5 pp", lambda f: _compressed(f, 0.0),
        lambda f: _compressed(f, 0.02), lambda f, n: _compressed(f, 0.0, n), "loses only 2 points, all in the dark",
    ),
    Planted(
        "compression", "logit_distance", "logit_distance <= 0.1", _smaller, lambda f: _smaller(f, moved=0.3),
        lambda f, n: _smaller(f, rows=n), "every answer is the same, and the scores under it are not",
    ),
    Planted(
        "compression", "operators_lost", "operators_lost == 0", _smaller, lambda f: _smaller(f, layers=3),
        lambda f, n: _smaller(f, rows=n), "a layer was left out, and no answer changed",
    ),
    Planted(
        "compression", "operator_coverage", "operator_coverage == 100 %", _smaller,
        lambda f: _smaller(f, place="cpu"), lambda f, n: _smaller(f, rows=n), "its last layer fell back to the CPU",
    ),
    Planted(
        "robustness", "worst_corruption_accuracy", "worst_corruption_accuracy >= 90 %", lambda f: _noisy(f, 64),
        lambda f: _noisy(f, 1), lambda f, n: _noisy(f, 64, n), "decides by one pixel, which noise changes",
    ),
    Planted(
        "quality", "bleu", "bleu >= 70", lambda f: _answered(f, 0.02), lambda f: _answered(f, 0.3),
        lambda f, n: _answered(f, 0.02, n), "three words in ten are wrong",
    ),
    Planted(
        "quality", "exact_match", "exact_match >= 88 %", lambda f: _answered(f, 0.02), lambda f: _answered(f, 0.3),
        lambda f, n: _answered(f, 0.02, n), "a wrong word in most answers",
    ),
    Planted(
        "quality", "map_75", "map_75 >= 60 %", lambda f: _streets(f, 1.0), lambda f: _streets(f, 5.0),
        lambda f, n: _streets(f, 1.0, n), "boxes lie 5 pixels beside, which an overlap of a half hides",
    ),
    Planted(
        "quality", "iou", "iou(person) >= 70 %", lambda f: _roads(f, 0.1), lambda f: _roads(f, 0.7),
        lambda f, n: _roads(f, 0.1, n), "people are missed, at 96 % of right pixels",
    ),
    Planted(
        "quality", "ndcg", "ndcg(5) >= 80 %", lambda f: _searched(f, 0.3), lambda f: _searched(f, 1.0),
        lambda f, n: _searched(f, 0.3, n), "the relevant result stands far down",
    ),
    Planted(
        "quality", "recall", "recall(law) >= 80 %", lambda f: _tagged(f, 0.95), lambda f: _tagged(f, 0.4),
        lambda f, n: _tagged(f, 0.95, n), "a rare tag is missed, which micro F1 hides",
    ),
    Planted(
        "quality", "recall", "recall(fraud) >= 80 %", lambda f: _fraud(f, 0.9), lambda f: _fraud(f, 0.1),
        lambda f, n: _fraud(f, 0.9, n), "9 frauds in 10 are missed, at 95 % accuracy",
    ),
    Planted(
        "quality", "mae", "mae <= 3", lambda f: _minutes(f, 0.0), lambda f: _minutes(f, 6.0),
        lambda f, n: _minutes(f, 0.0, n), "6 minutes too late, always",
    ),
    Planted(
        "evaluate", "score", "score(cost) <= 0.1", lambda f: _cost(f, 0.9), lambda f: _cost(f, 0.1),
        lambda f, n: _cost(f, 0.9, n), "9 frauds in 10 are missed, at 5 each",
    ),
    Planted(
        "slices", "worst_accuracy", "worst_accuracy >= 85 %", lambda f: _dark(f, 0.95), lambda f: _dark(f, 0.6),
        lambda f, n: _dark(f, 0.95, n), "60 % right in the dark under 95 % overall",
    ),
    Planted(
        "slices", "accuracy", "accuracy(dark) >= 85 %", lambda f: _dark(f, 0.95), lambda f: _dark(f, 0.6),
        lambda f, n: _dark(f, 0.95, n), "a named slice of 60 %",
    ),
    Planted(
        "slices", "accuracy_disparity", "accuracy_disparity(site=south) <= 5 pp", lambda f: _disparate(f, 0.95),
        lambda f: _disparate(f, 0.85), lambda f, n: _disparate(f, 0.95, n), "one site is 10 points behind another",
    ),
    Planted(
        "slices", "accuracy_p10", "accuracy_p10 >= 85 %", lambda f: _users(f, 0.95), lambda f: _users(f, 0.7),
        lambda f, n: _users(f, 0.95, n), "three users in ten get 70 % under 87 % overall",
    ),
    Planted(
        "slices", "weak_slices", "weak_slices <= 0", lambda f: _hidden(f, 0.95), lambda f: _hidden(f, 0.75),
        lambda f, n: _hidden(f, 0.95, n), "75 % in the dark at one site, which no slice names",
    ),
    Planted(
        "calibration", "ece", "ece <= 0.05", lambda f: _confidence(f, 1.0), lambda f: _confidence(f, 2.5),
        lambda f, n: _confidence(f, 1.0, n), "sure of what is wrong",
    ),
    Planted(
        "calibration", "rms_calibration", "rms_calibration <= 0.06", lambda f: _confidence(f, 1.0),
        lambda f: _confidence(f, 2.5), lambda f, n: _confidence(f, 1.0, n),
        "sure of what is wrong, by squares",
    ),
    Planted(
        "calibration", "classwise_ece", "classwise_ece <= 0.04", lambda f: _confidence(f, 1.0),
        lambda f: _confidence(f, 2.5), lambda f, n: _confidence(f, 1.0, n),
        "sure of what is wrong, class by class",
    ),
    Planted(
        "calibration", "routing_change", "routing_change <= 5 %", lambda f: _confidence(f, 1.0),
        lambda f: _confidence(f, 2.5), lambda f, n: _confidence(f, 1.0, n),
        "one row in five is answered without a person now",
    ),
    Planted(
        "contamination", "exact_duplicates", "exact_duplicates == 0", lambda f: _leak(f, 0, 0.0),
        lambda f: _leak(f, 5, 0.0), lambda f, n: _leak(f, 0, 0.0, n), "5 test pictures were trained on",
    ),
    Planted(
        "contamination", "near_duplicates", "near_duplicates <= 0.5 %", lambda f: _leak(f, 0, 0.0),
        lambda f: _leak(f, 30, 0.005), lambda f, n: _leak(f, 0, 0.0, n), "30 test pictures were trained on, with noise",
    ),
    Planted(
        "labels", "label_error_rate", "label_error_rate <= 5 %", lambda f: _audited(f, 0.03, 0.0),
        lambda f: _audited(f, 0.2, 0.0), lambda f, n: _audited(f, 0.03, 0.0, n), "one label in five is wrong",
    ),
    Planted(
        "labels", "label_error_concentration", "label_error_concentration <= 5x", lambda f: _audited(f, 0.03, 0.0),
        lambda f: _audited(f, 0.02, 0.8), lambda f, n: _audited(f, 0.03, 0.0, n), "wolves in snow are labelled dogs",
    ),
    Planted(
        "labels", "estimated_label_errors", "estimated_label_errors <= 6 %", lambda f: _audited(f, 0.03, 0.0),
        lambda f: _audited(f, 0.3, 0.0), lambda f, n: _audited(f, 0.03, 0.0, n), "labels do not fit the rows like them",
    ),
    Planted(
        "agreement", "kappa", "kappa >= 0.7", lambda f: _rated(f, 0.95), lambda f: _rated(f, 0.6),
        lambda f, n: _rated(f, 0.95, n), "people guess in four rows of ten",
    ),
    Planted(
        "agreement", "alpha", "alpha >= 0.7", lambda f: _rated(f, 0.95), lambda f: _rated(f, 0.6),
        lambda f, n: _rated(f, 0.95, n), "people guess in four rows of ten, however many judge a row",
    ),
    Planted(
        "contamination", "near_duplicates", "near_duplicates <= 1 %", lambda f: photographed(f, 0),
        lambda f: photographed(f, 6), lambda f, n: photographed(f, 0, n),
        "6 test pictures are brightened training pictures",
    ),
    Planted(
        "contamination", "clean_score_change", "clean_score_change <= 1 pp",
        lambda f: remembered(f, 1, 0.9, "clean_score_change <= 1 pp"),
        lambda f: remembered(f, 200, 0.7, "clean_score_change <= 1 pp"),
        lambda f, n: remembered(f, 1, 0.9, "clean_score_change <= 1 pp", n), "a third of the test rows was trained on",
    ),
    Planted(
        "contamination", "clean_score", "clean_score >= 85 %", lambda f: remembered(f, 1, 0.9, "clean_score >= 85 %"),
        lambda f: remembered(f, 400, 0.7, "clean_score >= 85 %"),
        lambda f, n: remembered(f, 1, 0.9, "clean_score >= 85 %", n), "90 % right, of the rows it has not seen 70 %",
    ),
    Planted(
        "contamination", "embedding_neighbours", "embedding_neighbours <= 1 %", lambda f: paraphrased(f, 0),
        lambda f: paraphrased(f, 10), lambda f, n: paraphrased(f, 0, n), "10 test rows say what training rows say",
    ),
    Planted(
        "contamination", "shared_keys", "shared_keys == 0", lambda f: rekeyed(f, 0), lambda f: rekeyed(f, 3),
        lambda f, n: rekeyed(f, 0, n), "three patients are in training too, measured again",
    ),
    Planted(
        "contamination", "ngram_overlap", "ngram_overlap <= 1 %", lambda f: _quoted(f, 0), lambda f: _quoted(f, 6),
        lambda f, n: _quoted(f, 0, n), "6 test texts are quoted in longer training texts",
    ),
    Planted(
        "shift", "drifted_columns", "drifted_columns <= 10 %", lambda f: _traffic(f, 0.0), lambda f: _traffic(f, 40.0),
        lambda f, n: _traffic(f, 0.0, n), "it has become darker",
    ),
    Planted(
        "shift", "c2st_auc", "c2st_auc <= 0.60", lambda f: _traffic(f, 0.0), lambda f: _traffic(f, 40.0),
        lambda f, n: _traffic(f, 0.0, n), "a classifier tells the darker rows",
    ),
    Planted(
        "shift", "unseen_categories", "unseen_categories <= 5 %", lambda f: _darkened(f, 0.0),
        lambda f: _darkened(f, 0.0, camera=0.2), lambda f, n: _darkened(f, 0.0, rows=n), "a camera that is new",
    ),
    Planted(
        "shift", "prediction_shift", "prediction_shift(confidence) <= 0.1", lambda f: _darkened(f, 0.0),
        lambda f: _darkened(f, 1.0), lambda f, n: _darkened(f, 0.0, rows=n), "answers are less sure in the dark",
    ),
    Planted(
        "shift", "reweighted_score_change", "reweighted_score_change <= 4 pp", lambda f: _darkened(f, 0.0),
        lambda f: _darkened(f, 1.0), lambda f, n: _darkened(f, 0.0, rows=n), "what it gets wrong is more frequent",
    ),
    Planted(
        "shift", "embedding_shift", "embedding_shift <= 0.65", lambda f: _darkened(f, 0.0),
        lambda f: _darkened(f, 1.0), lambda f, n: _darkened(f, 0.0, rows=n), "embeddings lie elsewhere in the dark",
    ),
    Planted(
        "integrity", "schema_violations", "schema_violations == 0", lambda f: _records(f, 0, 0, 0),
        lambda f: _records(f, 3, 0, 0), lambda f, n: _records(f, 0, 0, 0, n), "three heights are in metres",
    ),
    Planted(
        "integrity", "missing_rate", "missing_rate(height) <= 1 %", lambda f: _records(f, 0, 0, 0),
        lambda f: _records(f, 0, 40, 0), lambda f, n: _records(f, 0, 0, 0, n), "one height in twenty is missing",
    ),
    Planted(
        "integrity", "duplicate_rows", "duplicate_rows == 0", lambda f: _records(f, 0, 0, 0),
        lambda f: _records(f, 0, 0, 2), lambda f, n: _records(f, 0, 0, 0, n), "two rows stand twice",
    ),
    Planted(
        "latency", "latency_p99", "latency_p99 <= 5 ms", lambda f: _queries(f, 0.0), lambda f: _queries(f, 0.04),
        lambda f, n: _queries(f, 0.0, n), "one query in 25 waits",
    ),
    Planted(
        "throughput", "throughput", "throughput >= 500 samples/s", lambda f: _batches(f, 0.5),
        lambda f: _batches(f, 3.0), lambda f, n: _batches(f, 0.5, n), "six times slower",
    ),
    Planted(
        "load", "latency_p99", "latency_p99 <= 20 ms", lambda f: _traffic_on_a_server(f, 1.0),
        lambda f: _traffic_on_a_server(f, 2.2), lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "queries wait for each other at 400 qps, and not at 100",
    ),
    Planted(
        "load", "max_rate", "max_rate >= 400 qps", lambda f: _traffic_on_a_server(f, 1.0),
        lambda f: _traffic_on_a_server(f, 4.0), lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "it serves 250 qps",
    ),
    Planted(
        "load", "goodput", "goodput(400 qps) >= 390 qps", lambda f: _traffic_on_a_server(f, 1.0),
        lambda f: _traffic_on_a_server(f, 2.4), lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "answers come too late to be of use",
    ),
    Planted(
        "load", "error_rate", "error_rate <= 1 %", lambda f: _traffic_on_a_server(f, 1.0),
        lambda f: _traffic_on_a_server(f, 1.0, 0.03), lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "3 queries in 100 fail, fast",
    ),
    Planted(
        "load", "spike_factor", "spike_factor(400 qps) <= 8 x", lambda f: _traffic_on_a_server(f, 0.7),
        lambda f: _traffic_on_a_server(f, 1.3), lambda f, n: _traffic_on_a_server(f, 1.0, 0.0, n),
        "twice the rate is more than it serves",
    ),
    Planted(
        "cold_start", "load_time", "load_time <= 1 s", lambda f: _starts(f, 0.5), lambda f: _starts(f, 2.0),
        lambda f, n: _starts(f, 0.5, n), "four times as long to load",
    ),
    Planted(
        "memory", "peak_host_memory", "peak_host_memory <= 512 MiB", lambda f: _resident(f, 5.0),
        lambda f: _resident(f, 20.0), lambda f, n: _resident(f, 5.0, n), "20 MiB for each item of a batch",
    ),
    Planted(
        "sustained", "sustained_ratio", "sustained_ratio >= 0.9x", lambda f: _long(f, 1.0), lambda f: _long(f, 2.0),
        lambda f, n: _long(f, 1.0, n), "half as fast after 20 s",
    ),
    Planted(
        "sustained", "throttled", "throttled == 0", lambda f: _long(f, 1.0), lambda f: _long(f, 1.05),
        lambda f, n: _long(f, 1.0, n), "it says that it throttles",
    ),
    Planted(
        "energy", "energy_per_inference", "energy_per_inference <= 1.2 J", lambda f: _metered(f, 100.0),
        lambda f: _metered(f, 150.0), lambda f, n: _metered(f, 100.0, n), "half as much power again",
    ),
    Planted(
        "stages", "stage_share", "stage_share(inference) >= 50 %", lambda f: parsed(f, 1.0), lambda f: parsed(f, 12.0),
        lambda f, n: parsed(f, 1.0, n), "parsing takes twice as long as inference",
    ),
    Planted(
        "roofline", "roof_fraction", "roof_fraction >= 30 %", lambda f: under_the_roof(f, 0.6),
        lambda f: under_the_roof(f, 0.05), lambda f, n: under_the_roof(f, 0.6, n), "a twentieth of the roof",
    ),
    Planted(
        "precision", "operator_coverage", "operator_coverage == 100 %", lambda f: operators(f, "cuda:0", "int8"),
        lambda f: operators(f, "cpu", "int8"), lambda f, n: operators(f, "cuda:0", "int8", n),
        "one operator fell back to the CPU",
    ),
    Planted(
        "precision", "precision_coverage", "precision_coverage >= 95 %", lambda f: operators(f, "cuda:0", "int8"),
        lambda f: operators(f, "cuda:0", "float32"), lambda f, n: operators(f, "cuda:0", "int8", n),
        "a third of the operations stayed in fp32",
    ),
    Planted(
        "contention", "contention_ratio", "contention_ratio(p50) <= 1.5x", lambda f: neighbours(f, 1.1),
        lambda f: neighbours(f, 2.5), lambda f, n: neighbours(f, 1.1, n), "two and a half times as slow beside others",
    ),
)  # fmt: skip
