"""Records as the digits example makes them: READY, NOT READY, one with every status, an empty one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from evalspec.evidence.record import (
    CheckRecord,
    Claim,
    ControlRecord,
    Counts,
    DatasetRecord,
    Environment,
    EvidenceFile,
    ModelRecord,
    Policy,
    Record,
    Waiver,
)
from evalspec.evidence.test import PartTest, Test
from evalspec.evidence.verdict import Decision, Status, Verdict, Word
from tests.report import blocks

INT8 = "sha256:5f1c0a9d3b7e4426c1d08e9a77b3f0d2a6c9e51b84d7f3306a2e9c1d5b7f8a04"
FP32 = "sha256:0b94c27d1e6a58f3907bb2cd41e8a6f57d30c9b2e4518fa6c7d20e9b31a4f6c8"
STAGES = ("cast float32", "scale 0.0625")
DARK = "Sorting lines run at night; the service agreement (4.2) holds there too."


@dataclass(frozen=True)
class Case:
    """A test, what became of it, and its sentence."""

    test: Test
    status: Status
    sentence: str
    reason: str | None = None
    waived: bool = False
    looks_violated: bool = False


def case(name: str, sentence: str, status: Status, said: str, **fields: Any) -> Case:
    """One requirement; ``fields`` go to the test but for those of `Case`."""
    own = {key: fields.pop(key) for key in ("reason", "waived", "looks_violated") if key in fields}
    check, _, metric = name.partition("/")
    op = next(op for op in ("<=", ">=", "==", "<", ">") if f" {op} " in sentence)
    test = Test(name=name, check=check, sentence=sentence, metric=metric.split("(")[0].split(" ")[0], op=op, **fields)  # type: ignore[arg-type]
    return Case(test, status, said, **own)


def decide(word: Word, reason: str, cases: Iterable[Case], **fields: Any) -> Verdict:
    """A verdict by hand over these requirements."""
    cases = tuple(cases)
    decisions = tuple(
        Decision(
            name=item.test.name,
            status=item.status,
            blocking=item.test.severity == "require" and not item.waived,
            sentence=item.sentence,
            waived=item.waived,
            reason=item.reason,
            looks_violated=item.looks_violated,
            notes=item.test.notes,
        )
        for item in cases
    )
    counts = {
        status: sum(item.status == status for item in cases)
        for status in ("PASS", "FAIL", "INCONCLUSIVE", "NOT_RUN", "INVALID", "ERROR")
    }
    code = {"READY": 0, "NOT READY": 1, "UNDECIDED": 3, "ERROR": 4}[word]
    return Verdict(
        word=word, reason=reason, exit_code=code, counts=counts, decisions=decisions, **{"headline": word, **fields}
    )


def models() -> tuple[ModelRecord, ...]:
    classes = tuple("0123456789")
    details: dict[str, Any] = {"provider": "CPUExecutionProvider", "framework": "onnxruntime 1.24.1", "threads": 1}
    return (
        ModelRecord(
            name="candidate",
            kind="onnx",
            digest=INT8,
            path="digits/int8.onnx",
            size_bytes=148_312,
            precision="int8",
            precision_observed="int8",
            device="cpu",
            device_observed="cpu",
            batch=32,
            preprocess_digest="9c1ea0f2",
            preprocess=STAGES,
            quantization={"method": "static", "calibration": "train"},
            classes=classes,
            details=details,
        ),
        ModelRecord(
            name="baseline",
            kind="torch",
            digest=FP32,
            path="digits/fp32.pt2",
            size_bytes=561_004,
            precision="fp32",
            precision_observed="fp32",
            device="cpu",
            device_observed="cpu",
            batch=32,
            preprocess_digest="9c1ea0f2",
            preprocess=STAGES,
            classes=classes,
            details={"framework": "torch 2.13.0", "threads": 1},
        ),
    )


def datasets() -> tuple[DatasetRecord, ...]:
    columns = {"pixels": "list<uint8>", "digit": "int64", "lux": "double", "occlusion": "double"}
    rows = (
        ("train", 6_720, "a11e", {"site": "lab", "collected": "2026-03-02"}),
        ("test", 840, "7b0d", {"site": "lab", "collected": "2026-05-01"}),
        ("traffic", 840, "c4f2", {"site": "field", "collected": "2026-10-01"}),
    )
    return tuple(
        DatasetRecord(
            name=name,
            kind="parquet",
            digest=f"sha256:{start}{'63d9f0b21c7e85aa' * 4}"[:71],
            rows=count,
            columns=columns,
            label="digit",
            path=f"digits/{name}.parquet",
            origin=origin,
        )
        for name, count, start, origin in rows
    )


def environment() -> Environment:
    return Environment(
        facts={
            "cpu": "AMD EPYC 7763, 2 of 64 cores",
            "memory": "15.6 GiB",
            "os": "Linux 6.8.0, Debian 12",
            "gpu": None,
            "python": "3.11.9",
            "container": "none",
            "git": "8f2c1d0, clean",
        },
        packages={
            "numpy": "2.4.6",
            "onnxruntime": "1.24.1",
            "scipy": "1.17.0",
            "torch": "2.13.0",
            "pyarrow": "26.0.1",
            "scikit-learn": "1.9.1",
        },
        controls=(
            ControlRecord(name="CPU affinity", state="applied", detail="core 1"),
            ControlRecord(name="CPU governor", state="unavailable", detail="no cpufreq in this machine"),
            ControlRecord(name="clock lock", state="not attempted"),
        ),
        load_at_start=0.21,
        load_at_end=0.34,
    )


CHECKS: dict[str, dict[str, Any]] = {
    "latency": {
        "dimension": "system",
        "datasets": ("test",),
        "baseline_models": ("baseline",),
        "conditions": {
            "scenario": "single_stream",
            "batch": 1,
            "precision": "int8",
            "device": "cpu",
            "threads": 1,
            "processes": 5,
        },
        "measured": {"latency_p50": 0.431, "latency_p99": 0.704, "latency_mean": 0.452, "jitter": 0.061},
        "units": dict.fromkeys(("latency_p50", "latency_p99", "latency_mean", "jitter"), "ms"),
        "counts": Counts(attempted=6_300, used=6_000, dropped=300),
        "summary": "How long one query takes, from the request to the answer.",
        "cannot_show": "How it behaves under load, on another machine, or past the five minutes that it ran.",
        "evidence": (
            EvidenceFile(
                path="evidence/latency.parquet", digest=FP32, rows=6_000, what="every query with its start and end"
            ),
        ),
    },
    "throughput": {
        "dimension": "system",
        "datasets": ("test",),
        "report_only": True,
        "conditions": {"scenario": "offline", "precision": "int8", "device": "cpu"},
        "measured": {"throughput": 26_400.0, "throughput(batch 8)": 11_800.0, "best_batch": 128.0},
        "units": {"throughput": "samples/s", "throughput(batch 8)": "samples/s", "best_batch": "count"},
        "summary": "How many rows a second it can answer when all are there at once.",
        "cannot_show": "Latency: the best batch for throughput makes every single row wait.",
    },
    "quality": {
        "dimension": "model",
        "datasets": ("test",),
        "baseline_models": ("baseline",),
        "conditions": {"batch": 32, "precision": "int8", "device": "cpu"},
        "measured": {"accuracy": 0.974, "balanced_accuracy": 0.973},
        "units": {"accuracy": "fraction", "balanced_accuracy": "fraction"},
        "counts": Counts(attempted=840, used=840),
        "why": "Below 95 % the sorting line stops (service agreement, 4.2).",
        "owner": "vision@example.com",
        "summary": "How often the answer is right.",
        "cannot_show": "Pictures unlike the test set's; which mistakes are the costly ones.",
    },
    "calibration": {
        "dimension": "model",
        "datasets": ("test",),
        "conditions": {"bins": 10, "scheme": "equal mass", "batch": 32},
        "measured": {"ece": 0.011, "temperature": 1.04},
        "units": {"ece": "fraction", "temperature": "score"},
        "summary": "Whether a confidence of 90 % is right in 90 % of cases.",
        "cannot_show": "Calibration within a slice, or away from this test set.",
    },
    "slices": {
        "dimension": "model",
        "datasets": ("test",),
        "conditions": {"min_n": 60, "batch": 32},
        "measured": {"worst_accuracy": 0.939, "accuracy(dark)": 0.951, "slices_too_small": 0.0},
        "units": {"worst_accuracy": "fraction", "accuracy(dark)": "fraction", "slices_too_small": "count"},
        "why": DARK,
        "owner": "vision@example.com",
        "summary": "Whether it holds for the rows that are few.",
        "cannot_show": "Slices that nobody named, and columns that were not recorded.",
    },
    "contamination": {
        "dimension": "data",
        "datasets": ("train", "test"),
        "models": (),
        "measured": {"exact_duplicates": 0.0, "near_duplicates": 0.12},
        "units": {"exact_duplicates": "rows", "near_duplicates": "%"},
        "notes": ("The near-duplicate detector finds 97 % of planted pairs.",),
        "summary": "Whether test rows were seen in training.",
        "cannot_show": "Leaks through a third set that neither file holds.",
    },
    "shift": {
        "dimension": "data",
        "datasets": ("test", "traffic"),
        "models": (),
        "conditions": {"tolerance": 0.1, "columns": 13},
        "measured": {"drifted_columns": 7.7, "c2st_auc": 0.548},
        "units": {"drifted_columns": "%", "c2st_auc": "score"},
        "summary": "Whether traffic still looks like the test set.",
        "cannot_show": "A change in what the labels mean while the pictures stay alike.",
    },
}
BLOCKS = {
    "latency": blocks.latency_blocks,
    "throughput": blocks.throughput_blocks,
    "quality": blocks.quality_blocks,
    "calibration": blocks.calibration_blocks,
    "slices": blocks.slices_blocks,
    "contamination": blocks.contamination_blocks,
    "shift": blocks.shift_blocks,
}


def check(name: str, cases: Iterable[Case], **changes: Any) -> CheckRecord:
    """A check of the digits example with the tests of ``cases`` that are its own."""
    fields: dict[str, Any] = {
        "models": ("candidate",),
        "status": "measured",
        "duration_s": 3.2,
        "seed": 7,
        **CHECKS[name],
    }
    if changes.get("status", "measured") in ("measured", "invalid"):
        fields["blocks"] = BLOCKS[name]()
    else:
        fields["measured"] = {}
    own = tuple(item.test for item in cases if item.test.check == name)
    return CheckRecord(id=name, check=name, tests=own, **{**fields, **changes})


def record(verdict: Verdict, checks: Iterable[CheckRecord], **changes: Any) -> Record:
    """The digits record around these checks."""
    fields: dict[str, Any] = {
        "evalspec": "0.1.0", "spec": "digits-int8", "spec_digest": "sha256:" + "d3" * 32, "spec_file": "suites/digits/spec.yaml",
        "started": "2026-11-20T09:14:03+00:00", "finished": "2026-11-20T09:15:41+00:00", "command": ("evalspec", "run", "suites/digits/spec.yaml"),
        "seed": 7, "policy": Policy(), "subject": INT8, "models": models(), "datasets": datasets(), "environment": environment(),
        "claims": (Claim(metric="throughput", value="40000 samples/s", by="vendor", source="data sheet p. 4", conditions={"batch": 128, "precision": "int8", "device": "npu"}),),
        "not_tested": ("Latency under load: no `load` check in the spec.", "Memory, energy, cold start: no check in the spec.", "Other hardware than this machine."),
    }  # fmt: skip
    return Record(**{**fields, **changes, "checks": tuple(checks), "verdict": verdict})


def ready_cases() -> tuple[Case, ...]:
    """Everything holds, one `warn` is undecided."""
    parts = tuple(
        PartTest(
            part=name, value=value, n=n, lower=value - 0.03, upper=min(1.0, value + 0.02), p_pass=0.001, p_fail=1.0
        )
        for name, value, n in (("dark", 0.951, 184), ("occluded", 0.939, 146))
    )
    return (
        case("latency/latency_p99", "latency_p99 <= 5 ms", "PASS", "latency_p99 0.704 ms (n 6,000), 95 % upper bound 0.742 ms, needs 5 ms: holds.", threshold=5, unit="ms", value=0.704, lower=0.67, upper=0.742, p_pass=1e-9, p_fail=1.0, n=6000, method="binomial order statistic, design effect 1.8"),
        case("latency/latency_p50 vs baseline", "latency_p50 <= 1.2x baseline", "PASS", "latency_p50 is 0.86x that of baseline (5 pairs of processes), 95 % upper bound 0.91x, needs 1.2x: holds.", threshold=1.2, unit="x", against="baseline", value=0.86, candidate=0.431, baseline=0.501, lower=0.81, upper=0.91, p_pass=1e-4, p_fail=1.0, n=5, method="t on paired log ratios"),
        case("quality/accuracy", "accuracy >= 95 %", "PASS", "accuracy 0.974 (n 840), 95 % lower bound 0.963, needs 0.95: holds.", threshold=0.95, unit="fraction", value=0.974, lower=0.963, upper=0.982, p_pass=0.0003, p_fail=0.999, n=840, method="Clopper-Pearson"),
        case("quality/accuracy vs baseline", "accuracy >= baseline - 2 pp", "PASS", "accuracy is 0.3 pp below baseline (840 pairs), 95 % lower bound -1.1 pp, needs -2 pp: holds.", threshold=-2, unit="pp", against="baseline", value=-0.3, candidate=0.974, baseline=0.977, lower=-1.1, upper=0.4, p_pass=0.004, p_fail=0.99, n=840, method="Tango score"),
        case("calibration/ece", "ece <= 0.05", "PASS", "ece 0.011 (n 840), 95 % upper bound 0.031, needs 0.05: holds.", threshold=0.05, unit="fraction", value=0.011, lower=0.0, upper=0.031, p_pass=0.002, p_fail=1.0, n=840, method="L1 over 10 equal-mass bins"),
        case("slices/worst_accuracy", "worst_accuracy >= 85 %", "PASS", "worst_accuracy 0.939 (slice occluded, n 146), 95 % lower bound 0.893, needs 0.85: holds in 12 of 12 slices.", threshold=0.85, unit="fraction", value=0.939, lower=0.893, upper=0.969, p_pass=0.0004, p_fail=1.0, n=146, must_hold=2, parts=parts, method="Clopper-Pearson"),
        case("slices/accuracy(dark)", "accuracy(dark) >= 88 %", "PASS", "accuracy(dark) 0.951 (n 184), 95 % lower bound 0.916, needs 0.88: holds.", threshold=0.88, unit="fraction", value=0.951, lower=0.916, upper=0.974, p_pass=0.001, p_fail=1.0, n=184, method="Clopper-Pearson"),
        case("slices/slices_too_small", "slices_too_small == 0", "PASS", "slices_too_small is 0, counted over the whole file: holds.", threshold=0, unit="count", value=0, n=12, exact=True, method="counted"),
        case("contamination/exact_duplicates", "exact_duplicates == 0", "PASS", "exact_duplicates is 0 rows, counted over the whole file: holds.", threshold=0, unit="rows", value=0, n=840, exact=True, method="counted"),
        case("contamination/near_duplicates", "near_duplicates <= 0.5 %", "PASS", "near_duplicates is 0.12 %, counted over the whole file: holds.", threshold=0.5, unit="%", value=0.12, n=840, exact=True, method="MinHash and exact comparison"),
        case("shift/drifted_columns", "drifted_columns <= 10 %", "PASS", "drifted_columns 7.7 % (1 of 13 columns; lux), needs 10 %: holds.", threshold=10, unit="%", value=7.7, lower=0, upper=9.2, p_pass=0.03, p_fail=1.0, n=840, method="partial conjunction"),
        case("shift/c2st_auc", "c2st_auc <= 0.60", "INCONCLUSIVE", "c2st_auc 0.548 (n 420), 95 % upper bound 0.607, needs 0.6: not decided; if 0.548 is the truth, 1,900 items would pass it in 4 of 5 cases.", severity="warn", threshold=0.6, unit="score", value=0.548, lower=0.489, upper=0.607, p_pass=0.08, p_fail=0.93, n=420, n_to_decide=1900, method="DeLong on the logit"),
    )  # fmt: skip


def ready() -> Record:
    """READY, one warning undecided."""
    cases = ready_cases()
    verdict = decide(
        "READY",
        "All 11 blocking requirements hold at 95 %.",
        cases,
        headline="READY (1 undecided)",
        weakened=("1 `warn` requirement is undecided: shift/c2st_auc.",),
    )
    return record(verdict, (check(name, cases) for name in CHECKS))


def not_ready() -> Record:
    """NOT READY: overconfident, leaked test pictures, dark pictures unseen; one waiver."""
    changed = {
        "calibration/ece": case("calibration/ece", "ece <= 0.05", "FAIL", "ece 0.142 (n 840), 99.5 % lower bound 0.103, needs at most 0.05: violated.", threshold=0.05, unit="fraction", value=0.142, lower=0.117, upper=0.171, p_pass=1.0, p_fail=1e-7, n=840, method="L1 over 10 equal-mass bins", why="The sorter trusts answers over 0.9 without a second look.", owner="vision@example.com"),
        "slices/worst_accuracy": case("slices/worst_accuracy", "worst_accuracy >= 85 %", "FAIL", "worst_accuracy 0.717 (slice dark, n 184), 99.5 % upper bound 0.8, needs 0.85: violated in 1 of 12 slices.", threshold=0.85, unit="fraction", value=0.717, lower=0.658, upper=0.771, p_pass=1.0, p_fail=2e-6, n=184, must_hold=12, why=DARK, owner="vision@example.com"),
        "slices/accuracy(dark)": case("slices/accuracy(dark)", "accuracy(dark) >= 88 %", "FAIL", "accuracy(dark) 0.717 (n 184), 99.5 % upper bound 0.8, needs 0.88: violated.", threshold=0.88, unit="fraction", value=0.717, lower=0.658, upper=0.771, p_pass=1.0, p_fail=1e-9, n=184, why=DARK, owner="vision@example.com"),
        "contamination/exact_duplicates": case("contamination/exact_duplicates", "exact_duplicates == 0", "FAIL", "exact_duplicates is 31 rows, counted over the whole file, needs 0: violated.", threshold=0, unit="rows", value=31, n=840, exact=True),
        "contamination/near_duplicates": case("contamination/near_duplicates", "near_duplicates <= 0.5 %", "FAIL", "near_duplicates is 3.9 %, counted over the whole file, needs at most 0.5 %: violated.", threshold=0.5, unit="%", value=3.9, n=840, exact=True),
        "quality/accuracy": case("quality/accuracy", "accuracy >= 95 %", "INVALID", "accuracy 0.962 (n 840), 95 % lower bound 0.95, but contamination/exact_duplicates FAILs on the same dataset: not interpretable.", reason="contamination/exact_duplicates FAILs on dataset test", threshold=0.95, unit="fraction", value=0.962, lower=0.95, upper=0.972, p_pass=0.05, p_fail=0.96, n=840, invalid="not interpretable", why="Below 95 % the sorting line stops (service agreement, 4.2).", owner="vision@example.com"),
        "latency/latency_p50 vs baseline": case("latency/latency_p50 vs baseline", "latency_p50 <= 1.2x baseline", "INCONCLUSIVE", "latency_p50 is 1.14x that of baseline (5 pairs of processes), 95 % upper bound 1.31x, needs 1.2x: not decided; too close to the threshold to decide.", threshold=1.2, unit="x", against="baseline", value=1.14, candidate=0.57, baseline=0.50, lower=0.99, upper=1.31, p_pass=0.21, p_fail=0.79, n=5, waived=True),
    }  # fmt: skip
    cases = tuple(changed.get(item.test.name, item) for item in ready_cases())
    waiver = Waiver(
        of="latency/latency_p50 vs baseline",
        why="The staging machine is shared until January.",
        owner="sre@example.com",
        expires="2026-12-31",
    )
    verdict = decide(
        "NOT READY",
        "5 of 11 blocking requirements are violated, first calibration/ece: ece 0.142, needs at most 0.05.",
        cases,
        headline="NOT READY (1 waived, 1 undecided, 1 invalid)",
        weakened=(
            "1 requirement is waived: latency/latency_p50 vs baseline.",
            "This subject was decided 2 times before on these data: the chance that a READY is wrong is at most (2 + 1) x 5 %.",
        ),
    )
    measured = {
        "calibration": {"measured": {"ece": 0.142, "temperature": 1.31}},
        "slices": {"measured": {"worst_accuracy": 0.717, "accuracy(dark)": 0.717, "slices_too_small": 0.0}},
        "contamination": {"measured": {"exact_duplicates": 31.0, "near_duplicates": 3.9}},
        "quality": {"measured": {"accuracy": 0.962, "balanced_accuracy": 0.961}},
    }
    made = []
    for name in CHECKS:
        shown = {
            "calibration": lambda: blocks.calibration_blocks(0.14),
            "slices": lambda: blocks.slices_blocks(0.717),
            "contamination": lambda: blocks.contamination_blocks(31),
        }.get(name, BLOCKS[name])()
        made.append(check(name, cases, blocks=shown, **measured.get(name, {})))
    return record(verdict, made, waivers=(waiver,), earlier_runs=2)


def every_status() -> Record:
    """Each status, blocking and not, waived, looking violated; a check that did not run, one that crashed."""
    base = {item.test.name: item for item in ready_cases()}
    shared: dict[str, Any] = {"threshold": 0.9, "unit": "fraction"}
    cases = (
        base["latency/latency_p99"],
        case("latency/latency_p95", "latency_p95 <= 2 ms", "INVALID", "Other work ran on this machine while it was timed: inadmissible.", reason="load 7.9 at start", threshold=2, unit="ms", value=1.1, lower=1.0, upper=1.3, n=6000, invalid="load 7.9 at start"),
        case("throughput/throughput", "throughput >= 1000 samples/s", "NOT_RUN", "Not run: predictions made elsewhere can't be timed.", reason="predictions can't be timed", threshold=1000, unit="samples/s", missing="predictions can't be timed"),
        case("quality/accuracy", "accuracy >= 99 %", "FAIL", "accuracy 0.974 (n 840), 99.8 % upper bound 0.986, needs 0.99: violated.", threshold=0.99, unit="fraction", value=0.974, lower=0.963, upper=0.982, n=840, why="It says so in the contract.", owner="vision@example.com"),
        case("quality/balanced_accuracy", "balanced_accuracy >= 98 %", "INCONCLUSIVE", "balanced_accuracy 0.973 (n 840), looks violated, but Holm over 6 withholds the FAIL.", threshold=0.98, unit="fraction", value=0.973, lower=0.962, upper=0.979, n=840, looks_violated=True),
        case("quality/recall(3)", "recall(3) >= 90 %", "INCONCLUSIVE", "recall(3) 0.91 (n 84), not decided.", **shared, value=0.91, lower=0.84, upper=0.95, n=84),
        case("calibration/ece", "ece <= 0.05", "ERROR", "The check crashed: probabilities of row 17 sum to 0.62.", reason="probabilities of row 17 sum to 0.62", threshold=0.05, unit="fraction", missing="crashed"),
        case("slices/worst_accuracy", "worst_accuracy >= 90 %", "FAIL", "worst_accuracy 0.72 (slice dark, n 184): violated, waived.", **shared, value=0.72, lower=0.66, upper=0.77, n=184, waived=True),
        base["contamination/exact_duplicates"],
        case("shift/c2st_auc", "c2st_auc <= 0.60", "FAIL", "c2st_auc 0.71 (n 420): violated.", severity="warn", threshold=0.6, unit="score", value=0.71, lower=0.66, upper=0.75, n=420),
    )  # fmt: skip
    verdict = decide(
        "NOT READY",
        "quality/accuracy is violated: 0.974, needs 0.99.",
        cases,
        headline="NOT READY (1 waived, 2 undecided, 1 invalid, 1 not run, 1 error)",
        weakened=("1 waived", "subject not shown"),
    )
    states: dict[str, dict[str, Any]] = {
        "throughput": {"status": "not_run", "reason": "predictions can't be timed", "report_only": False},
        "calibration": {"status": "error", "reason": "probabilities of row 17 sum to 0.62"},
        "latency": {"status": "invalid", "reason": "other work ran on this machine"},
    }
    waiver = Waiver(
        of="slices/worst_accuracy",
        why="Dark pictures come with the next release.",
        owner="pm@example.com",
        expires="2026-12-01",
    )
    return record(
        verdict,
        (check(name, cases, **states.get(name, {})) for name in CHECKS),
        waivers=(waiver,),
        draft=True,
        only=("quality",),
        interrupted=True,
        subject=None,
    )


def empty() -> Record:
    """A run in which nothing was measured."""
    verdict = Verdict(word="UNDECIDED", reason="Nothing was measured.", headline="UNDECIDED", exit_code=3, counts={})
    return Record(
        evalspec="0.1.0",
        spec="empty",
        spec_digest="sha256:00",
        spec_file="spec.yaml",
        started="2026-11-20T09:14:03+00:00",
        finished="2026-11-20T09:14:03+00:00",
        seed=0,
        policy=Policy(),
        verdict=verdict,
    )


def many(count: int = 300) -> Record:
    """One check with ``count`` requirements."""
    cases = tuple(
        case(f"slices/accuracy(digit_{index})", f"accuracy(digit_{index}) >= 88 %", "PASS" if index % 7 else "FAIL", f"accuracy(digit_{index}) 0.93 (n {84 + index}), 95 % lower bound 0.9, needs 0.88: {'holds' if index % 7 else 'violated'}.", threshold=0.88, unit="fraction", value=0.93, lower=0.9, upper=0.95, p_pass=0.001, p_fail=0.9, n=84 + index)
        for index in range(count)
    )  # fmt: skip
    verdict = decide(
        "NOT READY",
        f"{len([item for item in cases if item.status == 'FAIL'])} blocking requirements are violated.",
        cases,
    )
    return record(verdict, [check("slices", cases)])
