"""New specs for each profile, from the files that are there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto, helper, numpy_helper

from evalspec.errors import SpecError
from evalspec.evidence.profile import RequestedItem
from evalspec.language.registry import discover
from evalspec.language.yaml import read_text
from evalspec.loading import Spec, load
from evalspec.loading.profile import profile_names
from evalspec.loading.scan_folder import find, plain
from evalspec.loading.starter import profile_template, start
from evalspec.planning import plan

OWN = discover(plugins=False)
ROWS = 1000


LONGEST_S = 20 * 60
"""What a release may wait for what is only suggested."""


def a_model(operator: str, weights: np.ndarray[Any, Any], takes: str = "input", gives: str = "output") -> bytes:
    """One matrix between four features and two classes."""
    graph = helper.make_graph(
        [helper.make_node(operator, [takes, "w"], [gives])],
        "two classes",
        [helper.make_tensor_value_info(takes, TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info(gives, TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a team has beside its spec: two models, and data with all columns that any of the specs reads."""
    folder = tmp_path_factory.mktemp("files")
    half = ROWS // 2
    for name in ("test", "train", "traffic", "elsewhere"):
        answers = ["no", "yes"] * half
        columns: dict[str, Any] = {
            "features": np.zeros((ROWS, 4)).tolist(),
            "label": answers, "audited": answers, "reader_1": answers, "reader_2": answers,
            "group": ["a", "b"] * half,
            "question": [f"Is {name} {row} larger than {row // 2}?" for row in range(ROWS)],
            "patient": [f"{name}{row // 2}" for row in range(ROWS)],
        }  # fmt: skip
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    for name in ("model", "baseline"):
        (folder / f"{name}.onnx").write_bytes(a_model("MatMul", np.ones((4, 2), np.float32)))
        (folder / f"{name}.gguf").write_bytes(b"GGUF")
    (folder / "tokenizer.json").write_text("{}")
    return folder


def written(profile: str, files: Path, folder: Path) -> tuple[Spec, str]:
    """The spec that is written for a profile beside these files, read in full, and its text."""
    shutil.copytree(files, folder, dirs_exist_ok=True)
    path = start(folder, profile=profile, registry=OWN).spec
    return load(path, registry=OWN), path.read_text()


@pytest.mark.parametrize("name", profile_names())
def test_each_profile_s_spec_is_right_and_lacks_nothing_mandatory(name: str, files: Path, tmp_path: Path) -> None:
    spec, text = written(name, files, tmp_path)
    assert spec.profile is not None and spec.profile.name == name
    assert [one.name for one in _missing(spec) if one.mandatory] == []
    models = "" if "protocol: openai" in text else "model.onnx (candidate), baseline.onnx (baseline), "
    assert f"Found here: {models}test.parquet (test), " in text
    assert "Still to be added" not in text
    assert "is a suggestion" in text
    (example,) = re.findall(r"# +- {of: (\w+), why: Say why", text)
    assert example in [one.name for one in spec.profile.asked if one.mandatory]
    assert "@" not in text.replace("me@example.com", "")


@pytest.mark.parametrize("name", profile_names())
def test_what_is_suggested_is_measured_while_somebody_waits(name: str, files: Path, tmp_path: Path) -> None:
    spec, _ = written(name, files, tmp_path)
    assert sum(one.seconds for one in plan(spec).checks) < LONGEST_S


def test_a_spec_is_called_like_its_folder_so_that_two_of_them_share_no_history(tmp_path: Path) -> None:
    for folder, name in (("Gate 2", "gate-2"), ("-_", "my-model"), ("2026", '"2026"')):
        assert f"\nname: {name}\n" in profile_template("edge", tmp_path / folder, OWN)[0]


def test_inputs_and_outputs_are_called_what_the_file_calls_them(tmp_path: Path) -> None:
    weights = np.ones((4, 2), np.float32)
    (tmp_path / "net.onnx").write_bytes(a_model("MatMul", weights, "pixel values", "class_probability"))
    (tmp_path / "old.onnx").write_bytes(a_model("MatMul", weights, "x", "scores"))
    text, left = profile_template("tiny", tmp_path, OWN)
    assert left.endswith(": test.parquet, train.parquet, traffic.parquet.")
    assert (
        '    inputs: {"pixel values": features}\n    outputs: {probabilities: class_probability} # kind of output'
        in text
    )
    assert "    inputs: {x: features}\n    outputs: {logits: scores}\n    classes: [no, yes]\n" in text


@pytest.mark.parametrize("name", profile_names())
def test_what_is_commented_out_is_right_too(name: str, files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    text, left = profile_template(name, tmp_path, OWN)
    assert left == ""
    # An example of setting something aside, at the margin, needs something that is missing.
    opened = re.sub(r"^  # (?=(  )?[a-z-])", "  ", text, flags=re.MULTILINE)
    for kept, content in (("shut.yaml", text), ("open.yaml", opened)):
        (tmp_path / kept).write_text(content)
    before, after = (load(tmp_path / kept, registry=OWN) for kept in ("shut.yaml", "open.yaml"))
    more = [check.name for check in after.checks if check not in before.checks]
    assert more == (["slices"] if "  # - check: slices" in text else [])
    assert {one.name for one in _missing(before)} - {one.name for one in _missing(after)} == set(more)


def _missing(spec: Spec) -> tuple[RequestedItem, ...]:
    assert spec.profile is not None
    return spec.profile.missing


def test_a_spec_whose_checks_are_taken_out_lacks_them(files: Path, tmp_path: Path) -> None:
    _, text = written("edge", files, tmp_path)
    begin, end = text.index("  - check: sustained"), text.index("  - check: memory")
    (tmp_path / "s.yaml").write_text(text[:begin] + text[end:])
    assert [one.name for one in _missing(load(tmp_path / "s.yaml", registry=OWN)) if one.mandatory] == ["sustained"]


def test_key_entities_groups_and_classes_are_named_in_the_start(files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    columns: dict[str, Any] = {
        "image_id": [f"i{row}" for row in range(ROWS)],
        "features": np.zeros((ROWS, 4)).tolist(),
        "diagnosis": ["malignant", "benign"] * (ROWS // 2),
        "customer_id": [row // 3 for row in range(ROWS)],
        "site": ["north", "south", "west"] * (ROWS // 3) + ["north"] * (ROWS % 3),
        "night": [row % 2 == 0 for row in range(ROWS)],
        "note": [f"text {row}" for row in range(ROWS)],
    }
    for name in ("test", "train", "traffic"):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    text, _ = profile_template("tiny", tmp_path, OWN)
    assert "label: diagnosis, key: image_id, cluster: customer_id, origin" in text
    assert "    by: [site, night]\n" in text
    assert "classes: [benign, malignant]" in text
    assert "- recall(benign) >= 70 %\n      - recall(malignant) >= 70 %\n" in text
    assert "  - check: leakage\n    train: [train]\n    test: test\n    group: customer_id " in text
    (tmp_path / "s.yaml").write_text(text)
    assert "leakage" in [check.name for check in load(tmp_path / "s.yaml", registry=OWN).checks]
    # An entity that the training set does not name can't be looked for there.
    del columns["customer_id"]
    pq.write_table(pa.table(columns), tmp_path / "train.parquet")
    assert "check: leakage" not in profile_template("tiny", tmp_path, OWN)[0]


def test_a_column_that_names_nothing_is_left_out(files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    columns: dict[str, Any] = {
        "features": np.zeros((ROWS, 4)).tolist(), "label": np.linspace(0.0, 1.0, ROWS), "note": ["x"] * ROWS,
        "id": [0] * ROWS,
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "test.parquet")
    text, _ = profile_template("tiny", tmp_path, OWN)
    assert "label: label, origin" in text
    assert "  # - check: slices" in text
    assert "classes: [no, yes]" in text
    assert "recall(" not in text


def test_an_empty_folder_gets_names_to_replace(tmp_path: Path) -> None:
    text, left = profile_template("tiny", tmp_path / "nowhere", OWN)
    assert f"# {left}\n" in text
    assert "# Still to be added, or renamed in the spec: model.onnx, baseline.onnx, test.parquet, train.parquet" in text
    assert "Found here" not in text
    assert "path: model.onnx\n    precision: fp32\n    inputs: {input: features}" in text


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        ("MatMul", "precision: int8\n    quantization: {method: static, calibration: train}\n"),
        ("MatMulInteger", "precision: int8\n    quantization: {method: static, calibration: train}\n"),
    ],
)
def test_the_precision_is_that_of_the_file(tmp_path: Path, operator: str, said: str) -> None:
    (tmp_path / "int8.onnx").write_bytes(a_model(operator, np.ones((4, 2), np.int8)))
    (tmp_path / "fp32.onnx").write_bytes(a_model("MatMul", np.ones((4, 2), np.float32)))
    text, _ = profile_template("edge", tmp_path, OWN)
    assert f"path: int8.onnx\n    {said}" in text
    assert "path: fp32.onnx\n    precision: fp32\n    inputs" in text


def test_files_get_their_roles_by_their_names_and_columns_by_the_header(tmp_path: Path) -> None:
    for name in ("net.skops", "net-old.pt2", "valid.csv", "my train.csv", "prod.jsonl", "notes.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "valid.csv").write_text("id,no,width,name,Target\n1,2,3.5,a,0\n")
    found = find(tmp_path, OWN)
    assert found.models == {"candidate": ("sklearn", "net.skops"), "baseline": ("torch", "net-old.pt2")}
    assert found.datasets == {
        "test": ("csv", "valid.csv"),
        "train": ("csv", "my train.csv"),
        "traffic": ("jsonl", "prod.jsonl"),
        "elsewhere": ("parquet", "elsewhere.parquet"),
    }
    assert found.found == {"candidate", "baseline", "test", "train", "traffic"}
    assert (found.label, found.looks["candidate"].takes, found.doubles) == ("Target", {"X": "[no, width]"}, True)
    assert find(tmp_path / "nowhere", OWN).looks["candidate"].takes == {"input": "features"}


@pytest.mark.parametrize(
    ("names", "candidate", "baseline"),
    [
        (("only.onnx",), "only.onnx", "baseline.onnx"),
        (("fp32.onnx",), "fp32.onnx", "baseline.onnx"),
        (("a.onnx", "b.onnx"), "a.onnx", "b.onnx"),
        (("fp32.onnx", "int8.onnx"), "int8.onnx", "fp32.onnx"),
        (("fp32.onnx", "old.onnx"), "fp32.onnx", "old.onnx"),
    ],
)
def test_which_of_the_models_is_the_candidate(
    tmp_path: Path, names: tuple[str, ...], candidate: str, baseline: str
) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    found = find(tmp_path, OWN)
    assert (found.models["candidate"][1], found.models["baseline"][1]) == (candidate, baseline)


def test_one_data_file_is_the_test_set_and_one_that_can_t_be_read_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"no parquet")
    found = find(tmp_path, OWN)
    assert found.datasets["test"] == ("parquet", "rows.parquet")
    assert (found.label, found.looks["candidate"].takes) == ("label", {"input": "features"})


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        ("a,b,y,label\n1,2,3,4", "label"),
        ("a,b,churn_class,rest\n1.5,2,no,w", "churn_class"),
        ("width,height,kind\n1.5,2.5,a", "kind"),
        ("age,income,kind\n1,2.5,a", "kind"),
        ("text,code\nwords,1", "code"),
        ("id,width,code\n7,1.5,1", "code"),
        ("a,b\n1,2", "label"),
        ("code\n1", "label"),
    ],
)
def test_the_label_is_known_by_its_name_or_as_the_only_column_of_its_kind(
    tmp_path: Path, columns: str, label: str
) -> None:
    (tmp_path / "test.csv").write_text(f"{columns}\n")
    assert find(tmp_path, OWN).label == label


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        ("a,c,d,label\n1.5,2.5,3.5,0", {"A": "a", "b": "[c, d]"}),
        ("b,A,c,label\n1.5,2.5,3.5,0", {"A": "A", "b": "b"}),
        ("label\n0", {"A": "features", "b": "features"}),
    ],
)
def test_every_input_is_named_and_reads_the_column_of_its_name(
    tmp_path: Path, header: str, takes: dict[str, str]
) -> None:
    """``A`` and ``b``, one number each, put beside each other."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in ("A", "b")]
    gives = [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 2])]
    graph = helper.make_graph([helper.make_node("Concat", ["A", "b"], ["out"], axis=1)], "two inputs", given, gives)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "test.csv").write_text(f"{header}\n")
    assert find(tmp_path, OWN).looks["candidate"].takes == takes
    told = ", ".join(f"{name}: {columns}" for name, columns in takes.items())
    for profile in ("tiny", "cloud"):
        assert f"\n    inputs: {{{told}}}\n" in profile_template(profile, tmp_path, OWN)[0]


@pytest.mark.parametrize("text", ["true", "a: b", "2nd.csv", "[x]", "weiß", "a b", "null"])
def test_names_that_yaml_would_read_otherwise_are_quoted(text: str) -> None:
    assert read_text(f"name: {plain(text)}", "s").value == {"name": text}


def test_a_profile_that_is_none_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"unknown profile 'edgy' \(choices: cloud, .*did you mean 'edge'\?"):
        start(tmp_path, profile="edgy", registry=OWN)
    assert list(tmp_path.iterdir()) == []
