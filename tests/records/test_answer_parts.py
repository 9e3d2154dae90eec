"""A look at the parts of answers: all, or a sample that anybody can draw again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from evalspec.answers.parts import part_path
from evalspec.records.answer_parts import PartSample, read_parts
from tests.answers.test_parts import classes, write
from tests.commands import evalspec
from tests.running.parts.test_asking import folder

__all__ = ["folder"]

ENDS = [*range(10, 101, 10)]


def test_a_sample_is_drawn_by_its_seed() -> None:
    sample = PartSample(0.05, 7)
    assert sample.of("a", 60) == sample.of("a", 60) and len(sample.of("a", 60)) == 3
    assert sample.of("a", 60) != PartSample(0.05, 8).of("a", 60)
    assert len(sample.of("a", 2)) == 1 and PartSample(1.0, 7).of("a", 4) == [0, 1, 2, 3]
    assert {number for seed in range(200) for number in PartSample(0.05, seed).of("a", 20)} == set(range(20))


def test_all_parts_or_those_of_a_sample_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, classes, ENDS)
    name = f"{tmp_path.name}/predictions-m-d.parquet"
    every = read_parts(path, None)
    assert (every.same, list(every.differs), every.left) == (f"bytes of all 10 parts of {name}", [], "")
    sample = PartSample(0.2, 3)
    chosen = sample.of(path.name, 10)
    told = read_parts(path, sample)
    numbers = ", ".join(map(str, chosen))
    assert told.same == f"bytes of {numbers} of 10 parts of {name}"
    assert told.left == (
        f"{name}: 8 of 10 parts, with 80 rows, were not checked; --sample 20 % --seed 3 chose parts {numbers}"
    )
    # A change is seen by whoever looks at the part.
    other = next(number for number in range(10) if number not in chosen)
    part_path(path, other).write_bytes(b"changed")
    assert not read_parts(path, sample).differs
    part_path(path, chosen[0]).write_bytes(b"changed")
    assert len(read_parts(path, sample).differs) == 1 and len(read_parts(path, None).differs) == 2
    assert not read_parts(path, PartSample(1.0, 3)).left


@pytest.mark.proof
def test_a_run_is_verified_by_its_parts(folder: Path, tmp_path: Path) -> None:
    """What a sample leaves out is said, and what needs all answers is not made again."""
    spec = (Path(__file__).parents[1] / "running" / "parts" / "test_asking.py").read_text()
    text = spec.partition('SPEC = """\n')[2].partition('"""')[0].replace("MODEL", "plain")
    slices = "  - {check: slices, dataset: test, by: [y], report_only: true}\n"
    (folder / "whole.yaml").write_text(f"{text}{slices}policy: {{screens: 'off'}}\n")
    runs = [tmp_path / "one", tmp_path / "two"]
    for run, engine in zip(runs, ("local", "local:2"), strict=True):
        done = evalspec("run", folder / "whole.yaml", "--trust", "--output", run, "--engine", engine)
        assert done.returncode == 0, done.stderr
    records = [json.loads((run / "record.json").read_text()) for run in runs]
    for record in records:
        for check in record["checks"]:
            del check["duration_s"]
    for name in ("checks", "predictions", "models", "datasets"):
        assert records[0][name] == records[1][name]
    assert records[1]["environment"]["engine"]["parts"] == 3
    done = evalspec("verify", runs[1])
    assert done.returncode == 0, done.stdout
    assert "same: bytes of all 3 parts of evidence/predictions-candidate-test.parquet" in done.stdout
    done = evalspec("verify", runs[1], "--sample", "5%", "--seed", "1")
    assert done.returncode == 3 and "--sample 5 % --seed 1 chose part " in done.stdout
    assert "not recomputed: quality: it needs all of predictions-candidate-test.parquet, and --sample" in done.stdout
    drawn = json.loads(evalspec("verify", runs[1], "--sample", "5 %", "--json").stdout)
    assert f"--seed {drawn['seed']} chose" in drawn["not_recomputed"][0]
    assert evalspec("verify", runs[1], "--sample", "0 %").returncode == 2
    # What was blessed has its parts with it.
    done = evalspec("bless", runs[1], "--as", "good")
    assert done.returncode == 0, done.stderr
    kept = folder / "baselines" / "good" / "evidence"
    assert len(list(kept.rglob("part-*.parquet"))) == 3
    shutil.rmtree(folder / "baselines")
    path = part_path(runs[1] / "evidence" / "predictions-candidate-test.parquet", 1)
    path.write_bytes(path.read_bytes() + b" ")
    done = evalspec("verify", runs[1])
    assert done.returncode == 1
    assert "differs: evidence/predictions-candidate-test/part-00001.parquet has changed since" in done.stdout
    assert "not recomputed: quality: its evidence predictions-candidate-test.parquet was changed" in done.stdout
    assert evalspec("bless", runs[1], "--as", "good").returncode == 2
