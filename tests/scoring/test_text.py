"""`quality` of texts: its numbers against sacrebleu, rouge-score and SQuAD's rules; what has no value says so."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rouge_score import rouge_scorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from evalspec.checks.model.calibration.spec import Calibration
from evalspec.checks.model.evaluate.spec import Evaluate
from evalspec.checks.model.quality.spec import Quality
from evalspec.checks.model.slices.spec import Slices
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import Examples, Table
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.language.inputs import Inputs, Predictions
from evalspec.language.parts import CheckResult
from evalspec.language.predictions import AnswerKind
from evalspec.scoring.catalogue import text as catalogue_text
from evalspec.scoring.catalogue.text import PACKAGES, TEXTS
from evalspec.scoring.resampled import OfSums
from evalspec.scoring.scored_rows import Scored
from evalspec.scoring.text.rows import bleu_counts, bleu_of, chrf_counts, chrf_of, token_overlap
from evalspec.stats.resampling import bootstrap
from evalspec.stats.sets.texts import normal
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs, writer
from tests.stats.simulated import REPEATS, RESAMPLED, bounded, p_values, wrong_claims

WORDS = ("the", "red", "green", "big", "small", "old", "new", "house", "tree", "road", "car,", "dog.", "cat's", "Sun")
METRICS = tuple(metric.name for metric in TEXTS)


def check(*require: str, **fields: Any) -> Quality:
    fields.setdefault("report_only", not require)
    return Quality.model_validate({"check": "quality", "dataset": "test", "require": list(require), **fields})


def inputs(folder: Path, *answers: Predictions) -> FakeInputs:
    n = answers[0].n
    return FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"question": [f"describe {row}" for row in range(n)], "answer": [""] * n})},
        labels={"test": "answer"},
        slices={("long", "test"): np.arange(n) % 2 == 0},
        answers={("test", one.model): one for one in answers},
    )


def run(folder: Path, asked: Quality, *answers: Predictions) -> CheckResult:
    return asked.run(inputs(folder, *answers))


def sentences(rows: int, seed: int, error: float = 0.15) -> tuple[list[str], list[str]]:
    """What was written, and what should have been."""
    rng = np.random.default_rng(seed)
    truth = [rng.choice(WORDS, rng.integers(4, 15)).tolist() for _ in range(rows)]
    said = [[word if rng.random() > error else str(rng.choice(WORDS)) for word in line] for line in truth]
    said = [line[: len(line) - int(rng.integers(0, 2))] for line in said]
    return [" ".join(line) for line in said], [" ".join(line) for line in truth]


def value(result: CheckResult, metric: str) -> float:
    found = result.estimates[metric]
    assert isinstance(found, Estimate) and found.value is not None
    return found.value


@pytest.mark.parametrize("error", [0.0, 0.15, 0.9])
def test_agrees_with_sacrebleu_and_rouge_score(tmp_path: Path, error: float) -> None:
    said, truth = sentences(120, 1, error)
    result = run(tmp_path, check(), writer(said, truth))
    assert value(result, "bleu") == pytest.approx(BLEU().corpus_score(said, [truth]).score, abs=1e-9)
    assert value(result, "chrf") == pytest.approx(CHRF().corpus_score(said, [truth]).score, abs=1e-9)
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])
    scores = [scorer.score(one, other) for one, other in zip(truth, said, strict=True)]
    for ours, theirs in (("rouge1", "rouge1"), ("rouge2", "rouge2"), ("rouge_l", "rougeL")):
        assert value(result, ours) == pytest.approx(np.mean([score[theirs].fmeasure for score in scores]), abs=1e-12)
    assert set(result.estimates) == set(METRICS) and not result.missing


def test_several_references_of_several_numbers(tmp_path: Path) -> None:
    said, truth = sentences(90, 2)
    others = sentences(90, 3)[1]
    truth_2 = [(one,) if row % 3 else (other, one) for row, (one, other) in enumerate(zip(truth, others, strict=True))]
    result = run(tmp_path, check(), writer(said, truth_2))
    streams = [[one[0] for one in truth_2], [one[1] if len(one) > 1 else None for one in truth_2]]
    assert value(result, "bleu") == pytest.approx(BLEU().corpus_score(said, streams).score, abs=1e-9)  # type: ignore[arg-type]
    assert value(result, "chrf") == pytest.approx(CHRF().corpus_score(said, streams).score, abs=1e-9)  # type: ignore[arg-type]
    scorer = rouge_scorer.RougeScorer(["rougeL"])
    best = [scorer.score_multi(list(one), text)["rougeL"].fmeasure for one, text in zip(truth_2, said, strict=True)]
    assert value(result, "rouge_l") == pytest.approx(np.mean(best), abs=1e-12)
    assert result.conditions["references a row"] == "1 to 2"
    assert str(result.conditions["bleu"]).startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_resampled_counts_are_those_of_the_rows_drawn() -> None:
    """A resample's BLEU and chrF are sacrebleu's of the same rows written out."""
    said, truth = sentences(40, 4, 0.4)
    rows = scored(writer(said, truth))
    drawn = np.random.default_rng(0).multinomial(40, np.full(40, 1 / 40), size=5)
    for counts, of, metric in ((bleu_counts, bleu_of, BLEU()), (chrf_counts, chrf_of, CHRF())):
        ours = of(drawn @ counts(rows))
        for weights, got in zip(drawn, ours, strict=True):
            there = np.repeat(np.arange(40), weights)
            theirs = metric.corpus_score([said[i] for i in there], [[truth[i] for i in there]])
            assert got == pytest.approx(theirs.score, abs=1e-9)


def scored(answers: Predictions) -> Scored:
    return Scored(
        "candidate", "test", np.asarray(answers.truth), None, None, None, None, None, texts=answers.texts
    )  # fmt: skip


def test_smoothing_and_what_can_not_match() -> None:
    for said, truth in (
        (["a b c d e"], ["a b x d e"]), (["a b"], ["a b"]), (["x"], ["a b c d e f"]), ([""], ["a b"]), (["a"], [""]),
        ([""], [""]), (["a b c d", "e f g h"], ["a b c e", "e f g i"]),
    ):  # fmt: skip
        rows = scored(writer(said, truth))
        assert float(bleu_of(bleu_counts(rows).sum(axis=0))) == pytest.approx(
            BLEU().corpus_score(said, [truth]).score, abs=1e-9
        )
        assert float(chrf_of(chrf_counts(rows).sum(axis=0))) == pytest.approx(
            CHRF().corpus_score(said, [truth]).score, abs=1e-9
        )


@pytest.mark.parametrize(
    ("said", "truth", "f1"),
    [
        ("the cat sat", "a cat sat", 1.0),
        ("Cat!", "cat", 1.0),
        ("cat dog", "cat", 2 / 3),
        ("cat cat cat", "cat dog", 2 / 5),
        ("", "", 1.0),
        ("the", "a", 1.0),
        ("", "cat", 0.0),
        ("cat", "the", 0.0),
        ("naïve", "naïve", 1.0),
        ("nai\u0308ve", "naïve", 1.0),
    ],
)
def test_overlap_of_words_is_squads(said: str, truth: str, f1: float) -> None:
    assert token_overlap(scored(writer([said], [truth]))).tolist() == [pytest.approx(f1)]


def test_what_an_exact_match_is(tmp_path: Path) -> None:
    said = ["Paris", " paris\n", "the Paris.", "nai\u0308ve", "3.5", ""]
    truth = ["Paris", "Paris", "Paris", "naïve", "35", ""]
    plain = run(tmp_path, check(metrics=["exact_match"]), writer(said, truth))
    assert value(plain, "exact_match") == pytest.approx(3 / 6)
    assert plain.conditions["exact_match"] == "as written, white space at the ends aside"
    loose = run(tmp_path, check(metrics=["exact_match"], normalize="squad"), writer(said, truth))
    assert value(loose, "exact_match") == 1.0
    assert loose.conditions["exact_match"] == "as SQuAD normalizes"
    assert normal("A  cat, the dog", "squad") == "cat dog"


def test_empty_texts_and_no_overlap_have_values(tmp_path: Path) -> None:
    empty = run(tmp_path, check(), writer([""] * 60, ["a b c d"] * 60))
    apart = run(tmp_path, check(), writer(["x y z w"] * 60, ["a b c d"] * 60))
    for result in (empty, apart):
        for metric in METRICS:
            found = result.estimates[metric]
            assert isinstance(found, Estimate) and found.value == 0.0, metric
            for side in ("lower", "upper"):
                bound = found.bound(0.95, side)  # type: ignore[arg-type]
                assert bound is None or math.isfinite(bound)
    assert "60 of 60 texts are empty" in empty.notes


def test_rouge_says_so_where_its_tokenizer_leaves_nothing(tmp_path: Path) -> None:
    said, truth = ["日本 語"] * 60, ["日本 語"] * 60
    result = run(tmp_path, check(), writer(said, truth))
    assert "keeps a to z and 0 to 9 only, and leaves nothing of the references of 60 of 60" in result.missing["rouge1"]
    assert value(result, "chrf") == pytest.approx(100.0) and value(result, "token_f1") == 1.0
    few = run(tmp_path, check(), writer([*said[:1], *["a b"] * 199], [*truth[:1], *["a b"] * 199]))
    assert value(few, "rouge1") == pytest.approx(199 / 200)
    assert any("1 row, whose references hold none, counts as 0 in ROUGE" in note for note in few.notes)


def test_texts_without_spaces_are_cut_as_asked(tmp_path: Path) -> None:
    said, truth = ["我爱北京天安门"] * 50 + ["天气很好"] * 50, ["我爱北京天安门"] * 100
    result = run(tmp_path, check(metrics=["bleu"], bleu_tokenize="zh"), writer(said, truth))
    assert value(result, "bleu") == pytest.approx(BLEU(tokenize="zh").corpus_score(said, [truth]).score, abs=1e-9)
    assert "tok:zh" in str(result.conditions["bleu"])


@pytest.mark.proof
def test_a_baseline_is_paired_by_row(tmp_path: Path) -> None:
    said, truth = sentences(220, 5, 0.1)
    worse, _ = sentences(220, 5, 0.4)
    margins = {"bleu": "5", "chrf": "5"}
    asked = check(
        *(f"{metric} >= baseline - {margins.get(metric, '5 pp')}" for metric in METRICS),
        metrics=["exact_match"], show_examples=False,
    )  # fmt: skip
    result = run(tmp_path, asked, writer(said, truth), writer(worse, truth, model="baseline"))
    assert [outcome(result, requirement) for requirement in asked.requirements] == ["PASS"] * len(METRICS)
    turned = run(tmp_path, asked, writer(worse, truth), writer(said, truth, model="baseline"))
    assert [outcome(turned, requirement) for requirement in asked.requirements] == ["FAIL"] * len(METRICS)
    other = run(tmp_path, asked, writer(said, truth), writer(worse, truth[1:] + truth[:1], model="baseline"))
    assert "they answered other rows" in other.missing["bleu vs baseline"]


def test_a_constant_answer_stands_beside_and_weakens(tmp_path: Path) -> None:
    truth = ["yes"] * 180 + ["no"] * 60
    asked = check("exact_match >= 60 %")
    result = run(tmp_path, asked, writer(["yes"] * 240, truth))
    table = next(block for block in result.blocks if isinstance(block, Table))
    assert {row[0]: row[-1] for row in table.rows}["exact_match"] == 0.75
    assert result.weakens == (
        "exact_match 0.75 is not better than the 0.75 of answering always the most frequent reference",
    )
    assert run(tmp_path, asked, writer(truth, truth)).weakens == ()


def test_the_worst_rows_are_shown_unless_they_may_not_be(tmp_path: Path) -> None:
    answers = writer(["red"] * 59 + ["<script>"], ["red"] * 60)
    examples = [block for block in run(tmp_path, check(), answers).blocks if isinstance(block, Examples)]
    assert examples[0].total == 1
    shown = examples[0].examples[0]
    assert (shown.fields["row"], shown.fields["written"], shown.fields["expected"]) == (59, "<script>", "red")
    assert shown.text == "describe 59"
    hidden = run(tmp_path, check(show_examples=False), answers)
    assert not any(isinstance(block, Examples) for block in hidden.blocks)


def test_a_metric_of_another_task_says_so(tmp_path: Path) -> None:
    asked = check("accuracy >= 50 %", "recall(cat) >= 50 %", "f1 >= 50 %", "bleu >= 1")
    result = run(tmp_path, asked, writer(["a b c d"], ["a b c d"]))
    assert "gives texts, and this metric needs classes" in result.missing["f1"]
    assert result.missing["accuracy"] == "model 'candidate' gives texts, and this metric needs classes"
    assert "gives texts, and this metric needs classes" in result.missing["recall(cat)"]


def test_other_checks_refuse_or_score_texts(tmp_path: Path) -> None:
    said, truth = sentences(600, 6)
    given = inputs(tmp_path, writer(said, truth))
    with pytest.raises(NotRunError, match=r"calibration is about models that give classes or values; .* gives texts"):
        Calibration.model_validate({"check": "calibration", "dataset": "test", "report_only": True}).run(given)
    sliced = {"check": "slices", "dataset": "test", "by": ["long"], "require": ["token_f1(long) >= 50 %"]}
    found = Slices.model_validate(sliced)
    assert outcome(found.run(given), the(found, "token_f1(long) >= 50 %")) == "PASS"
    plain = Slices.model_validate({"check": "slices", "dataset": "test", "by": ["long"], "report_only": True}).run(
        given
    )
    assert isinstance(plain.estimates["exact_match"], Parts)


MODULE = """
import datasets
import evaluate


class First(evaluate.Metric):
    def _info(self):
        several = datasets.Sequence(datasets.Value("string"))
        features = datasets.Features({"predictions": datasets.Value("string"), "references": several})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        pairs = zip(predictions, references)
        return {"first": sum(said[:1] in [one[:1] for one in truth] for said, truth in pairs) / len(references)}
"""


def test_modules_get_strings(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(MODULE)
    answers = writer(["cow"] * 60, [("dog", "cow" if row % 2 else "horse") for row in range(60)])
    asked = Evaluate.model_validate(
        {"check": "evaluate", "dataset": "test", "modules": {"first": str(tmp_path / "first.py")}, "report_only": True}
    )
    found = asked.run(inputs(tmp_path, answers)).estimates["score"]
    assert isinstance(found, Parts)
    one = found.parts["first"]
    assert isinstance(one, Estimate) and one.value == 0.5


def test_without_the_packages_the_rest_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_text, "find_spec", lambda name: None)
    result = run(tmp_path, check("bleu >= 1"), writer(["a b c d"], ["a b c d"]))
    assert set(result.estimates) == set(METRICS) - set(PACKAGES)
    sentence = "bleu needs sacrebleu, which is not installed: pip install 'evalspec-gate[text]'"
    assert result.missing["bleu"] == sentence
    asked = check("bleu >= 1", "exact_match >= 1 %")
    assert [asked.check_requirement(one, {"test": 100}) for one in asked.requirements] == [sentence, None]


def test_a_threshold_needs_classes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a model with two classes"):
        run(tmp_path, check(decision_threshold=0.5), writer(["a"], ["a"]))
    with pytest.raises(InputError, match=r"`positive: cat` needs classes, and 'candidate' gives texts"):
        run(tmp_path, check(positive="cat"), writer(["a"], ["a"]))
    unlabelled: Inputs = inputs(tmp_path, dataclasses.replace(writer(["a"], ["a"]), truth=None))
    with pytest.raises(InputError, match="has no label, so nothing can be scored"):
        check().run(unlabelled)


def corpus(rng: np.random.Generator, rows: int, right: float) -> np.ndarray:
    """Counts of rows whose words are right in runs, of another share in each row; as `bleu_counts`."""
    longest = 20
    length = rng.integers(4, longest + 1, rows)
    reference = np.maximum(1, length + rng.integers(-2, 3, rows))
    hit = rng.random((rows, longest)) < rng.beta(8 * right, 8 * (1 - right), rows)[:, None]
    hit &= np.arange(longest) < length[:, None]
    runs = [hit]
    for order in range(1, 4):
        runs.append(runs[-1][:, :-1] & hit[:, order:])
    right_counts = [run.sum(axis=1) for run in runs]
    totals = [np.maximum(0, length - order) for order in range(4)]
    return np.stack([length, reference, *right_counts, *totals], axis=1).astype(np.float64)


@pytest.mark.proof
@pytest.mark.slow
def test_bounds_of_a_corpus_err_no_more_often_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 rows. By the same with 200: 4.2 and 4.5 % at 95 %, with 1,000: 4.9 % each; chrF with 50: 5.3 and 4.9 %."""
    rows, right = 50, 0.8
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 499)
    truth = float(bleu_of(1000.0 * corpus(np.random.default_rng(1), 1_000_000, right).mean(axis=0)))
    rng, statistic = np.random.default_rng(rows), OfSums(bleu_counts, bleu_of)
    found = [
        p_values(bootstrap.bca(statistic, (corpus(rng, rows, right),), rng=rng, alpha=0.05), truth)
        for _ in range(REPEATS)
    ]
    assert (wrong_claims(found) <= RESAMPLED).all()
    assert bounded(found) > 0.98


def test_a_dataset_with_nothing_beside_its_label(tmp_path: Path) -> None:
    """Predictions made elsewhere need no other column; wrong rows are shown all the same."""
    truth = ["yes", "no", "yes"]
    inputs = FakeInputs(
        evidence=tmp_path, tables={"test": pa.table({"label": truth})}, labels={"test": "label"},
        answers={("test", "candidate"): writer(["yes", "yes", "no"], truth)},
    )  # fmt: skip
    result = Quality.model_validate({"check": "quality", "dataset": "test", "report_only": True}).run(inputs)
    examples = next(block for block in result.blocks if isinstance(block, Examples))
    assert [one.fields["written"] for one in examples.examples] == ["yes", "no"]


def _value(result: CheckResult, metric: str) -> float | None:
    found = result.estimates[metric]
    assert isinstance(found, Estimate)
    return found.value


def test_the_answer_inside_a_text_is_scored_and_a_text_without_one_is_wrong(tmp_path: Path) -> None:
    texts = ["#### 1,200", "1200", "#### 7", "#### 3"]
    found = writer(texts, ["1200", "$1,200.00", "7.0", "4"], extracted=["1200", None, "7", "3"], extracted_as="number")
    result = run(tmp_path, check("exact_match >= 10 %", "token_f1 >= 10 %"), found)
    assert _value(result, "exact_match") == 0.5
    assert _value(result, "token_f1") == 0.5
    assert any("1 of 4 texts have no answer" in note for note in result.notes)
    assert result.conditions["answers inside texts"] == "compared as number"
    assert result.blind["exact_match"][0] == 0.5, "1200 stands twice among the labels, in two spellings"
    shown = next(block for block in result.blocks if block.title == "Rows furthest off")
    assert isinstance(shown, Examples)
    assert {"written": "no answer", "whole text": "1200"}.items() <= shown.examples[0].fields.items()


def test_a_text_without_an_answer_is_wrong_even_where_the_reference_is_empty(tmp_path: Path) -> None:
    result = run(tmp_path, check("token_f1 >= 10 %"), writer(["a", "b"], ["...", "b"], extracted=[None, "b"]))
    assert _value(result, "exact_match") == 0.5 and _value(result, "token_f1") == 0.5


def test_letters_are_compared_whatever_their_case_is(tmp_path: Path) -> None:
    found = writer(["b) it", "so: C"], ["B", "(c)"], extracted=["B", "C"], extracted_as="letter")
    assert _value(run(tmp_path, check("exact_match >= 10 %"), found), "exact_match") == 1.0


@pytest.mark.parametrize(("kind", "label"), [("number", "about 7"), ("letter", "yes")])
def test_a_label_that_is_no_such_answer_is_an_error(tmp_path: Path, kind: AnswerKind, label: str) -> None:
    found = writer(["1", "1"], ["1" if kind == "number" else "a", label], extracted=["1", "1"], extracted_as=kind)
    with pytest.raises(InputError, match=rf"'{label}' in row 1 \(counted from 0\).*as: {kind}.*the answer alone"):
        run(tmp_path, check("exact_match >= 10 %"), found)


def test_models_whose_answers_are_read_in_two_ways_are_not_compared(tmp_path: Path) -> None:
    ours = writer(["#### 1"] * 9, ["1"] * 9, extracted=["1"] * 9, extracted_as="number")
    theirs = writer(["#### 1"] * 9, ["1"] * 9, model="baseline")
    result = run(tmp_path, check("exact_match >= baseline - 3 pp"), ours, theirs)
    assert "'baseline' as whole texts" in result.missing["exact_match vs baseline"]
    assert not result.comparisons
