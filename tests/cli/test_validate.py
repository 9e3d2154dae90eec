from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evalspec.cli import app
from tests.loading.doubles import write_files
from tests.starting.files import frame, write_onnx

HEAVY = ["torch", "onnxruntime", "sklearn", "scipy", "pandas", "datasets", "transformers"]
QUICKSTART = Path(__file__).parents[2] / "suites" / "digits" / "evalspec.yaml"
SPEC = """\
evalspec: 1
name: demo
models:
  candidate: {kind: predictions, files: {test: test.parquet}, outputs: {label: y}}
datasets:
  test: {kind: parquet, path: test.parquet, key: lux, label: y}
  train: {kind: parquet, path: train.parquet, label: y}
model:
  - {check: quality, dataset: test, require: [accuracy >= 60 %]}
data:
  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = Path("s.yaml")
    path.write_text(SPEC)
    return path


def test_a_right_spec_is_said_to_be_right_with_what_was_not_verified(spec: Path) -> None:
    found = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("s.yaml: no errors found\n  2 checks (0 system, 1 model, 1 data), 2 requirements")
    assert "not verified:" in found.stdout


def test_json_is_for_machines(spec: Path) -> None:
    found = CliRunner().invoke(app, ["validate", "s.yaml", "--json"])
    (one,) = json.loads(found.stdout)["specs"]
    assert one["models"] == {"candidate": "predictions"}
    assert one["datasets"]["test"] == {"kind": "parquet", "rows": 50}
    assert one["checks"][0]["require"] == ["quality/accuracy"]


def test_every_mistake_is_a_line_and_the_exit_code_is_2(spec: Path) -> None:
    spec.write_text(SPEC.replace("label: y}\n  train", "label: yy}\n  train").replace("accuracy >=", "acuracy >="))
    found = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert found.exit_code == 2
    lines = found.stderr.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["s.yaml:6:62", "s.yaml:9:47"]
    assert "Traceback" not in found.output
    found = CliRunner().invoke(app, ["validate", "s.yaml", "--json"])
    assert found.exit_code == 2
    first = json.loads(found.stdout)["errors"][0]
    assert (first["line"], first["column"], first["path"]) == (6, 62, "datasets.test.label")
    assert first["remedy"] == "did you mean 'y'?"


def test_set_is_validated_too(spec: Path) -> None:
    arguments = ["validate", "s.yaml", "--set", "quality.require=[accuracy >= 55 %]"]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0
    assert "set on the command line: quality.require=[accuracy >= 55 %]" in found.stdout
    found = CliRunner().invoke(app, ["validate", "s.yaml", "--set", "qualty.x=1"])
    assert found.exit_code == 2
    assert "did you mean 'quality'?" in found.stderr


def test_a_file_that_is_not_there_is_a_sentence() -> None:
    found = CliRunner().invoke(app, ["validate", "no-such-file.yaml"])
    assert (found.exit_code, found.stderr) == (2, "error: no-such-file.yaml: there is no such file\n")


def test_validate_of_the_quickstart_loads_nothing_heavy() -> None:
    code = (
        "import sys; from evalspec.cli import app\n"
        f"try: app(['validate', {str(QUICKSTART)!r}], prog_name='evalspec')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_a_repository_may_allow_paths_outside(spec: Path) -> None:
    Path("inner").mkdir()
    Path("inner/s.yaml").write_text(
        SPEC.replace("test.parquet", "../test.parquet").replace("path: train", "path: ../train")
    )
    assert CliRunner().invoke(app, ["validate", "inner/s.yaml"]).exit_code == 2
    assert CliRunner().invoke(app, ["validate", "inner/s.yaml", "--allow-outside"]).exit_code == 0
    Path("pyproject.toml").write_text("[tool.evalspec]\nallow-outside = true\n")
    assert CliRunner().invoke(app, ["validate", "inner/s.yaml"]).exit_code == 0


FAULTY = """\
evalspec: 1
name: faulty
models:
  candidate: {kind: onnx, path: model.onnx, inputs: {input: [age, amount, hour]}, outputs: {logits: scores},
    classes: [a, b]}
  right: {kind: onnx, path: model.onnx, inputs: {input: [age, amount, hour]}, outputs: {logits: scores},
    preprocess: [{cast: float32}], classes: [fraud, paid]}
datasets:
  test: {kind: csv, path: test.csv, label: outcome}
  other: {kind: csv, path: other.csv}
model:
  - {check: quality, dataset: test, require: [accuracy >= 60 %]}
  - {id: second, check: quality, model: right, dataset: test, require: [accuracy >= 60 %, recall(fraud) >= 10 %]}
data:
  - {check: shift, reference: test, current: other, warn: [shift <= 0.3]}
"""


@pytest.mark.proof
def test_load_shows_at_once_what_a_run_would_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_onnx(tmp_path)
    frame(60).to_csv(tmp_path / "test.csv", index=False)
    frame(60).to_csv(tmp_path / "other.csv", index=False)
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(FAULTY)
    assert CliRunner().invoke(app, ["validate", "s.yaml"]).exit_code == 0
    found = CliRunner().invoke(app, ["validate", "s.yaml", "--load"])
    assert found.exit_code == 2
    errors = [line for line in found.stderr.splitlines() if line.startswith("error")]
    assert "s.yaml:4:14: models.candidate: the model's input 'input' takes float32 and got float64" in errors[0]
    assert "s.yaml:4:14: models.candidate: the label column 'outcome': 'fraud', 'paid' (60 of 60 rows)" in errors[1]
    assert len(errors) == 2
    Path("s.yaml").write_text(
        FAULTY.replace("classes: [a, b]}", "preprocess: [{cast: float32}], classes: [fraud, paid]}")
    )
    found = CliRunner().invoke(app, ["validate", "s.yaml", "--load"])
    assert found.exit_code == 0, found.output
    assert "  right: the first rows of test answered: " in found.stdout
    assert "not loaded" not in found.stdout


def test_placeholders_of_init_are_named(spec: Path) -> None:
    why = "Say here what goes wrong below this number; it is printed with a failure."
    aside = "waivers:\n  - {of: quality/accuracy, why: Say why., owner: me@example.com, expires: 2099-06-30}\n"
    spec.write_text(SPEC.replace("require: [accuracy", f'why: "{why}", require: [accuracy') + aside)
    found = CliRunner().invoke(app, ["validate", "s.yaml"])
    assert found.exit_code == 0, found.output
    assert "doubtful: quality: `why` is still the text of `init`" in found.stdout
    assert (
        "doubtful: waivers[0]: `why` is still the text of `init`; write why quality/accuracy is set aside"
        in found.stdout
    )
    assert "doubtful: waivers[0]: `owner: me@example.com` is still the example" in found.stdout


def test_a_pattern_of_columns_and_numbers_for_names_say_what_to_write(tmp_path: Path) -> None:
    write_onnx(tmp_path)
    frame(60).to_csv(tmp_path / "test.csv", index=False)
    wrong = FAULTY.partition("  right:")[0].replace("[age, amount, hour]", '"*"')
    text = wrong + "datasets:\n  test: {kind: csv, path: test.csv, label: outcome}\nmodel:\n"
    (tmp_path / "s.yaml").write_text(text + "  - {check: quality, dataset: test, require: [accuracy >= 60 %]}\n")
    found = CliRunner().invoke(app, ["validate", str(tmp_path / "s.yaml")])
    assert "test has no column '*'" in found.stderr
    assert "leave `inputs` out if the model knows its columns by name" in found.stderr


def test_labels_with_names_want_class_names(tmp_path: Path) -> None:
    from datasets import ClassLabel, Dataset, Features, Sequence, Value

    write_onnx(tmp_path)
    label = ClassLabel(names=["paid", "fraud"])
    features = Features({"x": Sequence(Value("float32"), length=3), "outcome": label})
    Dataset.from_dict({"x": [[1.0, 0, 0]] * 40, "outcome": [0, 1] * 20}, features=features).save_to_disk(
        tmp_path / "data"
    )
    (tmp_path / "s.yaml").write_text(
        "evalspec: 1\nname: x\nmodels:\n  candidate: {kind: onnx, path: model.onnx, outputs: {logits: scores}, "
        "classes: [paid, fraud]}\ndatasets:\n  test: {kind: huggingface, path: data, label: outcome}\n"
        "model:\n  - {check: quality, dataset: test, require: [accuracy >= 60 %]}\n"
    )
    found = CliRunner().invoke(app, ["validate", str(tmp_path / "s.yaml")])
    assert "s.yaml:6:48: datasets.test.label: the labels of test are read as numbers" in found.stderr
    assert "the dataset calls 0 'paid'; add `class_names: true` to datasets.test" in found.stderr
