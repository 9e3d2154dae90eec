"""scikit-learn models through the whole pipeline."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.sklearn import Sklearn
from tests.small_models import array

FACTS = DatasetFacts("test", label="label", key="key")


def served(access: Access, **fields: object) -> Served:
    model = Sklearn.model_validate({"kind": "sklearn"} | fields)
    return Served(model, model.load(access, threads=1), access, FACTS)


def test_a_classifier_gives_its_own_probabilities_and_classes(
    tmp_path: Path, access: Access, rows: pa.Table, estimators: dict[str, bytes]
) -> None:
    import skops.io

    (tmp_path / "m.skops").write_bytes(estimators["plain.skops"])
    answers = served(access, path="m.skops", inputs={"X": "x"}).predict_all(rows, batch=3)
    estimator = skops.io.loads(estimators["plain.skops"])
    assert answers.classes == ("cat", "dog", "owl")
    assert answers.probabilities is not None and answers.predicted is not None
    np.testing.assert_allclose(answers.probabilities, estimator.predict_proba(array(rows)), rtol=1e-12)
    assert [answers.classes[i] for i in answers.predicted] == list(estimator.predict(array(rows)))
    assert answers.n == 10 and answers.details["batch"] == 3


def test_named_columns_are_fed_by_name_whatever_their_order(
    tmp_path: Path, access: Access, rows: pa.Table, estimators: dict[str, bytes]
) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["named.skops"])
    plain = served(access, path="m.skops").predict_all(rows)
    turned = served(access, path="m.skops").predict_all(rows.select(["x3", "label", "x1", "x0", "key", "x2"]))
    listed = served(access, path="m.skops", inputs={"X": ["x2", "x0", "x3", "x1"]}).predict_all(rows)
    assert plain.probabilities is not None
    np.testing.assert_array_equal(plain.probabilities, turned.probabilities)
    np.testing.assert_array_equal(plain.probabilities, listed.probabilities)


def test_a_column_that_the_estimator_was_fitted_on_is_missing(
    tmp_path: Path, access: Access, rows: pa.Table, estimators: dict[str, bytes]
) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["named.skops"])
    with pytest.raises(InputError, match=r"lacks 1 of the 4 columns .* first 'x2' .*did you mean"):
        served(access, path="m.skops").predict_all(rows.drop_columns(["x2"]))


def test_an_estimator_that_only_transforms_gives_embeddings(tmp_path: Path, access: Access, rows: pa.Table) -> None:
    import skops.io
    from sklearn.decomposition import PCA

    estimator = PCA(2, random_state=0).fit(array(rows))
    skops.io.dump(estimator, tmp_path / "m.skops")
    answers = served(access, path="m.skops", inputs={"X": "x"}).predict_all(rows, batch=3)
    assert answers.task == "embedding" and answers.embeddings is not None
    np.testing.assert_allclose(answers.embeddings, estimator.transform(array(rows)), rtol=1e-5, atol=1e-6)


def test_other_outputs(tmp_path: Path, access: Access, rows: pa.Table, estimators: dict[str, bytes]) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["plain.skops"])
    common = {"path": "m.skops", "inputs": {"X": "x"}}
    default = served(access, **common).predict_all(rows)
    label = served(access, **common, outputs={"label": "predict"}).predict_all(rows)
    logits = served(access, **common, outputs={"logits": "decision_function"}).predict_all(rows)
    assert label.probabilities is None
    np.testing.assert_array_equal(label.predicted, default.predicted)
    assert logits.probabilities is not None and default.probabilities is not None
    np.testing.assert_allclose(logits.probabilities, default.probabilities, rtol=1e-9)
    with pytest.raises(InputError, match=r"no method 'transform' \(choices: predict_proba"):
        served(access, **common, outputs={"label": "transform"})


def test_a_regressor_gives_values(tmp_path: Path, access: Access, rows: pa.Table, estimators: dict[str, bytes]) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["regressor.skops"])
    answers = served(access, path="m.skops", inputs={"X": ["x0", "x1", "x2", "x3"]}).predict_all(rows)
    assert answers.classes is None and answers.probabilities is None and answers.values is not None
    np.testing.assert_allclose(answers.values, array(rows) @ [1.0, 2.0, 3.0, 4.0], rtol=1e-5)


def test_joblib_needs_trust(
    tmp_path: Path, access: Access, trusted: Access, rows: pa.Table, estimators: dict[str, bytes]
) -> None:
    (tmp_path / "m.joblib").write_bytes(estimators["plain.joblib"])
    model = Sklearn(path="m.joblib", inputs={"X": "x"})
    with pytest.raises(InputError, match=r"'m.joblib' is a pickle.*pass --trust"):
        model.load(access)
    assert Served(model, model.load(trusted), trusted, FACTS).predict_all(rows).n == 10


def test_a_skops_file_with_unknown_types_names_them(tmp_path: Path, access: Access) -> None:
    import skops.io
    from sklearn.preprocessing import FunctionTransformer

    skops.io.dump(FunctionTransformer(func=tuple_of), tmp_path / "m.skops")
    with pytest.raises(InputError, match=r"not known to be harmless: .*tuple_of.*pass --trust"):
        Sklearn(path="m.skops").load(access)


def tuple_of(x: object) -> object:
    return (x,)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the model file 'm.skops' is empty"),
        (b"no zip at all", "'m.skops' is not a skops file, or a truncated one"),
    ],
)
def test_files_that_hold_no_model(tmp_path: Path, access: Access, content: bytes, sentence: str) -> None:
    (tmp_path / "m.skops").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        Sklearn(path="m.skops").load(access)


def test_truncated_and_foreign_archives(tmp_path: Path, access: Access, estimators: dict[str, bytes]) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["plain.skops"][:-200])
    with pytest.raises(InputError, match=r"not a skops file, or a truncated one"):
        Sklearn(path="m.skops").load(access)
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "hello")
    (tmp_path / "m.skops").write_bytes(other.getvalue())
    with pytest.raises(InputError, match=r"can't be read as a skops file"):
        Sklearn(path="m.skops").load(access)


def test_no_such_file_and_no_way_out_of_the_folder(tmp_path: Path, access: Access) -> None:
    with pytest.raises(InputError, match=r"there is no file or folder 'm.skops'"):
        Sklearn(path="m.skops").load(access)
    with pytest.raises(InputError, match=r"lies outside the spec's folder; pass --allow-outside"):
        Sklearn(path="../m.skops").load(access)


def test_it_has_no_gpu() -> None:
    with pytest.raises(ValidationError, match=r"scikit-learn runs on the cpu"):
        Sklearn(path="m.skops", device="cuda:0")


def test_what_was_observed(tmp_path: Path, access: Access, estimators: dict[str, bytes]) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["named.skops"])
    loaded = Sklearn(path="m.skops").load(access, threads=1)
    assert loaded.observed["precision"] == "fp64"
    assert loaded.observed["device"] == "cpu" and loaded.observed["threads"] == 1
    assert str(loaded.observed["framework"]).startswith("scikit-learn ")
    loaded.close()


def _fitted() -> dict[str, tuple[object, object]]:
    """Ordinary estimators, and rows that they were fitted on."""
    import pandas as pd
    from sklearn import compose, ensemble, impute, linear_model, neural_network, pipeline, preprocessing, tree
    from sklearn.base import clone
    from sklearn.calibration import CalibratedClassifierCV

    rng = np.random.default_rng(3)
    numbers = rng.normal(size=(120, 3))
    classes = np.digitize(numbers[:, 0], [-0.5, 0.5])
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    frame["site"] = np.where(numbers[:, 1] > 0, "lab", "field")

    def columns() -> object:
        scaled = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
        return compose.ColumnTransformer(
            [("n", scaled, ["a", "b", "c"]), ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["site"])]
        )

    boosting = ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0)
    estimators = {
        "boosting": (boosting, numbers),
        "boosting_zero": (ensemble.GradientBoostingClassifier(n_estimators=3, init="zero", random_state=0), numbers),
        "boosting_values": (ensemble.GradientBoostingRegressor(n_estimators=3, random_state=0), numbers),
        "forest": (ensemble.RandomForestClassifier(n_estimators=3, max_leaf_nodes=8, random_state=0), numbers),
        "tree": (tree.DecisionTreeRegressor(random_state=0), numbers),
        "histogram": (ensemble.HistGradientBoostingClassifier(max_iter=3, random_state=0), numbers),
        "calibrated": (
            CalibratedClassifierCV(ensemble.RandomForestClassifier(n_estimators=2, random_state=0)),
            numbers,
        ),
        "network": (neural_network.MLPClassifier((4,), max_iter=5, random_state=0), numbers),
        "linear": (pipeline.make_pipeline(columns(), linear_model.LogisticRegression()), frame),
        "boosted_columns": (pipeline.make_pipeline(columns(), clone(boosting)), frame),
    }
    for estimator, rows in estimators.values():
        estimator.fit(rows, classes)
    return estimators


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ordinary_estimators_need_no_trust(tmp_path: Path, access: Access) -> None:
    import skops.io

    for name, (estimator, rows) in _fitted().items():
        skops.io.dump(estimator, tmp_path / f"{name}.skops")
        loaded = Sklearn(path=f"{name}.skops", outputs={"label": "predict"}).load(access, threads=1)
        fed = {column: np.asarray(rows[column]) for column in rows} if hasattr(rows, "columns") else {"X": rows}
        np.testing.assert_array_equal(loaded.predict(fed)["predict"], estimator.predict(rows), err_msg=name)
        loaded.close()


def test_a_foreign_type_beside_a_tree_is_named_alone(tmp_path: Path, access: Access) -> None:
    import skops.io
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.tree import DecisionTreeClassifier

    estimator = make_pipeline(FunctionTransformer(func=np.abs), DecisionTreeClassifier())
    estimator.fit([[0.0], [1.0]], [0, 1])
    estimator.steps[0][1].func = tuple_of
    skops.io.dump(estimator, tmp_path / "m.skops")
    with pytest.raises(InputError, match=r"not known to be harmless: tests\.runtimes\.test_sklearn\.tuple_of; pass"):
        Sklearn(path="m.skops").load(access)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("left_child", 10**6, "point outside it or back"),
        ("right_child", 0, "point outside it or back"),
        ("feature", 77, "reads a column outside the 3"),
        ("feature", -5, "reads a column outside the 3"),
    ],
)
@pytest.mark.parametrize("name", ["tree", "forest", "boosting"])
def test_a_tree_that_points_outside_itself_is_refused(
    tmp_path: Path, access: Access, name: str, field: str, value: int, sentence: str
) -> None:
    import skops.io

    estimator = _few()[name]
    owner = estimator if name == "tree" else np.ravel(estimator.estimators_)[-1]
    state = owner.tree_.__getstate__()
    state["nodes"][field][0] = value
    owner.tree_.__setstate__(state)
    skops.io.dump(estimator, tmp_path / "m.skops")
    with pytest.raises(InputError, match=sentence):
        Sklearn(path="m.skops").load(access)


def _few() -> dict[str, object]:
    from sklearn import ensemble, tree

    rng = np.random.default_rng(4)
    numbers = rng.normal(size=(60, 3))
    classes = (numbers[:, 0] > 0).astype(int)
    return {
        "tree": tree.DecisionTreeClassifier(random_state=0).fit(numbers, classes),
        "forest": ensemble.RandomForestClassifier(n_estimators=2, random_state=0).fit(numbers, classes),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=2, random_state=0).fit(numbers, classes),
        "histogram": ensemble.HistGradientBoostingClassifier(max_iter=2, random_state=0).fit(numbers, classes),
    }


def test_trees_that_do_not_belong_together_are_refused(tmp_path: Path, access: Access) -> None:
    import skops.io

    few = _few()
    few["forest"].n_features_in_ = 2
    few["boosting"].estimators_ = np.hstack([few["boosting"].estimators_] * 2)
    few["histogram"]._predictors[0][0].nodes["left"][0] = 999
    for name, sentence in (
        ("forest", "takes 3 columns inside an estimator that takes 2"),
        ("boosting", "a different number of trees than sums"),
        ("histogram", "point outside it or back"),
    ):
        skops.io.dump(few[name], tmp_path / "m.skops")
        with pytest.raises(InputError, match=sentence):
            Sklearn(path="m.skops").load(access)


def test_a_file_of_another_kind_is_known_by_its_name(tmp_path: Path, access: Access) -> None:
    (tmp_path / "test.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"'test.csv' ends in .csv, .*choices: .skops, .joblib, .pkl, .pickle"):
        Sklearn(path="test.csv").files(access)


def test_the_label_is_no_column_of_a_model(
    tmp_path: Path, access: Access, rows: pa.Table, estimators: dict[str, bytes]
) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["named.skops"])
    model = Sklearn(path="m.skops")
    facts = DatasetFacts("test", label="x2", key="key")
    with pytest.raises(InputError, match=r"reads 'x2', which is the label of test"):
        Served(model, model.load(access, threads=1), access, facts).predict_all(rows)


def test_the_steps_of_a_pipeline_are_stages_that_come_to_the_same_answers(
    tmp_path: Path, access: Access, rows: pa.Table, estimators: dict[str, bytes]
) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["named.skops"])
    query = served(access, path="m.skops").rows(rows)
    assert [name for name, _ in query.steps()] == ["frame", "standardscaler", "inference", "postprocess"]
    value: Any = query.take(np.arange(6))
    whole = query.answers(query.serve(value))
    for _, step in query.steps():
        value = step(value)
    np.testing.assert_array_equal(value, whole)


def test_an_estimator_without_steps_is_one_stage(
    tmp_path: Path, access: Access, rows: pa.Table, estimators: dict[str, bytes]
) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["plain.skops"])
    query = served(access, path="m.skops", inputs={"X": "x"}).rows(rows)
    assert [name for name, _ in query.steps()] == ["inference", "postprocess"]
