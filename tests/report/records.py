"""Records as the digits example makes them: READY, NOT READY, one with every status, an empty one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from evalspec.evidence.blocks import Matrix
from evalspec.evidence.reasons import Cause
from evalspec.evidence.record import (
    CheckRecord,
    Claim,
    ControlRecord,
    DatasetRecord,
    Environment,
    ModelRecord,
    Policy,
    Record,
    Waiver,
)
from evalspec.evidence.test import Test
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
            cause=item.test.cause,
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


@cache
def tables() -> dict[str, Any]:
    """The requirements and checks of ``cases.yaml``."""
    loaded: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8"))
    return loaded


def cases_of(record_name: str) -> tuple[Case, ...]:
    """The requirements that ``cases.yaml`` has under this name."""
    return tuple(case(**{**fields}) for fields in tables()[record_name])


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
        **tables()["checks"][name],
    }
    if changes.get("status", "measured") in ("measured", "invalid"):
        fields["blocks"] = BLOCKS[name]()
    else:
        fields["measured"] = {}
    own = tuple(item.test for item in cases if item.test.check == name)
    return CheckRecord(id=name, check=name, tests=own, **{**fields, **changes})


def record(verdict: Verdict, checks: Iterable[CheckRecord], **changes: Any) -> Record:
    """The digits record around these checks."""
    conditions: dict[str, Any] = {"batch": 128, "precision": "int8", "device": "npu"}
    claim = Claim(
        metric="throughput", value="40000 samples/s", by="vendor", source="data sheet p. 4", conditions=conditions
    )
    fields: dict[str, Any] = {
        "evalspec": "0.1.0",
        "spec": "digits-int8",
        "spec_digest": "sha256:" + "d3" * 32,
        "spec_file": "suites/digits/spec.yaml",
        "started": "2026-11-20T09:14:03+00:00",
        "finished": "2026-11-20T09:15:41+00:00",
        "command": ("evalspec", "run", "suites/digits/spec.yaml"),
        "seed": 7,
        "policy": Policy(),
        "subject": INT8,
        "models": models(),
        "datasets": datasets(),
        "environment": environment(),
        "claims": (claim,),
        "not_tested": (
            "Latency under load: no `load` check in the spec.",
            "Memory, energy, cold start: no check in the spec.",
            "Other hardware than this machine.",
        ),
    }
    return Record(**{**fields, **changes, "checks": tuple(checks), "verdict": verdict})


def ready() -> Record:
    """READY, one warning undecided."""
    cases = cases_of("ready")
    weakened = ("1 `warn` requirement is undecided: shift/c2st_auc.",)
    verdict = decide(
        "READY",
        "All 11 blocking requirements hold at 95 %.",
        cases,
        headline="READY (1 inconclusive)",
        weakened=weakened,
    )
    return record(verdict, (check(name, cases) for name in tables()["checks"]))


def not_ready() -> Record:
    """NOT READY: overconfident, leaked test pictures, dark pictures unseen; one waiver."""
    changed = {item.test.name: item for item in cases_of("not_ready")}
    cases = tuple(changed.get(item.test.name, item) for item in cases_of("ready"))
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
        headline="NOT READY (1 waived, 1 inconclusive, 1 not judged)",
        weakened=(
            "1 requirement is waived: latency/latency_p50 vs baseline.",
            "This subject was decided 2 times before on these data: "
            "the chance that a READY is wrong is at most (2 + 1) x 5 %.",
        ),
    )
    changes: dict[str, dict[str, Any]] = {
        "calibration": {"blocks": blocks.calibration_blocks(0.14), "measured": {"ece": 0.142, "temperature": 1.31}},
        "slices": {"blocks": blocks.slices_blocks(0.717), "measured": {"worst_accuracy": 0.717}},
        "contamination": {"blocks": blocks.contamination_blocks(31), "measured": {"exact_duplicates": 31.0}},
        "quality": {"measured": {"accuracy": 0.962, "balanced_accuracy": 0.961}},
    }
    made = [check(name, cases, **changes.get(name, {})) for name in tables()["checks"]]
    return record(verdict, made, waivers=(waiver,), earlier_runs=2)


def every_status() -> Record:
    """Each status, blocking and not, waived, looking violated; a check that did not run, one that crashed."""
    held = [
        item
        for item in cases_of("ready")
        if item.test.name in ("latency/latency_p99", "contamination/exact_duplicates")
    ]
    cases = (*cases_of("every_status"), *held)
    verdict = decide(
        "NOT READY",
        "quality/accuracy is violated: 0.974, needs 0.99.",
        cases,
        headline="NOT READY (1 waived, 1 crashed, 1 not judged, 2 inconclusive, 1 not run)",
        weakened=("1 waived.",),
    )
    changes: dict[str, dict[str, Any]] = {
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
        (check(name, cases, **changes.get(name, {})) for name in tables()["checks"]),
        waivers=(waiver,),
        draft=True,
        only=("quality",),
        interrupted=True,
        subject=None,
    )


def empty() -> Record:
    """A run in which nothing was measured."""
    verdict = Verdict(word="UNDECIDED", reason="Nothing was measured.", headline="UNDECIDED", exit_code=3, counts={})
    moment = "2026-11-20T09:14:03+00:00"
    return Record(
        evalspec="0.1.0",
        spec="empty",
        spec_digest="sha256:00",
        spec_file="spec.yaml",
        started=moment,
        finished=moment,
        seed=0,
        policy=Policy(),
        verdict=verdict,
    )


RATES = ("200 qps", "4000 qps")
BUSY = "other processes used {} % of this machine's processor time meanwhile, more than 75 %"


def crowded() -> Record:
    """UNDECIDED: a load check with numbers that are not to be trusted, and charts with many lines."""
    lag = "the load generator was the bottleneck: 1 % of queries were sent more than 3.9 ms late (at most 1 ms)"
    part = {"part": "200 qps", "value": 1.2, "n": 5000, "p_pass": 0.01, "p_fail": 1.0}
    late, busy = Cause.LOAD_GENERATOR, Cause.OTHER_WORK
    cases = (
        case("load/latency_p99", "latency_p99 <= 10 ms", "INVALID",
             f"latency_p99 1.2 ms (n 5,000), needs at most 10 ms: inadmissible; 4000 qps: {lag}",
             reason=f"4000 qps: {lag}", threshold=10.0, unit="ms", value=1.2, lower=0.9, upper=1.4, n=5000,
             parts=(part,), must_hold=1, invalid=lag, cause=late, owner="line@example.com"),
        case("load/error_rate", "error_rate <= 1 %", "INVALID", f"error_rate <= 1 %: inadmissible: 4000 qps: {lag}",
             reason=f"4000 qps: {lag}", threshold=1.0, unit="%", invalid=lag, cause=late, owner="line@example.com"),
        case("load/max_rate", "max_rate >= 1000 qps", "INVALID",
             f"max_rate >= 1000 qps: inadmissible: {BUSY.format(91)}", reason=BUSY.format(91), threshold=1000.0,
             unit="qps", invalid=BUSY.format(91), cause=busy),
        case("load/goodput(200 qps)", "goodput(200 qps) >= 190 qps", "PASS", "goodput holds.", threshold=190.0,
             unit="qps", value=198.0, lower=195.0, upper=199.0, n=5000, notes=("No upper bound: few episodes.",)),
        case("latency/latency_p95", "latency_p95 <= 2 ms", "INVALID", f"inadmissible: {BUSY.format(95)}",
             reason=BUSY.format(95), threshold=2.0, unit="ms", value=1.1, lower=1.0, upper=1.3, n=6000,
             invalid=BUSY.format(95), cause=busy),
        case("latency/latency_p50", "latency_p50 <= 1 ms", "INVALID", f"inadmissible: {BUSY.format(96)}",
             reason=BUSY.format(96), threshold=1.0, unit="ms", value=0.4, n=6000, invalid=BUSY.format(96), cause=busy,
             severity="warn"),
    )  # fmt: skip
    measured = {"latency_p99(200 qps)": 1.2, "latency_p99(4000 qps)": 13.65, "error_rate(200 qps)": 0.0,
                "error_rate(4000 qps)": 2.5, "goodput(200 qps)": 198.0, "max_rate": None}  # fmt: skip
    units = {name: "%" if name.startswith("error") else "qps" if "ms" in name else "ms" for name in measured}
    units |= {"goodput(200 qps)": "qps", "max_rate": "qps"}
    load = CheckRecord(
        id="load", check="load", dimension="system", status="measured", models=("candidate",), datasets=("test",),
        measured=measured, units=units, conditions={"scenario": "server", "burstiness": None}, seed=7,
        tests=tuple(item.test for item in cases if item.test.check == "load"), blocks=blocks.load_blocks(),
        summary="What it serves in time.", cannot_show="Traffic that is not like this.",
    )  # fmt: skip
    reason = "load/latency_p99: inadmissible (and 2 more)"
    verdict = decide("UNDECIDED", reason, cases, headline="UNDECIDED (4 inconclusive)")
    limits = ("load cannot show: Traffic that is not like this.", "load: cannot show: is not a limit")
    return record(verdict, (check("latency", cases), load, check("quality", cases)), not_tested=limits)


def many(count: int = 300) -> Record:
    """One check with ``count`` requirements, every seventh of them violated."""
    cases = tuple(_numbered(index) for index in range(count))
    violated = sum(item.status == "FAIL" for item in cases)
    verdict = decide("NOT READY", f"{violated} blocking requirements are violated.", cases)
    return record(verdict, [check("slices", cases)])


def _numbered(index: int) -> Case:
    metric = f"accuracy(digit_{index})"
    status: Status = "PASS" if index % 7 else "FAIL"
    said = f"{metric} 0.93 (n {84 + index}), 95 % lower bound 0.9, needs 0.88: {'holds' if index % 7 else 'violated'}."
    return case(
        f"slices/{metric}",
        f"{metric} >= 88 %",
        status,
        said,
        threshold=0.88,
        unit="fraction",
        value=0.93,
        lower=0.9,
        upper=0.95,
        n=84 + index,
    )


def wide_matrix() -> Record:
    """READY, with a confusion matrix of eight classes with long names and large counts."""
    names = ("bird", "cat", "dog", "fish", "food", "furniture", "tool", "vehicle")
    block = Matrix(
        title="Confusion matrix",
        row_label="true",
        column_label="predicted",
        rows=names,
        columns=names,
        values=tuple(tuple(4_400.0 + i if i == j else 180.0 + 10 * i + j for j in range(8)) for i in range(8)),
    )
    record = ready()
    checks = tuple(
        one.model_copy(update={"blocks": (*one.blocks, block)}) if one.id == "quality" else one for one in record.checks
    )
    return record.model_copy(update={"checks": checks})
