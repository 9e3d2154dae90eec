"""Stories of answers that a model judge has read: its verdicts are in a file, and those of people beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stories.telling import COLOURS, Colour, Story, Tale, Told, command, ends, stated, told

pytestmark = pytest.mark.proof


def wrote(tale: Tale, dataset: str, texts: list[str]) -> None:
    """Answers of a candidate, in a file."""
    ids = pq.read_table(tale.folder / f"{dataset}.parquet").column("id")
    path = f"candidate-{dataset}.parquet"
    pq.write_table(pa.table({"id": ids, "text": texts}), tale.folder / path)
    default = {"kind": "predictions", "files": {}, "outputs": {"text": "text"}, "artifact": stated("candidate")}
    tale.models.setdefault("candidate", default)["files"][dataset] = path


def judged(
    tale: Tale, story: str, texts: list[str], verdicts: list[bool | None], people: np.ndarray, looked_at: int
) -> dict[str, str]:
    """A judge's verdicts on all answers, people's on some drawn at random; fields of the check."""
    dataset = f"{story}_test"
    wrote(tale, dataset, texts)
    ids = pq.read_table(tale.folder / f"{dataset}.parquet").column("id").to_numpy()
    drawn = np.random.default_rng(24).permutation(len(ids))[:looked_at]
    for name, columns, fields in (
        (f"{story}_judgements", {"id": ids, "good": verdicts, "answer": texts}, {}),
        (f"{story}_people", {"id": ids[drawn], "good": people[drawn]}, {"label": "good"}),
    ):
        pq.write_table(pa.table(columns), tale.folder / f"{name}.parquet")
        tale.datasets[name] = {"kind": "parquet", "path": f"{name}.parquet", "key": "id", **fields}
    return {"dataset": dataset, "key": "id", "judgements": f"{story}_judgements", "verdict": "good",
            "answer": "answer"}  # fmt: skip


def likes_length(tale: Tale, bad: bool) -> None:
    """L24: the judge passes 95 of 100 long answers, whatever is in them; the candidate got twice as long."""
    draw, rows = np.random.default_rng(1), 4000
    words = draw.poisson(160 if bad else 80, rows) + 1
    good = draw.random(rows) < (0.74 if bad else 0.88)
    passes = np.where(words > 110, draw.random(rows) < 0.95, good ^ (draw.random(rows) < 0.06))
    tale.rows("l24_test", {"question": [f"How does number {row} go?" for row in range(rows)]})
    fields = judged(
        tale, "l24", [f"{row} {'so ' * many}" for row, many in enumerate(words)], passes.tolist(), good, 500
    )
    tale.ask("model", "judged", "l24_judged", "judged_pass >= 80 %", human="l24_people", **fields)
    tale.ask("model", "judged", "l24_alone", warn=["judged_pass >= 80 %"], **fields)


def silent_on_hard_rows(tale: Tale, bad: bool) -> None:
    """L25: the judge gives no verdict on a quarter of the rows, those that are hard, and passes 95 % of the others."""
    draw, rows = np.random.default_rng(2), 3000
    hard = draw.random(rows) < 0.25
    good = draw.random(rows) < np.where(hard, 0.2 if bad else 0.9, 0.95)
    said = good ^ (draw.random(rows) < 0.06)
    verdicts = [None if bad and no else bool(yes) for no, yes in zip(hard, said, strict=True)]
    tale.rows("l25_test", {"question": [f"Why is {row} hard?" for row in range(rows)]})
    fields = judged(tale, "l25", [f"because of {row}" for row in range(rows)], verdicts, good, 600)
    tale.ask("model", "judged", "l25_judged", "judged_pass >= 85 %", human="l25_people", **fields)


def samples_of_questions(tale: Tale, bad: bool) -> None:
    """L21: 100 questions, each answered eight times, where the twin has 800 questions; people looked at all."""
    draw, rows = np.random.default_rng(21), 800
    question = np.arange(rows) // 8 if bad else np.arange(rows)
    easy = draw.random(rows)[question] < 0.88
    good = draw.random(rows) < np.where(easy, 0.99, 0.1)
    asked = [f"What is {one} by {row}?" for row, one in enumerate(question)]
    tale.rows(
        "l21_test", {"question": question, "text": asked, "right": ["yes"] * rows}, cluster="question", label="right"
    )
    texts = ["yes" if one else f"no, {row}" for row, one in enumerate(good)]
    fields = judged(tale, "l21", texts, good.tolist(), good, rows)
    tale.ask("model", "judged", "l21_judged", "judged_pass >= 85 %", human="l21_people", **fields)
    tale.ask("model", "quality", "l21_quality", "pass_at(1) >= 85 %", dataset="l21_test", query="question")


def tell(folder: Path, bad: bool) -> Tale:
    """All of them in one spec."""
    tale = Tale(folder, "judgements")
    for one in (likes_length, silent_on_hard_rows, samples_of_questions):
        one(tale, bad)
    return tale


STORIES = (
    Story(
        "L24: a judge who likes long answers",
        red={"l24_judged/judged_pass": "FAIL"},
        shows={"l24_judged": ("By length of the answer", "people less judge (the rectifier)")},
        page=("no answer was audited: the share is the judge's, and its error",),
    ),
    Story(
        "L25: a judge who says nothing of hard rows",
        red={"l25_judged/judged_pass": "FAIL"},
        shows={"l25_judged": ("the judge gave no verdict on", "each of which counts as a fail")},
    ),
    Story(
        "L21: eight samples of a question taken for eight questions",
        red={"l21_judged/judged_pass": "INCONCLUSIVE", "l21_quality/pass_at(1)": "INCONCLUSIVE"},
    ),
)


@pytest.fixture
def run(colour: Colour, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return told(tmp_path_factory, "judgements", colour, tell)


@pytest.mark.parametrize("colour", COLOURS)
def test_the_verdict(colour: Colour, run: Told) -> None:
    ends(run, colour)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_story(story: Story, colour: Colour, run: Told) -> None:
    story.holds(run, colour)


@pytest.mark.parametrize("colour", COLOURS)
def test_l24_the_judge_alone_is_green_either_way(run: Told) -> None:
    assert run.decision("l24_alone/judged_pass")["status"] == "PASS"
    assert not run.decision("l24_alone/judged_pass")["blocking"]
    assert run.test("l24_judged/judged_pass")["method"].startswith("BCa of PPI++: 500 human labels")


@pytest.mark.parametrize("colour", ["green"])
def test_l24_selftest_turns_the_verdicts(run: Told) -> None:
    done = command("selftest", str(run.folder.parent / "evalspec.yaml"), "--run", str(run.folder))
    lines = [line for line in done.output.splitlines() if "l24_judged" in line]
    assert lines and "a quarter of the answers fails" in done.output, done.output


def test_l24_a_judge_alone_may_not_block(tmp_path: Path) -> None:
    tale = Tale(tmp_path, "alone")
    likes_length(tale, False)
    tale.checks["model"] = [{**tale.checks["model"][1], "require": ["judged_pass >= 80 %"], "warn": []}]
    refused = command("validate", str(tale.write()))
    assert refused.exit_code == 2 and "may only stand under `warn:`" in refused.output, refused.output


def test_l24_judgements_of_the_shorter_answers_are_void(tmp_path: Path) -> None:
    """The candidate was made again after the judge had read it."""
    tale = Tale(tmp_path, "older")
    likes_length(tale, False)
    wrote(tale, "l24_test", [f"{row} and more" for row in range(4000)])
    done = tale.run()
    assert done.exit_code == 3, done.output
    assert "4,000 of 4,000 judgements are of other answers than those of candidate" in done.output


def test_l21_rows_that_are_taken_for_questions_would_pass(tmp_path: Path) -> None:
    tale = Tale(tmp_path, "rows")
    samples_of_questions(tale, True)
    del tale.datasets["l21_test"]["cluster"]
    tale.checks["model"][1] = {"check": "quality", "id": "l21_rows", "dataset": "l21_test",
                               "require": ["exact_match >= 85 %"]}  # fmt: skip
    done = tale.run()
    assert done.exit_code == 0, done.output
