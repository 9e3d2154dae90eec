"""Texts, several labels, boxes and masks from files of predictions to a verdict, through the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from evalspec.answers.file import read_answers
from tests.commands import evalspec

ROWS = 400
CLASSES = ["road", "car", "sky"]
TASKS = {"text": "text", "tags": "labels", "boxes": "boxes", "mask": "mask"}
WORDS = np.array(["red", "blue", "old", "house", "tree", "road", "<blink>", "naïve"])


def texts(rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """References, and what was written: 2 words in 100 are others."""
    truth = rng.choice(WORDS, (ROWS, 6))
    said = np.where(rng.random(truth.shape) < 0.02, rng.choice(WORDS, truth.shape), truth)
    first, second = ([" ".join(line) for line in lines.tolist()] for lines in (truth, said))
    return [[one, "something else"] for one in first], second


def tags(rng: np.random.Generator) -> tuple[list[Any], list[Any]]:
    """Classes of a row, and what is said of it: half of what is there is missed."""
    truth = rng.random((ROWS, 3)) < (0.5, 0.6, 0.4)
    said = truth & (rng.random(truth.shape) > 0.5)
    lists = ([[CLASSES[i] for i in np.flatnonzero(row)] for row in members] for members in (truth, said))
    return tuple(lists)  # type: ignore[return-value]


def png(mask: list[list[int]]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.array(mask, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Any], Path]:
    """Exit code, record and folder of one run over four models, each with one check `quality`."""
    folder = tmp_path_factory.mktemp("tasks")
    rng = np.random.default_rng(1)
    counts = [row % 3 for row in range(ROWS)]
    box = {"bbox": [0.0, 0.0, 4.0, 4.0], "category": 1, "iscrowd": 0}
    (text, written), (tagged, said) = texts(rng), tags(rng)
    truth = {
        "text": text, "tags": tagged, "boxes": [[box] * count for count in counts],
        "mask": [png([[0, 1, 2], [255, 1, 0]])] * ROWS,
    }  # fmt: skip
    answers = {
        "answer": written, "tags": said,
        "b": [[[9.0, 0.0, 13.0, 4.0] if row % 10 == 1 else box["bbox"]] * count for row, count in enumerate(counts)],
        "s": [[0.9] * count for count in counts], "l": [["car"] * count for count in counts],
        "mask": [[[0, 1, 2], [0, 1, 0]]] * ROWS,
    }  # fmt: skip
    order = rng.permutation(ROWS)
    pq.write_table(pa.table({"id": np.arange(ROWS), "asked": ["what is it?"] * ROWS, **truth}), folder / "test.parquet")
    shuffled = {name: [rows[i] for i in order] for name, rows in answers.items()}
    pq.write_table(pa.table({"id": order, **shuffled}), folder / "said.parquet")
    models: dict[str, dict[str, Any]] = {
        "text": {"outputs": {"text": "answer"}},
        "tags": {"outputs": {"label": "tags"}, "classes": CLASSES, "multilabel": True},
        "boxes": {"outputs": {"boxes": "b", "scores": "s", "label": "l"}, "classes": CLASSES},
        "mask": {"outputs": {"mask": "mask"}, "classes": CLASSES},
    }
    require = {
        "text": ["bleu >= 75", "token_f1 >= 90 %", "rouge_l >= 90 %"],
        "tags": ["micro_f1 >= 90 %", "recall(sky) >= 85 %", "hamming_loss <= 10 %"],
        "boxes": ["accuracy >= 50 %", "map_50 >= 60 %", "average_recall >= 95 %"],
        "mask": ["accuracy >= 50 %", "iou(car) >= 95 %"],
    }
    file = {"kind": "predictions", "artifact": f"sha256:{'0' * 64}"}
    data = {"kind": "parquet", "path": "test.parquet", "key": "id"}
    spec = {
        "evalspec": 1,
        "name": "tasks",
        "models": {name: file | model | {"files": {f"{name}_rows": "said.parquet"}} for name, model in models.items()},
        "datasets": {f"{name}_rows": data | {"label": name} for name in models},
        "model": [
            {"check": "quality", "id": name, "model": name, "dataset": f"{name}_rows", "require": require[name]}
            for name in models
        ],
    }
    # JSON is YAML.
    (folder / "evalspec.yaml").write_text(json.dumps(spec))
    done = evalspec("run", folder / "evalspec.yaml", "--output", folder / "run", "--quiet")
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads((folder / "run" / "record.json").read_text()), folder


def decided(record: dict[str, Any], check: str) -> dict[str, tuple[str, str | None]]:
    """Requirement of a check: its status, and why there is none."""
    found = record["verdict"]["decisions"]
    return {one["name"]: (one["status"], one["reason"]) for one in found if one["name"].startswith(f"{check}/")}


@pytest.mark.proof
def test_right_texts_pass_and_missed_labels_fail(run: tuple[int, dict[str, Any], Path]) -> None:
    code, record, _ = run
    assert code == 1
    passed, failed = ("PASS", None), ("FAIL", None)
    assert decided(record, "text") == {"text/bleu": passed, "text/token_f1": passed, "text/rouge_l": passed}
    assert decided(record, "tags") == {
        "tags/micro_f1": failed, "tags/recall(sky)": failed, "tags/hamming_loss": failed,
    }  # fmt: skip
    conditions = next(one["conditions"] for one in record["checks"] if one["id"] == "text")
    assert conditions["references a row"] == "2" and conditions["bleu"].startswith("nrefs:2|case:mixed")


@pytest.mark.proof
def test_boxes_and_masks_arrive_and_other_metrics_say_so(run: tuple[int, dict[str, Any], Path]) -> None:
    _, record, folder = run
    reason = "model '{0}' gives {1}, and this metric needs classes"
    assert decided(record, "boxes") == {
        "boxes/accuracy": ("NOT_RUN", reason.format("boxes", "boxes")), "boxes/map_50": ("PASS", None),
        "boxes/average_recall": ("FAIL", None),
    }  # fmt: skip
    # All pictures are alike: nothing says how others might differ.
    assert decided(record, "mask") == {
        "mask/accuracy": ("NOT_RUN", reason.format("mask", "masks")), "mask/iou(car)": ("INCONCLUSIVE", None),
    }  # fmt: skip
    kept = {name: read_answers(next((folder / "run" / "evidence").rglob(f"*{name}*.parquet"))) for name in TASKS}
    assert {name: one.task for name, one in kept.items()} == TASKS
    boxes, masks = kept["boxes"].boxes, kept["mask"].masks
    assert boxes is not None and masks is not None
    assert np.bincount(boxes.row, minlength=ROWS).tolist() == [row % 3 for row in range(ROWS)]
    assert masks[0].tolist() == [[0, 1, 2], [0, 1, 0]]


@pytest.mark.proof
def test_the_evidence_gives_the_same_again(run: tuple[int, dict[str, Any], Path]) -> None:
    _, _, folder = run
    verified = evalspec("verify", folder / "run")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    page = (folder / "run" / "report.html").read_text()
    assert "&lt;blink&gt;" in page and "<blink>" not in page
