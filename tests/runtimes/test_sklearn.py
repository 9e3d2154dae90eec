"""scikit-learn models through the whole pipeline."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.runtimes._inputs import DatasetFacts
from evalspec.runtimes._serve import Served
from evalspec.runtimes.sklearn import Sklearn
from tests.runtimes.conftest import array

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
    with pytest.raises(InputError, match=r"does not know to be harmless: .*tuple_of.*pass --trust"):
        Sklearn(path="m.skops").load(access)


def tuple_of(x: object) -> object:
    return (x,)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the model file 'm.skops' is empty"),
        (b"no zip at all", "'m.skops' is no skops file, or a truncated one"),
    ],
)
def test_files_that_hold_no_model(tmp_path: Path, access: Access, content: bytes, sentence: str) -> None:
    (tmp_path / "m.skops").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        Sklearn(path="m.skops").load(access)


def test_truncated_and_foreign_archives(tmp_path: Path, access: Access, estimators: dict[str, bytes]) -> None:
    (tmp_path / "m.skops").write_bytes(estimators["plain.skops"][:-200])
    with pytest.raises(InputError, match=r"no skops file, or a truncated one"):
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
