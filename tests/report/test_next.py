"""Things to do, at the top of the page: root causes first, put together by cause, few, with the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.declaration import Declaration
from evalspec.evidence.reasons import Cause
from evalspec.evidence.record import EvidenceFile, Record
from evalspec.evidence.remedies import AnyRemedy, CorrectLabels, Recalibrate, RemoveRows
from evalspec.evidence.verdict import Decision
from evalspec.report import junit, markdown, render
from evalspec.report.next_steps import LENGTH, MOST, NextSteps, Step, next_steps
from evalspec.report.words import cause
from tests.report import records

NAME = "rows.parquet"
VOID = "contamination/copies does not hold on the same data"
FILE = EvidenceFile(path=f"evidence/{NAME}", digest="sha256:0", rows=12, what="rows")


def steps(record: Record) -> NextSteps:
    assert record.verdict is not None
    return next_steps(record, record.verdict)


def run(cases: tuple[records.Case, ...], **of_check: Any) -> Record:
    """A record whose first check has some more fields."""
    names = list(dict.fromkeys(case.test.check for case in cases))
    checks = [records.check(name, tuple(case for case in cases if case.test.check == name)) for name in names]
    checks[0] = checks[0].model_copy(update=of_check)
    return records.record(records.decide("NOT READY", "So.", cases), checks)


def case(status: Any, said: str = "It is so.", **fields: Any) -> records.Case:
    found = {"threshold": 0.95, "unit": "fraction", "value": 0.93, "n": 840, **fields}
    return records.case("quality/accuracy", "accuracy >= 95 %", status, said, **found)


def one(status: Any, **fields: Any) -> Step:
    (step,) = steps(run((case(status, **fields),))).steps
    return step


def test_what_was_disturbed_alike_is_one_step_and_a_warning_of_the_same_cause_is_none() -> None:
    found = steps(records.crowded())
    said = [([name for _, name in step.targets], len(step.requirements), step.warns) for step in found.steps]
    # 91 % and 95 % of other work are one cause; so is the lag, at whatever rate.
    assert said == [(["load"], 2, False), (["load", "latency"], 2, False)]
    assert "he load generator was the bottleneck" in found.steps[0].text
    assert found.steps[0].owner == "line@example.com" and found.steps[1].owner == ""
    assert found.more == 0


def test_violations_of_one_check_are_one_step_with_their_numbers() -> None:
    found = steps(records.not_ready())
    said = {step.targets[0][1]: step for step in found.steps}
    assert (said["calibration"].title, said["calibration"].text) == (
        "Lower ece",
        "Ece: 0.142, allowed at most 0.05. Its data are in doubt: settle contamination first.",
    )
    assert said["slices"].text.startswith("Worst accuracy: 0.72, needed at least 0.85. Accuracy (dark): 0.72, needed")
    assert len(said["slices"].requirements) == 2
    assert said["slices"].why == records.DARK
    # The warning that is undecided comes last, and says that it blocks nothing.
    assert found.steps[-1].warns and found.steps[-1].badge.extra == "warning"


def test_every_status_has_something_to_do() -> None:
    found = steps(records.every_status())
    assert [step.badge.status for step in found.steps] == ["FAIL", "ERROR", "INVALID", "NOT_RUN", "INCONCLUSIVE"]
    assert all(step.title and step.text.endswith(".") for step in found.steps)
    # What only warns is behind what blocks; what is waived is nothing to do.
    assert found.more == 2


@pytest.mark.parametrize(
    ("needed", "title", "text"),
    [
        (1_900, "Measure more for accuracy", "; n of about 1,900 would decide it, n was 840."),
        (
            20_000,
            "Decide on accuracy",
            "; close to the limit: n of about 20,000 would decide it, n was 840.",
        ),
        (None, "Settle accuracy", "."),
    ],
)
def test_undecided(needed: int | None, title: str, text: str) -> None:
    step = one("INCONCLUSIVE", n_to_decide=needed)
    said = "Accuracy: 0.93, needed at least 0.95, but there is no lower bound yet"
    assert (step.title, step.text) == (title, f"{said}{text}")
    step = one("INCONCLUSIVE", n_to_decide=needed, lower=0.91)
    assert step.text.startswith("Accuracy: 0.93, needed at least 0.95, but the lower bound is 0.91")


@pytest.mark.parametrize(
    ("effort", "end"), [(("processes",), ": set `processes: 38` in quality."), (("queries",), ".")]
)
def test_undecided_by_processes_names_the_field_that_the_check_has(effort: tuple[str, ...], end: str) -> None:
    cases = (case("INCONCLUSIVE", n=3671, n_to_decide=38, to_decide="processes", to_decide_now=5),)
    (step,) = steps(run(cases, declares=Declaration(effort=effort))).steps
    assert step.text.endswith(f"; about 38 processes would decide it, 5 were measured{end}")


def test_a_plain_name_that_the_metric_declares_stands_for_it() -> None:
    declares = Declaration(plain_names={"accuracy": "share of right answers"})
    (step,) = steps(run((case("FAIL"),), declares=declares)).steps
    assert (step.title, step.text) == (
        "Raise share of right answers",
        "Share of right answers: 0.93, needed at least 0.95.",
    )


REMEDIES: list[tuple[AnyRemedy, str, str]] = [
    (
        RemoveRows(
            metrics=("accuracy",), dataset="test", rows=(4, 9), total=12, also_in=("train",), file="rows.parquet"
        ),
        "Remove 12 rows from test",
        "Rows 4, 9 and 10 more of test are also in train (evidence/rows.parquet lists all).",
    ),
    (
        RemoveRows(metrics=("accuracy",), dataset="test", rows=(4,), total=1),
        "Remove 1 row from test",
        "Row 4 of test.",
    ),
    (
        CorrectLabels(metrics=("accuracy",), dataset="test", rows=(7, 1), total=2),
        "Check the labels of 2 rows of test",
        "Rows 7 and 1 of test: most suspect first.",
    ),
    (
        Recalibrate(metrics=("accuracy",), method="vector scaling", value=0.97, upper=0.98, unit="fraction", n=850),
        "Recalibrate the model",
        "On 850 held-out rows vector scaling brings it to 97.0 %; its upper bound is 98.0 %, which would pass.",
    ),
]


@pytest.mark.parametrize(("remedy", "title", "words"), REMEDIES)
def test_a_remedy_that_the_check_knows_is_what_to_do(remedy: AnyRemedy, title: str, words: str) -> None:
    cases = (case("FAIL", written_unit="%"),)
    (step,) = steps(run(cases, remedies=(remedy,), evidence=(FILE,))).steps
    assert (step.title, step.text) == (title, f"Accuracy: 93 %, needed at least 95 %. {words}")
    other = remedy.model_copy(update={"metrics": ("recall",)})
    (step,) = steps(run(cases, remedies=(other,))).steps
    assert step.title == "Raise accuracy"


def test_a_remedy_whose_bound_is_over_the_limit_is_not_said_to_pass() -> None:
    ece = records.case("calibration/ece", "ece <= 5 %", "FAIL", "So.", threshold=0.05, unit="fraction", value=0.2, n=9)
    map_ = Recalibrate(metrics=("ece",), method="temperature scaling", value=0.04, upper=0.06, unit="fraction", n=9)
    (step,) = steps(run((ece,), remedies=(map_,))).steps
    assert (
        "brings it to 0.040; its upper bound is 0.060, over the limit of 0.05: it takes more rows to confirm it."
        in step.text
    )


def voided(*more: records.Case) -> Record:
    """A record in which copies of training rows leave nothing of two scores."""
    copies = records.case(
        "contamination/copies", "copies == 0", "FAIL", "So.", threshold=0.0, unit="rows", value=4.0, n=9
    )
    scores = tuple(
        records.case(f"quality/{name}", f"{name} >= 90 %", "INVALID", "So.", threshold=0.9, unit="fraction", value=0.95)
        for name in ("accuracy", "recall")
    )
    record = run((*more, *scores, copies))
    assert record.verdict is not None
    decisions = tuple(
        one.model_copy(
            update={
                "voided_by": ("contamination/copies",),
                "reason": "contamination/copies does not hold on the same data",
            }
        )
        if one.status == "INVALID"
        else one
        for one in record.verdict.decisions
    )
    return record.model_copy(update={"verdict": record.verdict.model_copy(update={"decisions": decisions})})


def test_what_voids_others_comes_first_and_names_them() -> None:
    slow = records.case("latency/p99", "p99 <= 1 ms", "FAIL", "So.", threshold=1.0, unit="ms", value=2.0)
    first, second = steps(voided(slow)).steps
    assert (first.title, second.title) == ("Bring copies to 0 rows", "Lower p99")
    assert first.text == "Copies: 4 rows, must be 0 rows. Until then accuracy and recall can't be judged."


def test_what_comes_of_it_is_never_cut() -> None:
    """However long what is wrong is said."""
    sets = tuple(f"crawl_{k:02}" for k in range(40))
    long = RemoveRows(metrics=("copies",), dataset="test", rows=(1, 2, 3, 4, 5), total=6, also_in=sets)
    record = voided()
    checks = tuple(
        check.model_copy(update={"remedies": (long,)}) if check.id == "contamination" else check
        for check in record.checks
    )
    (step,) = steps(record.model_copy(update={"checks": checks})).steps
    assert step.text.endswith("… Until then accuracy and recall can't be judged.") and len(step.text) <= LENGTH + 1


@pytest.mark.parametrize(
    ("required", "threshold", "words"),
    [
        (
            True,
            0.72,
            "On the rows that are left accuracy is 69.8 %, and at least 72 % is required: removing them will not be "
            "enough.",
        ),
        (True, 0.6, "On the rows that are left accuracy is 69.8 %."),
        (False, 0.0, "On the rows that are left accuracy is 0.698."),
    ],
)
def test_rows_to_remove_come_with_what_is_left_of_the_score(required: bool, threshold: float, words: str) -> None:
    copies = records.case(
        "contamination/copies", "copies == 0", "FAIL", "So.", threshold=0.0, unit="rows", value=4.0, n=9
    )
    score = records.case(
        "quality/accuracy", "accuracy >= 72 %", "PASS", "So.", threshold=threshold, unit="fraction",
        written_unit="%", value=0.75,
    )  # fmt: skip
    left = {"score": "accuracy", "score_left": 0.698, "score_unit": "fraction"}
    gone = RemoveRows.model_validate({"metrics": ("copies",), "dataset": "test", "rows": (4,), "total": 1} | left)
    first = steps(run((copies, score) if required else (copies,), remedies=(gone,))).steps[0]
    assert first.text.endswith(f"Row 4 of test. {words}")


def test_an_interrupted_run_is_run_again_and_keeps_what_it_has() -> None:
    waiting = records.case("latency/p99", "p99 <= 1 ms", "NOT_RUN", "So.", threshold=1.0, unit="ms", reason="stopped")
    record = run((case("PASS"), waiting))
    missing = {"status": "not_run", "reason": "it was interrupted", "duration_s": 0.0}
    checks = tuple(one.model_copy(update=missing) if one.id == "latency" else one for one in record.checks)
    record = record.model_copy(update={"interrupted": True, "checks": checks})
    (step,) = steps(record).steps
    assert step.title == "Run it again"
    assert step.text == (
        "The run was interrupted before latency ran. `evalspec run spec.yaml --resume`, with its other options as "
        "before, keeps what was measured."
    )
    (step,) = steps(record.model_copy(update={"spec_file": "../../the spec"})).steps
    assert step.text.endswith("`resume=True` keeps what was measured.")
    # A check that was left aside on purpose is not what an interruption took.
    (step,) = steps(record.model_copy(update={"only": ("quality/accuracy",)})).steps
    assert step.title == "Get p99 measured"


def test_what_is_void_for_a_reason_that_nobody_can_act_on_is_a_step_itself() -> None:
    step = one("INVALID", reason=VOID)
    assert step.title == "Fix the data, then judge again"
    assert step.text == f"Not judged: accuracy. {VOID}."


@pytest.mark.parametrize(
    ("other", "words"),
    [("PASS", "`evalspec run evalspec.yaml --remeasure RUN` keeps the rest."), ("FAIL", "Run all of it again.")],
)
def test_a_busy_machine_names_the_command_where_it_may_be_used(other: Any, words: str) -> None:
    busy = records.case(
        "latency/p99", "p99 <= 1 ms", "INVALID", "So.", threshold=1.0, unit="ms", value=2.0, reason="other work",
        invalid="other work", cause="busy", by_surroundings=True,
    )  # fmt: skip
    beside = records.case("latency/p50", "p50 <= 1 ms", other, "So.", threshold=1.0, unit="ms", value=0.5)
    record = run((busy, beside)).model_copy(update={"spec_file": "../../evalspec.yaml"})
    assert record.verdict is not None
    step = next(step for step in steps(record).steps if "quiet machine" in step.title)
    assert step.text == f"Not judged: p99. Other work. {words}"
    named = next_steps(record, record.verdict, run="reports/a/b").steps
    assert any("--remeasure reports/a/b" in step.text for step in named) == (other == "PASS")


def test_many_steps_are_cut_and_the_rest_is_counted() -> None:
    cases = tuple(
        records.case(f"{name}/m", "m <= 1 ms", "FAIL", "no", threshold=1.0, unit="ms", value=2.0) for name in "abcdefgh"
    )
    found = steps(records.record(records.decide("NOT READY", "So.", cases), []))
    assert (len(found.steps), found.more) == (MOST, 3)


def test_long_reasons_are_cut() -> None:
    step = one("NOT_RUN", reason="x" * 999, value=None)
    assert len(step.text) <= LENGTH and step.text.endswith("…")


def test_a_run_without_a_fault_says_what_is_left_to_read() -> None:
    record = records.ready()
    assert record.verdict is not None
    kept = tuple(decision for decision in record.verdict.decisions if decision.status == "PASS")
    verdict = record.verdict.model_copy(update={"decisions": kept})
    checks = tuple(
        check.model_copy(update={"tests": tuple(test for test in check.tests if test.severity == "require")})
        for check in record.checks
    )
    source = render(record.model_copy(update={"checks": checks}), verdict)
    assert "Nothing blocks and nothing warns." in source
    assert '<h2 id="h-next">What to do</h2>' in source


def test_page_summary_and_junit_have_the_same_steps_before_all_else() -> None:
    record = voided()
    assert record.verdict is not None
    source, summary, xml = render(record, record.verdict), markdown(record), junit(record)
    assert source.index("What to do") < source.index("What blocks first.")
    assert '<a href="#requirement-contamination-copies">contamination</a>' in source
    assert summary.index("### What to do") < summary.index("### Requirements")
    assert (
        "1. **Bring copies to 0 rows** (contamination). Copies: 4 rows, must be 0 rows. Until then accuracy and recall"
        in summary
    )
    assert 'name="what to do 1" value="Bring copies to 0 rows. Copies: 4 rows, must be 0 rows.' in xml


def test_causes() -> None:
    def why(reason: str, behind: str = "") -> str:
        return cause(Decision(name="a/b", status="INVALID", blocking=True, sentence="", reason=reason, cause=behind))

    busy = Cause.OTHER_WORK
    assert why("200 qps: other processes used 76% of it", busy) == why("other processes used 80.5% of it", busy)
    assert why("there is no energy") != why("the server is not the same any more")
    assert why("other processes used 76% of it", busy) != why("the hypervisor took 76% of it", Cause.STOLEN_TIME)
    # The words of a reason without a cause are not looked into: two such reasons are one where they say the same.
    assert why("a server said 1") != why("a server said 2")
    assert why("a server said 1") == why("a server said 1")


def test_the_smallest_remedy_that_helps_all_is_taken() -> None:
    known: list[AnyRemedy] = [
        RemoveRows(metrics=("accuracy", "recall"), dataset="test", rows=(1, 2), total=2),
        RemoveRows(metrics=("accuracy",), dataset="test", rows=(1,), total=1),
    ]
    record = run((case("FAIL"),))
    (check,) = record.checks
    record = record.model_copy(update={"checks": (check.model_copy(update={"remedies": tuple(known)}),)})
    assert steps(record).steps[0].title == "Remove 1 row from test"


def test_a_count_says_of_what() -> None:
    told = {"threshold": 0.0, "unit": "count", "value": 2.0, "n": 2, "exact": True, "first": "dark (21 rows)"}
    dark = records.case("slices/small", "small == 0", "FAIL", "It is so.", **told)
    (step,) = steps(run((dark,))).steps
    assert (step.title, step.text) == ("Bring small to 0", "Small: 2, must be 0: dark (21 rows).")


def test_data_in_doubt_come_before_the_model_that_fails_on_them() -> None:
    found = steps(records.not_ready()).steps
    of = [step.targets[0][1] for step in found]
    assert of.index("contamination") < of.index("calibration")


def test_most_of_a_dataset_is_replaced() -> None:
    record = run((case("FAIL"),), remedies=(RemoveRows(metrics=("accuracy",), dataset="test", rows=(0, 1), total=700),))
    assert steps(record).steps[0].title == "Replace test"
    assert "700 of its 840 rows would have to go. Rows 0, 1" in steps(record).steps[0].text
