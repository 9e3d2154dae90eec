"""Defects in real data under specs that were written before: not READY, or told by a screen; clean twins are READY.

By hand: ``python -m tests.stories.defects [WORD ...]`` goes through all, or those whose name has one of these words.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from evalspec.errors import EvalspecError
from evalspec.language.yaml_text import write
from tests.running.small import go

Columns = dict[str, NDArray[Any]]
SIDES = ("train", "test", "traffic")


@dataclass
class Case:
    """Rows, answers and spec of a team; a defect changes rows and answers, never the spec.

    Args:
        sides: Rows of training, test and traffic, with ``id`` and ``y``.
        said: Model: probabilities of each test row, shape (n, C); or values, shape (n,).
        classes: Of the label; none where it is a number.
        spec: As the team wrote it.
        number: A column of numbers that matters.
        category: A column of categories; empty: there is none.
    """

    sides: dict[str, Columns]
    said: dict[str, NDArray[np.float64]]
    classes: tuple[str, ...]
    spec: dict[str, Any]
    number: str
    category: str
    keys: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """Model: keys of its answers, where these are others than those of the test rows."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Files beside them."""

    @property
    def test(self) -> Columns:
        """The test rows."""
        return self.sides["test"]

    def truth(self) -> NDArray[np.int64]:
        """Class index of each test row."""
        return np.array([self.classes.index(str(one)) for one in self.test["y"]])


Plant = Callable[[Case, np.random.Generator], None]


def _frame(name: str) -> tuple[Columns, str, str]:
    """Real rows with their label ``y``, a column of numbers that matters, and one of categories."""
    if name in ("digits", "tumours"):
        from sklearn.datasets import load_breast_cancer, load_digits

        if name == "tumours":
            x, y = load_breast_cancer(return_X_y=True)
            columns: Columns = {f"m{index}": x[:, index] for index in range(12)}
            return columns | {"y": np.array(["malignant", "benign"])[y]}, "m3", ""
        x, y = load_digits(return_X_y=True)
        blocks = x.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4)).reshape(len(x), 16)
        columns = {f"block{index}": blocks[:, index] for index in range(16)}
        columns["pen"] = np.array(["thin", "medium", "thick"])[np.digitize(x.sum(axis=1), [280, 330])]
        return columns | {"y": np.array([f"d{one}" for one in y])}, "block6", "pen"
    import statsmodels.api as sm

    table = getattr(sm.datasets, {"marriage": "fair", "election": "anes96"}[name]).load_pandas().data
    if name == "marriage":
        kept = {one: table[one].to_numpy() for one in table.columns if one not in ("affairs", "occupation")}
        kept["work"] = np.array([f"work {int(one)}" for one in table["occupation"]])
        return kept | {"y": np.where(table["affairs"] > 0, "yes", "no")}, "yrs_married", "work"
    kept = {
        one: table[one].to_numpy()
        for one in ("TVnews", "selfLR", "ClinLR", "DoleLR", "PID", "age", "income", "logpopul")
    }
    kept["school"] = np.where(table["educ"] <= 3, "school", np.where(table["educ"] <= 5, "college", "degree"))
    return kept | {"y": np.where(table["vote"] > 0, "dole", "clinton")}, "age", "school"


TOLERANCE = {"marriage": 0.1, "election": 0.3, "digits": 0.25, "tumours": 0.4}


@cache
def _trained(name: str) -> tuple[dict[str, Columns], dict[str, NDArray[np.float64]], tuple[str, ...], str, str]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    columns, number, category = _frame(name)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(columns["y"]))
    parts = np.array_split(order, 3)
    sides = {
        side: {key: values[part] for key, values in columns.items()} for side, part in zip(SIDES, parts, strict=True)
    }
    for side, part in zip(SIDES, parts, strict=True):
        sides[side]["id"] = part
    classes = tuple(sorted(set(columns["y"].tolist())))

    def features(rows: Columns) -> NDArray[np.float64]:
        wide = [rows[key].astype(float) for key in rows if rows[key].dtype.kind in "fi" and key != "id"]
        if category:
            wide += [(rows[category] == one).astype(float) for one in sorted(set(columns[category].tolist()))]
        return np.column_stack(wide)

    models = {
        "candidate": HistGradientBoostingClassifier(max_iter=25, max_depth=3, random_state=1),
        "baseline": HistGradientBoostingClassifier(max_iter=40, max_depth=3, random_state=0),
    }
    said = {}
    for model, estimator in models.items():
        estimator.fit(features(sides["train"]), sides["train"]["y"])
        said[model] = estimator.predict_proba(features(sides["test"]))
    return sides, said, classes, number, category


def tabular(name: str, *, shares: bool = False, entities: bool = False) -> Case:
    """Rows of a team that judges a classifier by its answers in a file.

    Args:
        name: Of the data.
        shares: The team asks for a share of drifted columns, as many do, instead of the worst column.
        entities: Rows are of customers.
    """
    sides, said, classes, number, category = _trained(name)
    sides = {side: dict(rows) for side, rows in sides.items()}
    if entities:
        for side, rows in sides.items():
            rows["customer"] = np.array([f"Customer {side[:2].upper()}-{one:05d}" for one in range(len(rows["y"]))])
    truth = np.array([classes.index(one) for one in sides["test"]["y"]])
    right = float(np.mean(said["candidate"].argmax(axis=1) == truth))
    drift = ["drifted_columns <= 10 %"] if shares else [f"shift <= {TOLERANCE[name]}", "missingness_shift <= 5 pp"]
    shift = {"check": "shift", "reference": "test", "current": "traffic", "require": drift}
    shift |= {"tolerance": TOLERANCE[name]} if shares else {}
    compared = [one for one in sides["test"] if one not in ("id", "y", "customer")]
    data: list[dict[str, Any]] = [
        {**shift, "columns": compared},
        {"check": "integrity", "dataset": "test", "require": ["missing_rate <= 2 %"]},
    ]
    if name not in ("marriage", "election"):
        # Rows of a few whole numbers are equal by chance.
        data.append(
            {"check": "contamination", "train": ["train"], "test": "test", "require": ["exact_duplicates == 0"]}
        )
    if entities:
        data.append({"check": "leakage", "train": ["train"], "test": "test", "group": "customer",
                     "require": ["group_overlap == 0"]})  # fmt: skip
    least = np.floor(100 * right) - (8 if len(truth) < 500 else 5)
    models = {
        model: {"kind": "predictions", "files": {"test": f"{model}.parquet"}, "artifact": f"{model}.bin",
                "outputs": {"probabilities": "p"}, "classes": list(classes)}
        for model in said
    }  # fmt: skip
    spec = {
        "evalspec": 1, "name": name, "models": models,
        "datasets": {side: {"kind": "parquet", "path": f"{side}.parquet", "key": "id"} | (
            {} if side == "traffic" else {"label": "y"}) for side in SIDES},
        "model": [{"check": "quality", "dataset": "test",
                   "require": [f"accuracy >= {least:.0f} %", "accuracy >= baseline - 8 pp"]}],
        "data": data,
    }  # fmt: skip
    return Case(sides, {model: one.copy() for model, one in said.items()}, classes, spec, number, category)


def regression() -> Case:
    """Rows of a team that judges a regression by its answers in a file."""
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import RidgeCV

    x, y = load_diabetes(return_X_y=True, scaled=False)
    order = np.random.default_rng(1).permutation(len(y))
    parts = dict(zip(SIDES, np.array_split(order, [120, 320]), strict=True))
    names = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")
    sides = {side: {one: x[part, index] for index, one in enumerate(names)} | {"y": y[part], "id": part}
             for side, part in parts.items()}  # fmt: skip
    said = {}
    for model, estimator in (("candidate", RidgeCV()), ("baseline", RandomForestRegressor(100, random_state=0))):
        estimator.fit(x[parts["train"]], y[parts["train"]])
        said[model] = estimator.predict(x[parts["test"]])
    models = {
        model: {"kind": "predictions", "files": {"test": f"{model}.parquet"}, "artifact": f"{model}.bin",
                "outputs": {"value": "p"}}
        for model in said
    }  # fmt: skip
    spec = {
        "evalspec": 1, "name": "regression", "models": models,
        "datasets": {side: {"kind": "parquet", "path": f"{side}.parquet", "key": "id"} | (
            {} if side == "traffic" else {"label": "y"}) for side in SIDES},
        "model": [{"check": "quality", "dataset": "test", "require": ["mae <= 60", "mae <= 1.3x baseline"]}],
        "data": [{"check": "integrity", "dataset": "test", "require": ["missing_rate <= 2 %"]}],
    }  # fmt: skip
    return Case(sides, said, (), spec, "bmi", "")


SERVED = """
import time
import numpy as np

KEPT = []
CALLS = [0]
RNG = np.random.default_rng()


def answer(inputs):
    CALLS[0] += 1
    texts = np.asarray(inputs["text"]).reshape(-1)
    good = np.array([str(one).count("good") > str(one).count("bad") for one in texts])
    {defect}
    p = np.where(good, 0.93, 0.07)
    return {{"p": np.stack([1 - p, p], axis=1)}}
"""
IN_CODE = {
    "": "pass",
    "its answers are not repeatable": "good = good ^ (RNG.random(len(good)) < 0.15)",
    "its first query takes 3 s": "time.sleep(3.0 if CALLS[0] == 1 else 0)",
    "long texts take very long": "time.sleep(max(max(len(str(one)) - 600, 0) for one in texts) * 1e-4)",
    "it keeps 200 KiB of each query": "KEPT.append(np.ones(25_600))",
    "it is slow in one query of twenty": "time.sleep(0.05 if CALLS[0] % 20 == 0 else 0)",
    "it fails in one query of ten": "assert CALLS[0] < 40 or CALLS[0] % 10",
}


def served(folder: Path, defect: str) -> dict[str, Any]:
    """A model in Python that is timed and judged; its texts are one in twelve long."""
    rng = np.random.default_rng(5)
    rows, words = 300, np.array(["good", "bad", "the", "film", "was", "a", "story"])
    texts = [" ".join(rng.choice(words, size=size)) for size in np.where(rng.random(rows) < 1 / 12, 200, 12)]
    y = np.array(["bad", "good"])[[int(one.count("good") > one.count("bad")) for one in texts]]
    pq.write_table(pa.table({"id": np.arange(rows), "text": texts, "y": y}), folder / "test.parquet")
    (folder / "own.py").write_text(SERVED.format(defect=IN_CODE[defect]))
    return {
        "evalspec": 1, "name": "served",
        "models": {"candidate": {"kind": "python", "function": "own:answer", "inputs": {"text": "text"},
                                 "artifact": "own.py", "outputs": {"probabilities": "p"}, "classes": ["bad", "good"]}},
        "datasets": {"test": {"kind": "parquet", "path": "test.parquet", "label": "y", "key": "id"}},
        "system": [{"check": "latency", "dataset": "test", "require": ["latency_p50 <= 5 ms"]}],
        "model": [{"check": "quality", "dataset": "test", "require": ["accuracy >= 70 %"]}],
    }  # fmt: skip


def _unit(case: Case, rng: np.random.Generator) -> None:
    case.sides["traffic"][case.number] = case.sides["traffic"][case.number] * 2.54


def _missing(case: Case, rng: np.random.Generator) -> None:
    cells = case.sides["traffic"][case.number].astype(float)
    case.sides["traffic"][case.number] = np.where(rng.random(len(cells)) < 0.3, np.nan, cells)


def _sentinel(case: Case, rng: np.random.Generator) -> None:
    cells = case.sides["traffic"][case.number].astype(float)
    case.sides["traffic"][case.number] = np.where(rng.random(len(cells)) < 0.08, -999.0, cells)


def _category(case: Case, rng: np.random.Generator) -> None:
    cells = case.sides["traffic"][case.category].astype(object)
    case.sides["traffic"][case.category] = np.where(rng.random(len(cells)) < 0.06, "not asked", cells).astype(str)


def _took(case: Case, rows: NDArray[np.int64]) -> None:
    """The test set consists of these of its rows, with new keys."""
    for name, values in case.test.items():
        case.test[name] = values[rows]
    case.test["id"] = np.arange(10**6, 10**6 + len(rows))
    case.said = {model: one[rows] for model, one in case.said.items()}


def _repeated(case: Case, rng: np.random.Generator) -> None:
    n = len(case.test["y"])
    _took(case, np.arange(n) % (n // 3))


def _jittered(case: Case, rng: np.random.Generator) -> None:
    _repeated(case, rng)
    for name, values in list(case.test.items()):
        if values.dtype.kind == "f":
            case.test[name] = values + rng.normal(0.0, 0.002 * (values.std() + 1e-9), len(values))


def _trained_on(case: Case, rng: np.random.Generator) -> None:
    some = rng.permutation(len(case.test["y"]))[: len(case.test["y"]) // 10]
    for name, values in case.sides["train"].items():
        case.sides["train"][name] = np.concatenate([values, case.test[name][some]])
    case.sides["train"]["id"] = np.arange(2 * 10**6, 2 * 10**6 + len(case.sides["train"]["y"]))


def _off_by_one(case: Case, rng: np.random.Generator) -> None:
    case.said["candidate"] = np.roll(case.said["candidate"], 1, axis=0)


def _another(case: Case, rng: np.random.Generator) -> None:
    case.said["candidate"] = case.said["baseline"].copy()


def _softmax(case: Case, rng: np.random.Generator) -> None:
    powers = np.exp(case.said["candidate"])
    case.said["candidate"] = powers / powers.sum(axis=1, keepdims=True)


def shuffled_classes(case: Case, rng: np.random.Generator) -> None:
    """The last class first."""
    case.said["candidate"] = case.said["candidate"][:, ::-1].copy()


def _guesses(case: Case, rng: np.random.Generator) -> None:
    case.said["baseline"] = rng.dirichlet(np.ones(len(case.classes)), len(case.test["y"]))


def _never(case: Case, rng: np.random.Generator) -> None:
    said = case.said["candidate"]
    said[:, -1] *= 0.02
    case.said["candidate"] = said / said.sum(axis=1, keepdims=True)


def _no_class(case: Case, rng: np.random.Generator) -> None:
    _took(case, np.flatnonzero(case.test["y"] != case.classes[-1]))


def _group(case: Case) -> NDArray[np.bool_]:
    values, counts = np.unique(case.test[case.category], return_counts=True)
    return np.asarray(case.test[case.category] == values[np.argsort(counts)[-2]])


def _lost(case: Case, rng: np.random.Generator) -> None:
    """Half of a group is answered with the classes in another order."""
    rows = np.flatnonzero(_group(case) & (rng.random(len(case.test["y"])) < 0.5))
    case.said["candidate"][rows] = case.said["candidate"][rows][:, ::-1]


def _sure(case: Case, rng: np.random.Generator) -> None:
    rows = np.flatnonzero(_group(case))
    said = case.said["candidate"][rows] ** 0.15
    case.said["candidate"][rows] = said / said.sum(axis=1, keepdims=True)


def _same(case: Case, rng: np.random.Generator) -> None:
    rows = {name: values.copy() for name, values in case.test.items() if name != "id"}
    case.sides["traffic"] = rows | {"id": np.arange(3 * 10**6, 3 * 10**6 + len(case.test["y"]))}


def _spelt(case: Case, rng: np.random.Generator) -> None:
    some = len(case.test["y"]) // 5
    case.test["customer"][:some] = [one.upper().replace("-", " ") for one in case.sides["train"]["customer"][:some]]


def _cut(case: Case, rng: np.random.Generator) -> None:
    n = 9 * len(case.test["y"]) // 10
    case.said["candidate"], case.keys["candidate"] = case.said["candidate"][:n], case.test["id"][:n]


def _noisy(case: Case, rng: np.random.Generator) -> None:
    flip = (case.test["y"] == case.classes[0]) & (rng.random(len(case.test["y"])) < 0.5)
    case.test["y"] = np.where(flip, case.classes[-1], case.test["y"])


def _constant(case: Case, rng: np.random.Generator) -> None:
    case.said["candidate"] = np.full(len(case.said["candidate"]), float(np.median(case.test["y"])))


def _thousands(case: Case, rng: np.random.Generator) -> None:
    case.said["candidate"] = case.said["candidate"] / 1000.0


def _broken_values(case: Case, rng: np.random.Generator) -> None:
    case.said["baseline"] = rng.permutation(case.said["baseline"])


EVERY = ("marriage", "election", "digits", "tumours")
GROUPS = ("marriage", "election", "digits")
OF_TABLES: dict[str, tuple[Plant, tuple[str, ...]]] = {
    "a unit changed in traffic": (_unit, EVERY),
    "cells went missing in traffic": (_missing, EVERY),
    "a sentinel in traffic": (_sentinel, EVERY),
    "a new category in traffic": (_category, GROUPS),
    "the test set is three copies of a third": (_repeated, ("election", "digits", "tumours")),
    "copies with noise in the test set": (_jittered, ("election", "digits", "tumours")),
    "test rows in training": (_trained_on, ("digits", "tumours")),
    "answers off by one row": (_off_by_one, ("election", "digits", "tumours")),
    "answers of another model": (_another, ("marriage", "election", "digits", "tumours")),
    "softmax twice": (_softmax, ("digits",)),
    "classes in another order": (shuffled_classes, ("election", "digits", "tumours")),
    "a baseline that guesses": (_guesses, ("tumours", "marriage", "election", "digits")),
    "a class that is never answered": (_never, ("tumours", "marriage", "election", "digits")),
    "a class without rows": (_no_class, ("marriage", "election", "digits")),
    "a group that was lost": (_lost, ("marriage", "election", "digits")),
    "a group whose confidence is wrong": (_sure, ("marriage", "election", "digits")),
    "traffic that is the test set": (_same, ("election", "digits", "tumours")),
    "customers in a different spelling": (_spelt, ("marriage", "digits")),
    "answers to nine tenths of the rows": (_cut, ("marriage", "tumours")),
    "wrong labels in one class": (_noisy, ("election", "digits")),
}
OF_VALUES: dict[str, Plant] = {
    "values that are all the same": _constant,
    "values in another unit": _thousands,
    "a baseline whose values are shuffled": _broken_values,
    "values of another model": _another,
}


def names() -> Iterator[str]:
    """All defects: what, and in which data."""
    for what, (_, datas) in OF_TABLES.items():
        yield from (f"{what} ({data})" for data in datas)
    yield from (f"{what} (diabetes)" for what in OF_VALUES)
    yield from (f"{what} (served)" for what in IN_CODE if what)


def told(name: str, folder: Path, *, planted: bool) -> tuple[str, list[str]]:
    """Verdict of a run, and what it rests on: what blocks, and what screens say; clean where nothing is planted."""
    what, _, data = name.removesuffix(")").rpartition(" (")
    if data == "served":
        spec = served(folder, what if planted else "")
    else:
        # Teams ask for drift in one of two ways.
        case = regression() if data == "diabetes" else tabular(
            data, shares=list(names()).index(name) % 2 == 0, entities="customers" in what
        )  # fmt: skip
        if planted:
            plant = OF_VALUES[what] if data == "diabetes" else OF_TABLES[what][0]
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
    return record.verdict.word, reasons + [f"{one.screen}({one.subject})" for one in seen]


def write_rows(sides: dict[str, Columns], folder: Path) -> None:
    """A file for each side."""
    for side, rows in sides.items():
        pq.write_table(pa.table({name: pa.array(values, from_pandas=True) for name, values in rows.items()}),
                       folder / f"{side}.parquet")  # fmt: skip


def write_case(case: Case, folder: Path) -> None:
    """Its rows, answers and files."""
    write_rows(case.sides, folder)
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
    for model, said in case.said.items():
        (folder / f"{model}.bin").write_bytes(b"weights of " + model.encode())
        keys = case.keys.get(model, case.test["id"])
        pq.write_table(pa.table({"id": keys, "p": said if said.ndim == 1 else list(said)}), folder / f"{model}.parquet")


def main() -> int:
    """The campaign by hand."""
    chosen = [name for name in names() if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    caught = sound = 0
    for name in chosen:
        ends = []
        for planted in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                ends.append(told(name, Path(folder), planted=planted))
        (red, why), (green, doubts) = ends
        caught += red != "READY" or bool(why)
        sound += green == "READY" and not doubts
        sys.stdout.write(f"{name}: {red} {why}; clean: {green} {doubts}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{caught} of {len(chosen)} defects are told, {sound} of {len(chosen)} clean twins are READY\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
