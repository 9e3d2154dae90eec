"""`likelihood` through the command line: a real model, in a process of its own, and its evidence read again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.causal_models import documents, language_models, reads_language_models
from tests.stories.telling import command

pytestmark = [pytest.mark.proof, reads_language_models]


CODES = {"fp16": 0, "int4": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two specs with a run of each; who changes something works on a copy."""
    models, made = language_models(tmp_path_factory), tmp_path_factory.mktemp("likelihood")
    for name in ("fp32", *CODES):
        shutil.copytree(models / name, made / name)
    pq.write_table(pa.table({"body": documents(320)}), made / "text.parquet")
    for name, code in CODES.items():
        done = command("run", write(made, name), "--quiet", "--output", str(made / f"run-{name}"))
        assert done.exit_code == code, done.output
    return made


def write(folder: Path, candidate: str) -> str:
    require = [
        "perplexity <= 1.005x baseline", "bits_per_byte <= 5", "divergence <= 0.001", "top_token_flips <= 4 %",
        "next_token_accuracy >= baseline - 2 pp",
    ]  # fmt: skip
    whole = {
        "evalspec": 1, "name": "language",
        "models": {
            "candidate": {"kind": "transformers", "path": candidate},
            "baseline": {"kind": "transformers", "path": "fp32"},
        },
        "datasets": {"text": {"kind": "parquet", "path": "text.parquet"}},
        "model": [{"check": "likelihood", "dataset": "text", "column": "body", "context": 64, "require": require}],
    }  # fmt: skip
    (folder / f"{candidate}.yaml").write_text(json.dumps(whole))
    return str(folder / f"{candidate}.yaml")


@pytest.mark.parametrize("candidate", CODES)
def test_a_copy_in_half_floats_passes_one_in_few_steps_fails_and_both_are_made_again(
    folder: Path, candidate: str
) -> None:
    run = folder / f"run-{candidate}"
    record = json.loads((run / "record.json").read_text())
    status = {one["name"].partition("/")[2]: one["status"] for one in record["verdict"]["decisions"]}
    if candidate == "fp16":
        assert set(status.values()) == {"PASS"}
    else:
        assert status["perplexity vs baseline"] == status["divergence"] == "FAIL"
        assert status["bits_per_byte"] == "PASS"
    (check,) = record["checks"]
    (evidence,) = check["evidence"]
    assert evidence["rows"] == 320 and "likelihoods-likelihood-candidate-texts" in evidence["path"]
    models = {one["name"]: one for one in record["models"]}
    assert models["candidate"]["precision_observed"] == models["baseline"]["precision_observed"] == "fp32"
    assert {one["what"] for one in models["candidate"]["contents"]} == {"weights", "configuration", "tokenizer"}
    again = command("verify", str(run))
    assert again.exit_code == 0, again.output
    assert "same: likelihood/perplexity vs baseline" in again.output


def test_each_requirement_can_go_red(folder: Path) -> None:
    told = command("selftest", str(folder / "fp16.yaml"), "--run", str(folder / "run-fp16"))
    assert told.exit_code == 0, told.output
    # Bits of a byte are at most 5: by then the ratio to the baseline's perplexity is long past its threshold.
    assert "4 went red alone, 1 with others, 0 could not be shown, 0 stayed green" in told.output, told.output
    assert "implied: likelihood/bits_per_byte" in told.output
    assert "implied by: likelihood/perplexity vs baseline" in told.output


def test_likelihoods_of_other_texts_are_no_evidence(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    pq.write_table(pa.table({"body": documents(319)}), copy / "text.parquet")
    again = command("verify", str(copy / "run-fp16"))
    assert again.exit_code != 0
    assert "same: likelihood/perplexity vs baseline" not in again.output
