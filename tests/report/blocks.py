"""Evidence blocks as the checks of the digits example give them."""

from __future__ import annotations

import math
from itertools import pairwise

from evalspec.evidence.blocks import (
    AnyBlock,
    Bar,
    Bars,
    Column,
    Curve,
    Example,
    Examples,
    Histogram,
    Interval,
    Intervals,
    Matrix,
    Points,
    Reference,
    Series,
    Table,
    Text,
)
from tests.report.pictures import png


def _log_normal(x: float, median: float, sigma: float) -> float:
    return math.exp(-((math.log(x / median)) ** 2) / (2 * sigma**2)) / x


def latency_blocks() -> tuple[AnyBlock, ...]:
    edges = tuple(round(0.30 + 0.02 * step, 3) for step in range(36))
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    total = sum(_log_normal(x, 0.47, 0.16) for x in middles)
    counts = tuple(round(6000 * _log_normal(x, 0.47, 0.16) / total) for x in middles)
    slower = tuple(round(6000 * _log_normal(x, 0.55, 0.14) / total * 0.85) for x in middles)
    shares = tuple(10.0**-power for power in (0.05, 0.3, 0.6, 1, 1.3, 1.6, 2, 2.3, 2.6, 3))
    tail = tuple(0.43 + 0.11 * (-math.log10(share)) ** 1.35 for share in shares)
    return (
        Histogram(
            title="Latency distribution",
            caption="6,000 queries of 5 processes each; the limit of 5 ms lies far to the right.",
            x_label="Latency",
            x_unit="ms",
            y_label="Queries",
            edges=edges,
            counts={"candidate": counts, "baseline": slower},
            references=(Reference(label="p99 0.71 ms", value=0.71, axis="x"),),
        ),
        Curve(
            title="Tail",
            caption="The share of queries slower than a latency; the line at 1 % is where p99 is read.",
            x_label="Latency",
            x_unit="ms",
            y_label="Share slower",
            log_y=True,
            series=(
                Series(name="candidate", x=tail, y=shares),
                Series(name="baseline", x=tuple(value * 1.15 for value in tail), y=shares),
            ),
            references=(Reference(label="p99", value=0.01, axis="y"),),
        ),
        Intervals(
            title="p99 by process",
            caption="Five fresh processes; their spread is what the interval is made of.",
            unit="ms",
            rows=tuple(
                Interval(label=f"process {index + 1}", value=value, lower=value - 0.03, upper=value + 0.05, n=1200)
                for index, value in enumerate((0.69, 0.71, 0.70, 0.74, 0.68))
            ),
            references=(Reference(label="over all", value=0.704, axis="x"),),
        ),
    )


def load_blocks() -> tuple[AnyBlock, ...]:
    """As `load` gives them, with as many lines as a spec may ask for."""
    limits = {"latency_p50(200 qps) <= 2 ms": 2.0, "latency_p99(200 qps) <= 1 ms": 1.0, "latency_p99 <= 10 ms": 10.0,
              "latency_p95 <= 8 ms": 8.0}  # fmt: skip
    across = tuple(Reference(label=label, value=value, axis="y") for label, value in limits.items())
    along = tuple(Reference(label=label, value=value, axis="x") for label, value in limits.items())
    seconds = tuple(0.25 * step for step in range(100))
    wave = tuple(0.3 + 0.2 * math.sin(second) ** 2 for second in seconds)
    slow = tuple(value * (40 if step % 9 == 0 else 6) for step, value in enumerate(wave))
    rates = (200.0, 1000.0, 4000.0)
    return (
        Curve(
            title="Latency against load", caption="From the due time.", x_label="offered rate", x_unit="qps",
            y_label="latency", y_unit="ms", log_y=True, references=across,
            series=(Series(name="p50", x=rates, y=(0.2, 0.15, 1.5)),
                    Series(name="p99", x=rates, y=(13.6, 9.4, 16.0), lower=(4.0, 0.2, 5.0), upper=(20.0, 12.0, 21.0))),
        ),
        Curve(
            title="Latency over time at 200 qps", caption="Median of short stretches.", x_label="due time", x_unit="s",
            y_label="latency", y_unit="ms", log_y=True, references=across,
            series=(Series(name="median", x=seconds, y=wave, lower=tuple(0.5 * y for y in wave), upper=slow),),
        ),
        Curve(
            title="Tail under load", caption="Share of queries that take longer.", x_label="latency", x_unit="ms",
            y_label="share slower", log_x=True, log_y=True, references=along,
            series=(Series(name="200 qps", x=(0.1, 1.0, 4.0, 30.0), y=(1.0, 0.3, 0.02, 0.0002)),),
        ),
        Bars(
            title="Goodput", caption="What was offered, answered, and answered in time.", unit="qps",
            bars=tuple(Bar(label=label, value=rate * share, group=f"{rate:g} qps") for rate in rates
                       for label, share in (("offered", 1.0), ("answered", 1.0), ("in time", 0.95))),
            references=(Reference(label="goodput(200 qps) >= 190 qps", value=190.0, axis="x"),
                        Reference(label="goodput(1000 qps) >= 950 qps", value=950.0, axis="x")),
        ),
        Table(
            title="Rates", caption="The steady part of each run.",
            columns=(Column(name="rate"), Column(name="queries", unit="count"),
                     *(Column(name=name, unit="ms") for name in ("p50", "p90", "p95", "p99", "p99_9")),
                     Column(name="upper 95% of p99", unit="ms"), Column(name="failed", unit="%"),
                     Column(name="served", unit="qps"), Column(name="design effect", unit="x"),
                     Column(name="processes", unit="count"), Column(name="remark")),
            rows=tuple((f"{rate:g} qps", 5000, 0.26, 2.9, 4.2, 13.6, 49.6, None, 0.0, rate, 19.4, 5, "p99, p99_9 void")
                       for rate in rates),
        ),
        Intervals(
            title="Share of each stage", caption="Over fresh processes.", unit="%",
            rows=(Interval(label="standardscaler", value=8.3, lower=7.6, upper=9.0, n=5, note="1.09x"),
                  Interval(label="inference", value=55.0, lower=53.0, upper=57.0, n=5, note="2.22x")),
            references=(Reference(label="stage_share(inference) >= 20 %", value=20.0, axis="x"),
                        Reference(label="stage_share(standardscaler) <= 22 %", value=22.0, axis="x"),
                        Reference(label="stage_share(postprocess) <= 40 %", value=40.0, axis="x")),
        ),
    )  # fmt: skip


def throughput_blocks() -> tuple[AnyBlock, ...]:
    batches = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    rates = (2100.0, 3900.0, 7000.0, 11800.0, 17900.0, 23100.0, 25900.0, 26400.0)
    return (
        Curve(
            title="Throughput against batch",
            caption="Doubling the batch stops paying off at 64.",
            x_label="Batch",
            y_label="Throughput",
            y_unit="samples/s",
            log_x=True,
            series=(
                Series(
                    name="candidate",
                    x=batches,
                    y=rates,
                    lower=tuple(rate * 0.96 for rate in rates),
                    upper=tuple(rate * 1.04 for rate in rates),
                ),
            ),
        ),
        Bars(
            title="Where the time goes",
            unit="%",
            bars=(
                Bar(label="preprocess", value=11.2),
                Bar(label="infer", value=71.5),
                Bar(label="postprocess", value=17.3),
            ),
        ),
    )


def quality_blocks(correct: float = 0.97) -> tuple[AnyBlock, ...]:
    names = tuple("0123456789")
    pairs = {(1, 8): 3.0, (8, 1): 4.0, (3, 9): 2.0, (9, 5): 2.0, (7, 4): 1.0}
    values = tuple(
        tuple(
            round(84 * correct - 0.4 * ((row * 7) % 5)) if row == column else pairs.get((row, column), 0.0)
            for column in range(10)
        )
        for row in range(10)
    )
    return (
        Matrix(
            title="Confusion matrix",
            caption="Rows are the truth; 8 is taken for 1 most often.",
            row_label="Truth",
            column_label="Answer",
            rows=names,
            columns=names,
            values=values,
        ),
        Table(
            title="By class",
            columns=(
                Column(name="class"),
                Column(name="recall", unit="fraction"),
                Column(name="precision", unit="fraction"),
                Column(name="rows", unit="rows"),
            ),
            rows=tuple((name, 0.94 + 0.005 * index, 0.985 - 0.003 * index, 84) for index, name in enumerate(names)),
        ),
    )


def calibration_blocks(gap: float = 0.012) -> tuple[AnyBlock, ...]:
    confidence = (0.52, 0.71, 0.83, 0.90, 0.945, 0.968, 0.982, 0.991, 0.996, 0.999)
    accuracy = tuple(max(0.0, value - gap * (1.5 - 0.6 * index / 9)) for index, value in enumerate(confidence))
    after = tuple(min(1.0, value - 0.006 * (-1) ** index) for index, value in enumerate(confidence))
    return (
        Curve(
            title="Reliability",
            caption="Ten bins of equal mass. Below the diagonal the model is more confident than right.",
            x_label="Confidence",
            y_label="Accuracy",
            series=(
                Series(
                    name="as it is",
                    x=confidence,
                    y=accuracy,
                    lower=tuple(max(0.0, value - 0.05) for value in accuracy),
                    upper=tuple(min(1.0, value + 0.03) for value in accuracy),
                    size=(84.0,) * 10,
                ),
                Series(name="after temperature 1.31", x=confidence, y=after),
            ),
            references=(Reference(label="perfectly calibrated", axis="diagonal"),),
        ),
    )


def slices_blocks(dark: float = 0.951) -> tuple[AnyBlock, ...]:
    rows = [
        Interval(label="dark", value=dark, lower=dark - 0.031, upper=dark + 0.022, n=184),
        Interval(label="occluded", value=0.939, lower=0.893, upper=0.969, n=146),
    ]
    rows += [
        Interval(
            label=f"digit = {index}",
            value=0.99 - 0.006 * ((index * 3) % 7),
            lower=0.935 - 0.006 * ((index * 3) % 7),
            upper=min(1.0, 1.01 - 0.005 * ((index * 3) % 7)),
            n=84 + index,
            note="smallest" if index == 0 else "",
        )
        for index in range(10)
    ]
    return (
        Intervals(
            title="Accuracy by slice",
            caption="95 % one-sided bounds; a slice is compared with the line.",
            unit="fraction",
            rows=tuple(rows),
            references=(Reference(label="needs 85 %", value=0.85, axis="x"),),
        ),
    )


def contamination_blocks(pairs: int = 0) -> tuple[AnyBlock, ...]:
    if not pairs:
        return (Text(title="Duplicates", text="No row of the test set stands in the training set."),)
    digits = ("3", "8", "5", "0")
    examples = [
        Example(
            title=f"{side} row {100 * index + offset}",
            fields={"digit": int(digit), "lux": 212 + offset},
            image=png(digit, shade),
        )
        for index, digit in enumerate(digits)
        for side, offset, shade in (("train", 7, 1.0), ("test", 3, 0.97))
    ]
    return (
        Examples(
            title="Leaked pictures",
            caption="Left the training row, right the test row.",
            examples=tuple(examples),
            total=2 * pairs,
            pairs=True,
        ),
    )


def shift_blocks() -> tuple[AnyBlock, ...]:
    rows = [
        Interval(
            label=f"pixel {index:02d}",
            value=0.03 + 0.045 * abs(math.sin(index)),
            lower=max(0.0, 0.01 + 0.045 * abs(math.sin(index)) - 0.02),
            upper=0.07 + 0.045 * abs(math.sin(index)),
            n=840,
        )
        for index in range(12)
    ]
    rows.append(Interval(label="lux", value=0.142, lower=0.101, upper=0.183, n=840, note="drifted"))
    points = [(0.2 + 0.6 * ((index * 37) % 100) / 100, 0.1 + 0.8 * ((index * 61) % 100) / 100) for index in range(160)]
    return (
        Intervals(
            title="Shift by column",
            caption="Kolmogorov-Smirnov distance between test and traffic.",
            unit="score",
            rows=tuple(rows),
            references=(Reference(label="tolerance", value=0.1, axis="x"),),
        ),
        Points(
            title="Test and traffic, first two components",
            x_label="Component 1",
            y_label="Component 2",
            series=(
                Series(name="test", x=tuple(x for x, _ in points), y=tuple(y for _, y in points)),
                Series(name="traffic", x=tuple(x * 1.1 for x, _ in points), y=tuple(y * 0.9 + 0.1 for _, y in points)),
            ),
        ),
        Examples(
            title="Rows of traffic least like the test set",
            examples=tuple(
                Example(
                    title=f"traffic row {31 * index}",
                    fields={"lux": 18 + index, "site": "field"},
                    image=png(digit, 0.55),
                )
                for index, digit in enumerate(("9", "4", "2", "1", "8", "5"))
            ),
            total=41,
        ),
    )
