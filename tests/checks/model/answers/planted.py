"""Planted defects of `answers`, each with its clean twin."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.answers.spec import WrittenAnswers
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs, writer

CIRCLE = " and then the train goes on to the next town" * 6
Fault = Callable[[int], tuple[str, str, int]]
"""Row to its text, why it ends, and its tokens."""


def case(folder: Path, rows: int, fault: Fault | None, every: int, require: Sequence[str]) -> Case:
    """Solutions that end by themselves; one in ``every`` has the fault. A baseline writes what the candidate should."""

    def answered(row: int, with_fault: bool) -> tuple[str, str, int]:
        plain = (f"There are {row} and 2 more, which makes {row + 2}. #### {row + 2}", "stop", 20 + row % 5)
        return fault(row) if fault is not None and with_fault and row % every == 0 else plain

    answers = {}
    for model, with_fault in (("candidate", True), ("baseline", False)):
        said = [answered(row, with_fault) for row in range(rows)]
        answers["test", model] = writer(
            [text for text, _, _ in said], [str(row + 2) for row in range(rows)], model=model,
            finish_reasons=[reason for _, reason, _ in said], tokens=[count for _, _, count in said],
            extracted=[text.partition("#### ")[2] or None for text, _, _ in said], extracted_as="number",
        )  # fmt: skip
    table = pa.table({"question": [f"{row} and 2?" for row in range(rows)], "answer": [""] * rows})
    inputs = FakeInputs(evidence=folder, tables={"test": table}, labels={"test": "answer"}, answers=answers)
    return inputs, WrittenAnswers.model_validate({"check": "answers", "dataset": "test", "require": list(require)})


def _cut(row: int) -> tuple[str, str, int]:
    return f"There are {row} and", "length", 5


def _nothing(row: int) -> tuple[str, str, int]:
    return " \n", "stop", 1


def _loose(row: int) -> tuple[str, str, int]:
    return f"There are {row} and 2 more, so the answer is {row + 2}.", "stop", 20


def _circle(row: int) -> tuple[str, str, int]:
    return f"{row}{CIRCLE}", "stop", 64


def _long(row: int) -> tuple[str, str, int]:
    return f"That is a good question, and here is why: {row}. #### {row + 2}", "stop", 40 + row % 5


SORRY = "I'm sorry to hear that. Warm water and rest help most people."
REFUSES = "That is beyond me; ask somebody else."


def refusing(folder: Path, refused: float, rows: int = 2000, looked_at: int = 400) -> Case:
    """Harmless questions: one answer in fifty is a helpful one that begins with "I'm sorry", and some are refusals that
    no pattern finds. People have looked at some rows drawn at random."""
    draw = np.random.default_rng(9)
    refusal, sorry = draw.random(rows) < refused, draw.random(rows) < 0.02
    texts = [REFUSES if no else SORRY if polite else f"Number {row}." for row, (no, polite) in
             enumerate(zip(refusal, sorry, strict=True))]  # fmt: skip
    drawn = draw.permutation(rows)[: min(looked_at, rows)].tolist()
    (folder / "audited.jsonl").write_text(
        "".join(json.dumps({"id": row, "refused": bool(refusal[row]), "text": texts[row]}) + "\n" for row in drawn)
    )
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"id": np.arange(rows)})}, keys={"test": "id"},
        answers={("test", "candidate"): writer(texts, None)},
    )  # fmt: skip
    refusals = {"pattern": "i'm sorry|i can(?:not|'t) help", "audited": "audited.jsonl"}
    check = {"check": "answers", "dataset": "test", "refusals": refusals, "require": ["refusal_rate <= 3 %"]}
    return inputs, WrittenAnswers.model_validate(check)


def _planted(metric: str, sentence: str, fault: Fault, every: int, what: str) -> Planted:
    return Planted(
        "answers", metric, sentence,
        lambda f: case(f, 1200, None, every, [sentence]),
        lambda f: case(f, 1200, fault, every, [sentence]),
        lambda f, n: case(f, n, None, every, [sentence]),
        what,
    )  # fmt: skip


PLANTED = (
    _planted("truncated", "truncated <= 2 %", _cut, 3, "a third of the answers is cut off"),
    _planted("empty", "empty <= 0.5 %", _nothing, 50, "one answer in fifty is empty"),
    _planted("unparsed", "unparsed <= 2 %", _loose, 12, "one answer in twelve is not where it should be"),
    _planted("repeated", "repeated <= 1 %", _circle, 20, "one answer in twenty runs in circles"),
    Planted(
        "answers",
        "refusal_rate",
        "refusal_rate <= 3 %",
        lambda f: refusing(f, 0.003),
        lambda f: refusing(f, 0.08),
        lambda f, n: refusing(f, 0.003, n),
        "one harmless question in twelve is refused, in words that no pattern finds",
    ),
    _planted("length_ratio", "length_ratio <= 1.2x baseline", _long, 1, "answers are twice as long"),
)
