from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalspec.errors import SpecError
from evalspec.language.requirement import Requirement
from evalspec.language.yaml import read_text
from evalspec.language.yaml_text import write
from evalspec.loading import LoadOptions, load, load_all
from evalspec.loading.summary import summary, to_json
from tests.loading.conftest import Load, Refused
from tests.loading.doubles import REGISTRY, ROWS, SPEC, Timing


def test_a_spec_that_is_right_comes_out_whole(read: Load, folder: Path) -> None:
    spec = read()
    assert (spec.name, spec.seed, spec.file, spec.folder) == ("demo", 0, "s.yaml", folder)
    assert [check.name for check in spec.checks] == ["timing", "score", "overlap"]
    assert spec.names.models == ("candidate", "baseline")
    assert spec.model[0].require[1] == Requirement(
        "accuracy(dark) >= 80 %", "accuracy", "dark", ">=", 0.8, "fraction", written_unit="%"
    )
    assert isinstance(spec.system[0], Timing)
    assert spec.system[0].duration_s == 10
    assert spec.headers["test"].rows == ROWS
    assert (spec.policy.confidence, spec.policy.inconclusive) == (0.95, "block")
    assert spec.text == SPEC
    assert spec.check("score") is spec.model[0]
    assert spec.check("nothing") is None


def test_a_spec_is_frozen_and_can_be_sent_to_another_process(read: Load) -> None:
    spec = read()
    with pytest.raises(AttributeError):
        spec.seed = 3  # type: ignore[misc]  # that it can't be set is what is shown
    with pytest.raises(ValueError, match="frozen"):
        spec.model[0].why = "because"  # type: ignore[misc]  # likewise
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_the_digest_is_of_the_content(read: Load) -> None:
    digest = read().digest
    assert read(SPEC.replace("name: demo", "name:   demo # a comment")).digest == digest
    assert read(SPEC.replace("90 %", "91 %")).digest != digest
    assert len(digest) == 64


@pytest.mark.parametrize(("confidence", "needed"), [("0.9", 460), ("0.95", 598), ("0.99", 919)])
def test_what_can_pass_is_judged_at_the_policys_confidence(refused: Refused, confidence: str, needed: int) -> None:
    """The first powers of 0.995 below 10 %, 5 % and 1 %."""
    (sentence,) = refused(SPEC.replace("90 %", "99.5 %") + f"policy: {{confidence: {confidence}}}\n")
    assert "can never pass" in sentence and f"it takes {needed}" in sentence


def test_waivers_claims_and_policy_are_read(read: Load) -> None:
    spec = read(
        SPEC
        + "policy: {confidence: 0.9, inconclusive: allow}\n"
        + "waivers: [{of: score/accuracy(dark), why: w, owner: o, expires: 2026-12-31}, "
        + "{of: subject, why: w, owner: o, expires: 2026-12-31}]\n"
        + "claims: [{metric: throughput, value: 1200 qps, by: vendor, conditions: {batch: 64}, excludes: [transfer]}, "
        + "{metric: accuracy, value: 0.97, by: vendor}]\n"
    )
    assert (spec.policy.confidence, spec.policy.inconclusive) == (0.9, "allow")
    assert [waiver.of for waiver in spec.waivers] == ["score/accuracy(dark)", "subject"]
    assert [claim.value for claim in spec.claims] == ["1200 qps", "0.97"]
    assert [claim.excludes for claim in spec.claims] == [("transfer",), ()]
    (line,) = [line for line in spec.unverified if "claims" in line]
    assert line == "claims of throughput: no check of this spec measures them"


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("accuracy", []),
        ("acuracy", ["a score of owner/name: no requirement on the model asks for acuracy; did you mean 'accuracy'?"]),
        ("latency_p99", ["a score of owner/name: no requirement on the model asks for latency_p99"]),
    ],
)
def test_a_benchmark_whose_score_nobody_asks_for_is_said(read: Load, metric: str, said: list[str]) -> None:
    hub = f"hub: {{id: owner/name, task: default, metric: {metric}}}, "
    found = [line for line in read(SPEC.replace("label: ", f"{hub}label: ", 1)).unverified if "a score of" in line]
    assert found == said


def test_the_last_day_of_a_waiver_is_said(read: Load) -> None:
    spec = read(SPEC + "waivers: [{of: score/accuracy, why: w, owner: o, expires: 2020-01-31}]\n")
    assert "whether the waiver of score/accuracy still holds: 2020-01-31 is its last day" in spec.unverified


def test_slo_and_sla(read: Load) -> None:
    text = SPEC.replace("require: [latency_p99 <= 5 ms]", "slo: latency_p99 <= 5 ms\n    sla: latency_p99 <= 8 ms")
    check = read(text).system[0]
    assert check.slo is not None
    assert check.sla is not None
    assert (check.slo.threshold, check.sla.threshold) == (5, 8)
    assert check.blocking == (check.slo,)


def test_a_mean_may_warn_and_may_not_block(read: Load, refused: Refused) -> None:
    assert read(SPEC.replace("require: [latency_p99 <= 5 ms]", "warn: [latency_mean <= 5 ms]")).system[0].warn
    for key in ("require: [latency_mean <= 5 ms]", "slo: latency_mean <= 5 ms"):
        (said,) = refused(SPEC.replace("require: [latency_p99 <= 5 ms]", key))
        assert "a mean hides slow queries" in said


def test_the_label_s_unit_is_that_of_the_check_s_dataset(read: Load, refused: Refused) -> None:
    with_unit = SPEC.replace("label: y}", "label: y, label_unit: min}")
    found = read(with_unit.replace("accuracy >= 90 %", "mae <= 180 s")).model[0].require[0]
    assert (found.threshold, found.unit) == (3, "min")
    (said,) = refused(SPEC.replace("accuracy >= 90 %", "mae <= 3 min"))
    assert "add `label_unit: min` to the dataset" in said


def test_a_data_check_has_no_model_to_compare_with(refused: Refused) -> None:
    (said,) = refused(SPEC.replace("duplicates == 0", "duplicates <= baseline"))
    assert said == (
        "s.yaml:26:15: data[0].require[0]: overlap checks data only, so it can't be compared with 'baseline'; "
        "write duplicates <= followed by a number"
    )


def test_two_checks_of_a_kind_each_have_an_id(read: Load) -> None:
    second = "  - check: score\n    id: night\n    dataset: train\n    require: [ece <= 0.1]\ndata:\n"
    text = SPEC.replace("data:\n", second).replace("path: train.parquet", "path: train.parquet, label: y")
    assert [check.name for check in read(text).model] == ["score", "night"]


def test_without_files_nothing_is_looked_at(read: Load, folder: Path) -> None:
    for name in ("test.parquet", "model.bin"):
        (folder / name).unlink()
    spec = read(options=LoadOptions(files=False))
    assert spec.headers == {}


def test_a_path_may_leave_the_folder_where_that_is_allowed(read: Load, folder: Path) -> None:
    (folder.parent / "outside.bin").write_bytes(b"x")
    text = SPEC.replace("path: old.bin", "path: ../outside.bin")
    with pytest.raises(SpecError, match="lies outside the spec's folder"):
        read(text)
    assert read(text, options=LoadOptions(allow_outside=True)).models["baseline"]


def test_what_was_not_verified_is_said(read: Load, folder: Path) -> None:
    (folder / "test.csv").write_text("lux,site,y\n1,lab,0\n2,lab,1\n")
    text = SPEC.replace("kind: parquet, path: test.parquet", "kind: csv, path: test.csv, where: lux > 1")
    spec = read(text)
    said = "\n".join(spec.unverified)
    assert "models were found but not loaded" in said
    assert "how many rows of test `where` keeps" in said
    lines = list(summary(spec))
    assert lines[0] == "s.yaml: no errors found"
    assert lines[1] == ("  3 checks (1 system, 1 model, 1 data), 4 requirements that block, 0 warnings, 0 waivers")
    assert set(spec.unverified) <= {line.strip() for line in lines}
    assert to_json(spec)["checks"][0]["require"] == ["timing/latency_p99"]


def test_code_that_needs_trust_is_named(read: Load) -> None:
    text = SPEC.replace("{kind: file, path: old.bin}", "{kind: code, path: old.bin}")
    sentence = "baseline: `run` needs --trust for code that the spec names"
    assert sentence in read(text).asks
    assert sentence not in read(text, options=LoadOptions(trust=True)).asks


def test_several_specs_are_refused_together(folder: Path) -> None:
    Path("a.yaml").write_text("a: 1\n")
    Path("b.yaml").write_text("")
    with pytest.raises(SpecError) as caught:
        load_all([(Path("a.yaml"), LoadOptions()), (Path("b.yaml"), LoadOptions())])
    assert {problem.file for problem in caught.value.problems} == {"a.yaml", "b.yaml"}


def test_a_python_field_name_is_no_key(refused: Refused) -> None:
    (said,) = refused(SPEC.replace("duration: 10 s", "duration_s: 10 s"))
    assert "unknown key 'duration_s'" in said


def test_sentences_and_names_are_read_from_python_too() -> None:
    check = Timing.model_validate({"dataset": "any", "duration": "1 min", "require": ["latency_p99 <= 5 ms"]})
    assert check.require[0].threshold == 5
    for wrong, sentence in (
        ({"require": ["latency_p99 >= 5 ms"]}, "points the wrong way"),
        ({"require": "latency_p99 <= 5 ms"}, "is not a list"),
        ({"slo": "latency_mean <= 5 ms"}, "a mean hides slow queries"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Timing.model_validate({"dataset": "any", **wrong})


def test_nothing_heavy_is_loaded(folder: Path) -> None:
    # Of the whole tool, only what reads headers may come in: pyarrow, and numpy with it.
    Path("s.yaml").write_text(
        "evalspec: 1\nname: x\ndatasets:\n  test: {kind: parquet, path: test.parquet, key: lux, label: y}\n"
        "slices: [{name: dark, where: lux < 3}]\n"
        "models:\n  candidate: {kind: predictions, files: {test: test.parquet}, outputs: {label: y}}\n"
        "model:\n  - {check: quality, dataset: test, require: [accuracy >= 60 %]}\n"
    )
    heavy = ["torch", "onnxruntime", "onnx", "sklearn", "scipy", "pandas", "datasets", "transformers"]
    code = (
        "import sys; from evalspec.loading import load; spec = load('s.yaml'); assert spec.headers['test'].rows;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


KEYS = st.sampled_from(
    [
        *("evalspec", "name", "seed", "models", "datasets", "slices", "system", "model", "data", "policy", "waivers"),
        *("claims", "kind", "path", "check", "dataset", "require", "warn", "slo", "sla", "where", "of", "why", "label"),
        *("inputs", "classes", "id", "report_only", "duration", "bins", "train", "test", "column", "quantization"),
    ]
)
LEAVES = st.sampled_from(
    [
        *(None, True, 0, -1, 3.5, "", "x", "test", "candidate", "score", "timing", "file", "parquet", "dark", "10 s"),
        *("accuracy >= 90 %", "latency_p99 <= 1.2x baseline", "lux < 100", "2026-12-31", "model.bin", "../x", "\x00"),
        "a" * 300,
    ]
)


@pytest.mark.proof
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=50
)
@given(data=st.data())
def test_no_document_breaks_the_loader(data: st.DataObject, folder: Path) -> None:
    """A right spec with a few random changes is loaded, or refused with sentences."""
    document = copy.deepcopy(yaml.safe_load(SPEC))
    for _ in range(data.draw(st.integers(1, 3))):
        node, parents = document, []
        while isinstance(node, dict | list) and node and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
            parents.append((node, key))
            node = node[key]
        value = data.draw(
            st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
        )
        if parents:
            holder, key = parents[-1]
            holder[key] = value
        elif isinstance(document, dict):
            document[data.draw(KEYS)] = value
    path = folder / "fuzz.yaml"
    path.write_text(write(document), encoding="utf-8")
    try:
        load(path, registry=REGISTRY)
    except SpecError as error:
        assert all(problem.file for problem in error.problems)


def test_the_text_of_a_spec_reads_back(read: Load) -> None:
    spec = read(overrides=["seed=5"])
    assert (
        read_text(spec.text, "again").value == read_text(SPEC.replace("name: demo", "name: demo\nseed: 5"), "s").value
    )
