"""Defects in data that screens were never tried on; specs were written before anything was planted.

By hand: ``python -m tests.stories.defects_held_out [WORD ...]``; what came out at first sight is in docs/campaigns.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import EvalspecError
from evalspec.language.yaml_text import write
from tests.running.small import go
from tests.stories.defects import SIDES, Case, Columns, Plant, shuffled_classes, write_case

WORDS = {
    "billing": "invoice charge refund card paid twice amount month subscription bank",
    "login": "password reset code mail account locked sign phone token expired",
    "delivery": "parcel courier late address box damaged door tracking driver weekend",
    "praise": "thanks great friendly quick helpful team love support again well",
}
COMMON = [
    "hello",
    "please",
    "the",
    "my",
    "is",
    "a",
    "to",
    "it",
    "with",
    "from",
    "yesterday",
    "today",
    "still",
    "question",
    "about",
    "your",
    "order",
]


def _split(columns: Columns, sizes: tuple[int, int], rng: np.random.Generator) -> dict[str, Columns]:
    """Rows of training, test and traffic, drawn at random."""
    order = rng.permutation(len(columns["y"]))
    parts = np.array_split(order, [sizes[0], sizes[0] + sizes[1]])
    sides = {}
    for side, part in zip(SIDES, parts, strict=True):
        sides[side] = {name: values[part] for name, values in columns.items()} | {"id": part}
    return sides


def _models(spec: dict[str, Any], output: str, classes: tuple[str, ...]) -> None:
    spec["models"] = {
        model: {"kind": "predictions", "files": {"test": f"{model}.parquet"}, "artifact": f"{model}.bin",
                "outputs": {output: "p"}} | ({"classes": list(classes)} if classes else {})
        for model in ("candidate", "baseline")
    }  # fmt: skip


def _datasets(*, cluster: str = "") -> dict[str, Any]:
    named = {side: {"kind": "parquet", "path": f"{side}.parquet", "key": "id"} for side in SIDES}
    for side in ("train", "test"):
        named[side] |= {"label": "y"} | ({"cluster": cluster} if cluster else {})
    return named


def _fitted(sides: dict[str, Columns], features: Callable[[Columns], NDArray[np.float64]], **models: Any) -> Any:
    """Probabilities, or values, of each model on the test rows."""
    said = {}
    for name, estimator in models.items():
        estimator.fit(features(sides["train"]), sides["train"]["y"])
        give = estimator.predict_proba if hasattr(estimator, "predict_proba") else estimator.predict
        said[name] = give(features(sides["test"]))
    return said


@cache
def _churn() -> Any:
    """Contracts of a phone company, made up: who leaves."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(11)
    n = 3600
    tenure = rng.gamma(2.0, 14.0, n).round(1)
    bill = rng.normal(38.0, 11.0, n).clip(5).round(2)
    calls = rng.poisson(1.3, n).astype(float)
    data_gb = rng.lognormal(1.2, 0.8, n).round(2)
    plan = rng.choice(["basic", "family", "business", "student"], n, p=[0.4, 0.3, 0.2, 0.1])
    region = rng.choice([f"region {one}" for one in range(8)], n)
    score = 1.2 - 0.05 * tenure + 0.05 * (bill - 38) + 0.8 * (calls - 1.3) + 0.9 * (plan == "student")
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-1.6 * score)), "leaves", "stays")
    columns: Columns = {"tenure_months": tenure, "bill": bill, "calls": calls, "data_gb": data_gb, "plan": plan,
                        "region": region, "y": y}  # fmt: skip
    sides = _split(columns, (1400, 1100), rng)

    def features(rows: Columns) -> NDArray[np.float64]:
        kinds = [(rows["plan"] == one).astype(float) for one in ("basic", "family", "business", "student")]
        return np.column_stack([rows[one] for one in ("tenure_months", "bill", "calls", "data_gb")] + kinds)

    models = {"candidate": LogisticRegression(max_iter=2000), "baseline": LogisticRegression(C=0.05, max_iter=2000)}
    return sides, _fitted(sides, features, **models)


def churn(kind: str) -> Case:
    """Rows of customers; ``kind``: how its team wrote the spec."""
    sides, said = _churn()
    sides = {side: dict(rows) for side, rows in sides.items()}
    classes = ("leaves", "stays")
    drift = ["drifted_columns <= 10 %"] if kind == "shares" else ["shift <= 0.15", "missingness_shift <= 5 pp"]
    spec: dict[str, Any] = {
        "evalspec": 1, "name": "churn", "datasets": _datasets(),
        "model": [{"check": "quality", "dataset": "test",
                   "require": ["accuracy >= 70 %", "accuracy >= baseline - 8 pp"]}],
        "data": [
            {"check": "shift", "reference": "test", "current": "traffic", "require": drift}
            | ({"tolerance": 0.15} if kind == "shares" else {}),
            {"check": "contamination", "train": ["train"], "test": "test", "require": ["exact_duplicates == 0"]},
        ],
    }  # fmt: skip
    if kind == "undeclared":
        del spec["data"][0]
    if kind in ("people", "spelling"):
        for side, rows in sides.items():
            rows["kunde_nr"] = np.array([f"K-{side[:2]}{one:05d}" for one in range(len(rows["y"]))])
    if kind == "spelling":
        spec["data"].append({"check": "leakage", "train": ["train"], "test": "test", "group": "kunde_nr",
                             "require": ["group_overlap == 0"]})  # fmt: skip
    _models(spec, "probabilities", classes)
    return Case(sides, {name: one.copy() for name, one in said.items()}, classes, spec, "bill", "plan")


@cache
def _visits() -> Any:
    """RAND's health insurance experiment: does somebody see a doctor this year?"""
    import statsmodels.api as sm
    from sklearn.ensemble import HistGradientBoostingClassifier

    table = sm.datasets.randhie.load_pandas().data
    rng = np.random.default_rng(12)
    # Years of one person are equal in all that is read, and the data don't say whose they are.
    read = ["lncoins", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"]
    chosen = rng.permutation(table.drop_duplicates(read).index.to_numpy())[:6000]
    columns: Columns = {name: table[name].to_numpy(float)[chosen] for name in ("lncoins", "lpi", "fmde", "physlm",
                        "disea")}  # fmt: skip
    health = table[["hlthg", "hlthf", "hlthp"]].to_numpy()[chosen]
    columns["health"] = np.array(["excellent", "good", "fair", "poor"])[
        np.where(health.any(1), health.argmax(1) + 1, 0)
    ]
    columns["y"] = np.where(table["mdvis"].to_numpy()[chosen] > 0, "some", "none")
    sides = _split(columns, (1000, 900), rng)

    def features(rows: Columns) -> NDArray[np.float64]:
        wide = [rows[one] for one in ("lncoins", "lpi", "fmde", "physlm", "disea")]
        return np.column_stack(wide + [(rows["health"] == one).astype(float) for one in ("good", "fair", "poor")])

    models = {
        "candidate": HistGradientBoostingClassifier(max_iter=20, max_depth=3, random_state=1),
        "baseline": HistGradientBoostingClassifier(max_iter=30, max_depth=3, random_state=0),
    }
    return sides, _fitted(sides, features, **models)


def visits(kind: str) -> Case:
    """Rows of people in an experiment."""
    sides, said = _visits()
    classes = ("none", "some")
    spec: dict[str, Any] = {
        "evalspec": 1, "name": "visits", "datasets": _datasets(),
        "model": [{"check": "quality", "dataset": "test",
                   "require": ["accuracy >= 62 %", "roc_auc >= 55 %"]}],
        "data": [{"check": "shift", "reference": "test", "current": "traffic", "tolerance": 0.15,
                  "require": ["drifted_columns <= 15 %"]},
                 {"check": "integrity", "dataset": "traffic", "require": ["missing_rate <= 40 %"]}],
    }  # fmt: skip
    if kind == "baseline":
        spec["model"][0]["require"].append("accuracy >= baseline - 8 pp")
    _models(spec, "probabilities", classes)
    if kind != "baseline":
        del spec["models"]["baseline"]
    return Case({side: dict(rows) for side, rows in sides.items()}, {name: one.copy() for name, one in said.items()},
                classes, spec, "disea", "health")  # fmt: skip


@cache
def _tickets() -> Any:
    """Tickets of a help desk, made up: what are they about?"""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(13)
    n = 3000
    y = rng.choice(list(WORDS), n, p=[0.35, 0.3, 0.2, 0.15])

    def text(about: str) -> str:
        other = str(rng.choice(list(WORDS)))
        own = rng.choice(WORDS[about].split(), rng.integers(1, 4)).tolist()
        own += rng.choice(WORDS[other].split(), rng.integers(0, 3)).tolist()
        words = own + rng.choice(COMMON, rng.integers(5, 18)).tolist()
        return " ".join(rng.permutation(words).tolist())

    columns: Columns = {"text": np.array([text(str(one)) for one in y]), "y": y,
                        "channel": rng.choice(["mail", "chat", "phone", "app"], n, p=[0.4, 0.3, 0.2, 0.1]),
                        "waited_h": rng.exponential(7.0, n).round(2)}  # fmt: skip
    sides = _split(columns, (1200, 1000), rng)
    models = {
        name: make_pipeline(TfidfVectorizer(), LogisticRegression(C=strength, max_iter=500))
        for name, strength in (("candidate", 20.0), ("baseline", 8.0))
    }
    return sides, _fitted(sides, lambda rows: rows["text"], **models)  # type: ignore[arg-type,return-value]  # texts


def tickets(kind: str) -> Case:
    """Texts of customers."""
    sides, said = _tickets()
    classes = tuple(sorted(WORDS))
    spec: dict[str, Any] = {
        "evalspec": 1, "name": "tickets", "datasets": _datasets(),
        "model": [{"check": "quality", "dataset": "test",
                   "require": ["accuracy >= 60 %", "accuracy >= baseline - 8 pp"]}],
        "data": [{"check": "shift", "reference": "test", "current": "traffic", "columns": ["channel", "waited_h"],
                  "require": ["shift <= 0.2"]},
                 {"check": "integrity", "dataset": "test", "require": ["missing_rate <= 1 %"]}],
    }  # fmt: skip
    _models(spec, "probabilities", classes)
    sides = {side: dict(rows) for side, rows in sides.items()}
    said = {name: one.copy() for name, one in said.items()}
    if kind == "raters":
        rng = np.random.default_rng(5)
        truth = sides["test"]["y"]
        for rater in ("kim", "lee"):
            sides["test"][rater] = np.where(rng.random(len(truth)) < 0.9, truth, rng.choice(list(WORDS), len(truth)))
        spec["data"].append({"check": "agreement", "dataset": "test", "raters": ["kim", "lee"],
                             "require": ["alpha >= 0.6"]})  # fmt: skip
    if kind == "logits":
        _models(spec, "logits", classes)
        said = {name: np.log(one) for name, one in said.items()}
    return Case(sides, said, classes, spec, "waited_h", "channel")


@cache
def _energy() -> Any:
    """Use of electricity at weather stations, made up: a number."""
    from sklearn.linear_model import LinearRegression, RidgeCV

    rng = np.random.default_rng(14)
    n = 2700
    columns: Columns = {
        "temperature": rng.normal(12.0, 8.0, n).round(2), "wind": rng.weibull(2.0, n).round(3) * 6,
        "humidity": rng.beta(5.0, 2.0, n).round(4) * 100, "pressure": rng.normal(1013.0, 9.0, n).round(2),
        "cloud": rng.uniform(0.0, 8.0, n).round(3),
    }  # fmt: skip
    columns["station"] = rng.choice([f"st{one}" for one in range(9)], n)
    columns["y"] = (420 - 9.0 * columns["temperature"] + 6.0 * columns["wind"] + 0.9 * columns["humidity"]
                    + rng.normal(0.0, 35.0, n))  # fmt: skip
    sides = _split(columns, (1000, 900), rng)

    def features(rows: Columns) -> NDArray[np.float64]:
        return np.column_stack([rows[one] for one in ("temperature", "wind", "humidity", "pressure", "cloud")])

    candidate = LinearRegression()
    said = _fitted(sides, features, candidate=candidate, baseline=RidgeCV(np.array([300.0, 3000.0])))
    return sides, said, (candidate.coef_, candidate.intercept_)


def energy(kind: str) -> Case:
    """Rows of hours at stations."""
    sides, said, weights = _energy()
    spec: dict[str, Any] = {
        "evalspec": 1, "name": "energy", "datasets": _datasets(),
        "model": [{"check": "quality", "dataset": "test", "require": ["mae <= 60", "mae <= 1.3x baseline"]}],
        "data": [{"check": "shift", "reference": "test", "current": "traffic", "tolerance": 0.15,
                  "require": ["drifted_columns <= 20 %"]}],
    }  # fmt: skip
    if kind == "undeclared":
        spec["data"] = [{"check": "integrity", "dataset": "test", "require": ["missing_rate <= 2 %"]}]
    _models(spec, "value", ())
    case = Case({side: dict(rows) for side, rows in sides.items()}, {name: one.copy() for name, one in said.items()},
                (), spec, "humidity", "station")  # fmt: skip
    if kind == "onnx":
        columns = ["temperature", "wind", "humidity", "pressure", "cloud"]
        spec["models"]["candidate"] |= {
            "artifact": "candidate.onnx",
            "runs_as": {"kind": "onnx", "inputs": {"x": columns}, "outputs": {"value": "value"},
                        "preprocess": [{"cast": "float32"}]},
        }  # fmt: skip
        case.files["candidate.onnx"] = linear_model(*weights)
    return case


def linear_model(weights: NDArray[np.float64], bias: float) -> bytes:
    """A linear model as an ONNX file."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["value"])], "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, len(weights)])],
        [helper.make_tensor_value_info("value", TensorProto.FLOAT, [None, 1])],
        [numpy_helper.from_array(weights.astype(np.float32)[:, None], "w"),
         numpy_helper.from_array(np.array([bias], np.float32), "b")],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


@cache
def _modes() -> Any:
    """How 210 people travel, four rows each: is a mode the one that they take?"""
    import statsmodels.api as sm

    return sm.datasets.modechoice.load_pandas().data


def modes(kind: str) -> Case:
    """Rows of people and modes, split by person, and clusters named."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = _modes()
    rng = np.random.default_rng(15)
    names = ("ttme", "invc", "invt", "gc", "hinc", "psize", "mode")
    columns: Columns = {name: table[name].to_numpy(float) for name in names}
    columns["person_no"] = table["individual"].to_numpy(int)
    columns["y"] = np.where(table["choice"] > 0, "taken", "not")
    order = rng.permutation(np.unique(columns["person_no"]))
    parts = dict(zip(SIDES, np.array_split(order, [80, 160]), strict=True))
    sides = {}
    for side, people in parts.items():
        rows = np.flatnonzero(np.isin(columns["person_no"], people))
        sides[side] = {name: values[rows] for name, values in columns.items()} | {"id": rows}

    def features(rows: Columns) -> NDArray[np.float64]:
        return np.column_stack([rows[one] for one in names])

    models = {name: make_pipeline(StandardScaler(), LogisticRegression(C=strength))
              for name, strength in (("candidate", 1.0), ("baseline", 0.3))}  # fmt: skip
    said = _fitted(sides, features, **models)
    spec: dict[str, Any] = {
        "evalspec": 1, "name": "modes", "datasets": _datasets(cluster="person_no"),
        "model": [{"check": "quality", "dataset": "test", "require": ["accuracy >= 60 %"]}],
        "data": [{"check": "contamination", "train": ["train"], "test": "test", "require": ["exact_duplicates == 0"]}],
    }  # fmt: skip
    _models(spec, "probabilities", ("not", "taken"))
    del spec["models"]["baseline"]
    return Case(sides, said, ("not", "taken"), spec, "invc", "")


SERVED = """
import time
import numpy as np

KEPT, CALLS, RNG = [], [0], np.random.default_rng()
PRICE = {{"basic": -0.3, "family": -0.5, "business": 0.1, "student": 0.8}}


def answer(inputs):
    CALLS[0] += 1
    n = len(np.asarray(inputs["tenure"]).reshape(-1))
    {defect}
    plan = np.array([{lookup} for one in np.asarray(inputs["plan"]).reshape(-1)])
    tenure, calls = (np.asarray(inputs[one]).reshape(-1) for one in ("tenure", "calls"))
    score = 1.2 - 0.05 * tenure + 0.8 * (calls - 1.3)
    p = 1 / (1 + np.exp(-(score + plan) + {noise}))
    return {{"p": np.stack([p, 1 - p], axis=1)}}
"""
IN_CODE = {
    "dropout is left on": {"noise": "RNG.normal(0.0, 1.5, n)"},
    "it compiles for four seconds": {"defect": "time.sleep(4.0 if CALLS[0] == 1 else 0)"},
    "it keeps what it is asked": {"defect": "KEPT.append(np.ones(30_000))"},
    "a plan that it can not answer": {"lookup": "PRICE[str(one)]"},
}


def served(folder: Path, what: str, *, planted: bool) -> dict[str, Any]:
    """The churn model in Python, timed and judged; traffic has a plan that is new in a few of its rows."""
    from tests.stories.defects import write_rows

    sides, _ = _churn()
    sides = {side: dict(rows) for side, rows in sides.items()}
    rows = sides["traffic"]
    if "plan" in what and planted:
        rows["plan"] = np.where(np.arange(len(rows["y"])) % 150 == 7, "prepaid", rows["plan"])
    defect = IN_CODE[what] if planted or "plan" in what else {}
    write_rows(sides, folder)
    (folder / "own.py").write_text(
        SERVED.format(**({"defect": "pass", "noise": "0.0", "lookup": "PRICE.get(str(one), 0.0)"} | defect))
    )
    return {
        "evalspec": 1, "name": "served",
        "models": {"candidate": {
            "kind": "python", "function": "own:answer", "artifact": "own.py", "outputs": {"probabilities": "p"},
            "inputs": {"tenure": "tenure_months", "calls": "calls", "plan": "plan"}, "classes": ["leaves", "stays"]}},
        "datasets": _datasets(),
        "system": [{"check": "latency", "dataset": "test", "require": ["latency_p50 <= 10 ms"]}],
        "model": [{"check": "quality", "dataset": "test", "require": ["accuracy >= 65 %"]}],
        "data": [{"check": "shift", "reference": "test", "current": "traffic", "columns": ["tenure_months", "calls"],
                  "require": ["shift <= 0.15"]}],
    }  # fmt: skip


def _of(name: str) -> Plant:
    """A plant of the earlier set."""
    from tests.stories.defects import OF_TABLES, OF_VALUES

    return OF_TABLES[name][0] if name in OF_TABLES else OF_VALUES[name]


def _people(case: Case, rng: np.random.Generator) -> None:
    """Test rows are later months of customers who were trained on, whose plan and end are the same."""
    train, test = case.sides["train"], case.test
    n = len(test["y"])
    who = rng.integers(0, 350, n)
    for name in ("plan", "region", "y"):
        test[name] = train[name][who]
    test["kunde_nr"] = train["kunde_nr"][who]
    for model, said in case.said.items():
        truth = case.truth()
        right = rng.random(n) < 0.85
        case.said[model] = np.where((np.where(right, truth, 1 - truth) == 0)[:, None], [0.85, 0.15], [0.15, 0.85])
        case.said[model] += 0.02 * said - 0.01
        case.said[model] /= case.said[model].sum(axis=1, keepdims=True)


def _months(case: Case, rng: np.random.Generator) -> None:
    """The test set is eight months each of a few customers."""
    test = case.test
    n = len(test["y"])
    who = np.arange(n) // 8
    for name in ("plan", "region", "y"):
        test[name] = test[name][who * 8]
    test["kunde_nr"] = np.array([f"K-te{one:05d}" for one in who])
    truth = case.truth()
    lost = np.isin(who, rng.permutation(who.max() + 1)[: int(0.15 * who.max())])
    for model in case.said:
        right = np.where(lost, truth == 2, True)
        case.said[model] = np.where((np.where(right, truth, 1 - truth) == 0)[:, None], [0.85, 0.15], [0.15, 0.85])
        case.said[model] += rng.uniform(-0.01, 0.01, (n, 1)) * [1, -1]


def _by_row(case: Case, rng: np.random.Generator) -> None:
    """Test rows are of people who were trained on."""
    people = np.unique(case.sides["train"]["person_no"])
    case.test["person_no"] = people[np.unique(case.test["person_no"], return_inverse=True)[1] % len(people)]


def _spelt(case: Case, rng: np.random.Generator) -> None:
    some = len(case.test["y"]) // 6
    case.test["kunde_nr"][:some] = [one.lower().replace("-", "") for one in case.sides["train"]["kunde_nr"][:some]]


def _other_code(case: Case, rng: np.random.Generator) -> None:
    cells = case.sides["traffic"][case.number].astype(float)
    case.sides["traffic"][case.number] = np.where(rng.random(len(cells)) < 0.05, 9999.0, cells)


def _reversed(case: Case, rng: np.random.Generator) -> None:
    case.said["candidate"] = case.said["candidate"][::-1].copy()


def _guessed(case: Case, rng: np.random.Generator) -> None:
    case.said["baseline"] = rng.permutation(case.said["baseline"])


def _as_logits(case: Case, rng: np.random.Generator) -> None:
    for model in case.said:
        case.said[model] = np.exp(case.said[model])


def _lost_values(case: Case, rng: np.random.Generator) -> None:
    rows = case.test["station"] == "st3"
    case.said["candidate"] = case.said["candidate"] + 70.0 * rows * rng.choice([-1, 1], len(rows))


def _raters(case: Case, rng: np.random.Generator) -> None:
    case.test["lee"] = case.test["kim"].copy()


def _negated(case: Case, rng: np.random.Generator) -> None:
    _, _, (weights, bias) = _energy()
    case.files["candidate.onnx"] = linear_model(-weights, bias)


def _older(case: Case, rng: np.random.Generator) -> None:
    """The artifact is the release before, the answers are those of the new one."""
    _, _, (weights, bias) = _energy()
    case.files["candidate.onnx"] = linear_model(0.6 * weights, bias - 20.0)


TRAFFIC = ("a unit changed in traffic", "cells went missing in traffic", "a sentinel in traffic",
           "a new category in traffic")  # fmt: skip
ROWS = ("the test set is three copies of a third", "copies with noise in the test set", "traffic that is the test set")
HELD_OUT: dict[str, tuple[Callable[[str], Case], str, Plant]] = {
    **{f"{what} (churn)": (churn, "shares", _of(what)) for what in TRAFFIC},
    **{f"{what} (visits)": (visits, "", _of(what)) for what in TRAFFIC[:3]},
    **{f"{what} (energy)": (energy, "", _of(what)) for what in TRAFFIC[:2]},
    "a new category in traffic (tickets)": (tickets, "", _of("a new category in traffic")),
    "9999 in one row of twenty (energy)": (energy, "", _other_code),
    "a unit changed in traffic that no check names (churn)": (churn, "undeclared", _of(TRAFFIC[0])),
    "cells missing in traffic that no check names (energy)": (energy, "undeclared", _of(TRAFFIC[1])),
    **{f"{what} (churn)": (churn, "", _of(what)) for what in ROWS},
    **{f"{what} (energy)": (energy, "", _of(what)) for what in ROWS},
    "the test set is three copies of a third (tickets)": (tickets, "", _of(ROWS[0])),
    "test rows in training (churn)": (churn, "", _of("test rows in training")),
    "months of customers who were trained on (churn)": (churn, "people", _people),
    "eight months of each customer (churn)": (churn, "people", _months),
    "people who were trained on (modes)": (modes, "", _by_row),
    "customers in another spelling (churn)": (churn, "spelling", _spelt),
    "the artifact is negated (energy)": (energy, "onnx", _negated),
    "the artifact is the release before (energy)": (energy, "onnx", _older),
    "answers off by one row (tickets)": (tickets, "", _of("answers off by one row")),
    "answers in reverse order (tickets)": (tickets, "", _reversed),
    "answers off by one row (energy)": (energy, "", _of("answers off by one row")),
    "answers of another model (churn)": (churn, "", _of("answers of another model")),
    "answers of another model (energy)": (energy, "", _of("values of another model")),
    "softmax twice (tickets)": (tickets, "", _of("softmax twice")),
    "logits that are probabilities (tickets)": (tickets, "logits", _as_logits),
    "classes in another order (tickets)": (tickets, "", shuffled_classes),
    "a baseline whose answers are shuffled (churn)": (churn, "", _guessed),
    "a baseline whose answers are shuffled (tickets)": (tickets, "", _guessed),
    "a baseline whose answers are shuffled (energy)": (energy, "", _guessed),
    "a class that is never answered (tickets)": (tickets, "", _of("a class that is never answered")),
    "a class without rows (tickets)": (tickets, "", _of("a class without rows")),
    "a group that was lost (churn)": (churn, "", _of("a group that was lost")),
    "a group that was lost (tickets)": (tickets, "", _of("a group that was lost")),
    "a station that was lost (energy)": (energy, "", _lost_values),
    "a group whose confidence is wrong (churn)": (churn, "", _of("a group whose confidence is wrong")),
    "a group whose confidence is wrong (tickets)": (tickets, "", _of("a group whose confidence is wrong")),
    "wrong labels in one class (tickets)": (tickets, "", _of("wrong labels in one class")),
    "values that are all the same (energy)": (energy, "", _of("values that are all the same")),
    "values in another unit (energy)": (energy, "", _of("values in another unit")),
    "answers to nine tenths of the rows (churn)": (churn, "", _of("answers to nine tenths of the rows")),
    "raters who copied (tickets)": (tickets, "raters", _raters),
}  # fmt: skip


def names() -> Iterator[str]:
    """All defects: what, and in which data."""
    yield from HELD_OUT
    yield from (f"{what} (served)" for what in IN_CODE)


def told(name: str, folder: Path, *, planted: bool) -> tuple[str, list[str]]:
    """Verdict of a run, and what it rests on; clean where nothing is planted."""
    if name.endswith("(served)"):
        spec = served(folder, name.removesuffix(" (served)"), planted=planted)
    else:
        make, kind, plant = HELD_OUT[name]
        case = make(kind)
        if planted:
            plant(case, np.random.default_rng(list(names()).index(name)))
        write_case(case, folder)
        spec = case.spec
    (folder / "evalspec.yaml").write_text(write(spec))
    try:
        record, _ = go(folder / "evalspec.yaml", folder / "run")
    except EvalspecError as error:
        return "REFUSED", [str(error)[:100]]
    assert record.verdict is not None
    reasons = [f"{one.name} {one.status}" for one in record.verdict.decisions if one.blocking and one.status != "PASS"]
    seen = () if record.screens is None else record.screens.suspicions
    blind = {} if record.screens is None else record.screens.blind
    return record.verdict.word, reasons + [f"{one.screen}({one.subject})" for one in seen] + [*blind.values()]


@cache
def _clean(made: Any, kind: str, name: str) -> tuple[str, list[str]]:
    """End of a clean twin, of which several defects may share one; ``name`` is any of theirs."""
    with tempfile.TemporaryDirectory() as folder:
        return told(name, Path(folder), planted=False)


_FIRST: dict[tuple[Any, str], str] = {}


def clean(name: str) -> tuple[str, list[str]]:
    """End of the clean twin of a defect."""
    made: tuple[Any, str] = HELD_OUT[name][:2] if name in HELD_OUT else ("served", "plan" if "plan" in name else "")
    return _clean(*made, _FIRST.setdefault(made, name))


def main() -> int:
    """The campaign by hand: ``[--part K/N] [WORD ...]``."""
    words = sys.argv[1:]
    part, parts = 0, 1
    if words[:1] == ["--part"]:
        part, parts = (int(one) for one in words[1].split("/"))
        words = words[2:]
    chosen = [name for name in names() if not words or any(word in name for word in words)]
    # Twins that are shared stay in one part.
    makers = list(dict.fromkeys(_maker(name) for name in chosen))
    chosen = [name for name in chosen if makers.index(_maker(name)) % parts == part]
    caught = sound = 0
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            red, why = told(name, Path(folder), planted=True)
        green, doubts = clean(name)
        caught += red != "READY" or bool(why)
        sound += green == "READY" and not doubts
        sys.stdout.write(f"{name}: {red} {why}; clean: {green} {doubts}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{caught} of {len(chosen)} defects are told, {sound} of {len(chosen)} clean twins are READY\n")
    return 0


def _maker(name: str) -> str:
    return str(HELD_OUT[name][:2]) if name in HELD_OUT else "served"


if __name__ == "__main__":
    sys.exit(main())
