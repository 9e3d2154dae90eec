"""Stories of data that made a model look good: each told twice, red for its reason, and green in a clean twin.

The red instance passes every other sentence of the same checks: what hides the defect holds in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.checks.model.quality.spec import Quality
from evalspec.evidence.blocks import Examples
from evalspec.evidence.estimate import Estimate, Fact
from evalspec.language.parts import Check, CheckResult
from evalspec.language.requirement import Requirement
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs, classifier

Told = list[tuple[FakeInputs, Check]]
QUESTIONS = 1200


@dataclass(frozen=True)
class Story:
    """One of them.

    Args:
        name: Its name and what happens.
        tell: From a folder, and whether the defect is there, to inputs and checks.
        red: Sentence that is violated: its value with the defect, and without (fractions in 0..1).
    """

    name: str
    tell: Callable[[Path, bool], Told]
    red: Mapping[str, tuple[float, float]]


def memorised(folder: Path, bad: bool) -> Told:
    """Half of a public quiz was read before: some of it whole, most of it quoted in what others wrote."""
    rng = np.random.default_rng(8)
    quiz, crawl = rng.integers(10_000, 99_999, (QUESTIONS, 30)), rng.integers(10_000, 99_999, (QUESTIONS, 80))
    questions = [" ".join(map(str, row)) for row in quiz]
    texts = [" ".join(map(str, row)) for row in crawl]
    rows = np.arange(QUESTIONS)
    whole, quoted = rows < 60, (rows >= 60) & (rows < 600)
    if bad:
        for row in np.flatnonzero(quoted).tolist():
            texts[row] = " ".join(map(str, [*crawl[row, :50], *quiz[row, 5:25], *crawl[row, 50:]]))
        texts += [questions[row].upper() for row in np.flatnonzero(whole)]
    # 85 % are answered right in both: of the questions that are new to it 85 %, or 70 % and all that were read.
    order = (rows * 7) % 600
    right = np.where(rows < 600, True, order < 420) if bad else order < 510
    truth = rows % 4
    said = np.where(right, truth, (truth + 1) % 4)
    answers = classifier(0.02 + 0.92 * np.eye(4)[said], truth)
    inputs = FakeInputs(
        evidence=folder, answers={("test", "candidate"): answers}, labels={"test": "answer"},
        tables={"crawl": pa.table({"text": texts}), "test": pa.table({"text": questions, "answer": truth})},
    )  # fmt: skip
    contaminated = Contamination.model_validate(
        {
            "check": "contamination", "train": ["crawl"], "test": "test", "predictions": "candidate",
            "require": [
                "exact_duplicates == 0", "near_duplicates <= 1 %", "ngram_overlap <= 1 %", "clean_score_change <= 2 pp",
            ],
        }
    )  # fmt: skip
    quality = Quality.model_validate(
        {"check": "quality", "dataset": "test", "require": ["accuracy >= 80 %"], "show_examples": False}
    )
    return [(inputs, quality), (inputs, contaminated)]


STORIES = (
    Story("F8: half of the quiz was read before", memorised,
          {"exact_duplicates == 0": (60, 0), "near_duplicates <= 1 %": (0.05, 0), "ngram_overlap <= 1 %": (0.5, 0),
           "clean_score_change <= 2 pp": (0.15, 0)}),
)  # fmt: skip


def value(result: CheckResult, requirement: Requirement) -> float:
    found = result.estimates[requirement.metric]
    assert isinstance(found, Fact | Estimate)
    assert found.value is not None
    return found.value


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("bad", [True, False], ids=["red", "green"])
def test_a_story(story: Story, bad: bool, tmp_path: Path) -> None:
    words, values = {}, {}
    for inputs, check in story.tell(tmp_path, bad):
        result = check.run(inputs)
        for one in check.requirements:
            words[one.sentence] = outcome(result, one)
            values[one.sentence] = value(result, one)
    assert words == {sentence: "FAIL" if bad and sentence in story.red else "PASS" for sentence in words}
    expected = {sentence: both[0 if bad else 1] for sentence, both in story.red.items()}
    assert {sentence: values[sentence] for sentence in expected} == pytest.approx(expected)
    assert set(words) - set(story.red), "something must look good in both"


def test_what_was_read_is_shown_beside_where_it_stood(tmp_path: Path) -> None:
    """F8: a share alone convinces nobody."""
    inputs, check = memorised(tmp_path, True)[1]
    shown = next(block for block in check.run(inputs).blocks if isinstance(block, Examples))
    assert shown.pairs
    assert {example.fields["found"] for example in shown.examples} == {"equal", "20 of 30 words"}
