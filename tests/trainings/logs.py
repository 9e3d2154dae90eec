"""Logs of training runs, written in the exact format of the tools that write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

START_MS = 1_726_000_000_000
TYCHE = (75.233, 75.592, 76.101, 79.809, 79.981, 80.340, 80.493, 80.811, 81.471, 83.825)
"""Minutes of ten runs of llama31_8b on 8 GPUs, MLPerf Training v5.1."""


def mllog_line(time_ms: int, key: str, value: Any, event: str = "POINT_IN_TIME", **metadata: Any) -> str:
    """A line as the package mlperf-logging writes it."""
    said = {"namespace": "", "time_ms": time_ms, "event_type": event, "key": key, "value": value,
            "metadata": {"file": "train.py", "lineno": 17, **metadata}}  # fmt: skip
    return f":::MLLOG {json.dumps(said)}"


def write_mllog(
    path: Path,
    evaluations: Sequence[tuple[float, float, float]],
    *,
    seed: int | None = 1,
    before_min: float | None = 3.0,
    status: str | None = "success",
    end_min: float | None = None,
    key: str = "eval_accuracy",
    prefix: str = "0: ",
    batch: int = 16,
    benchmark: str | None = None,
) -> None:
    """A log of MLPerf Training.

    Args:
        path: Where.
        evaluations: Minutes since run_start, value, samples_count.
        seed: None: it is not logged.
        before_min: Initialisation before the clock; None: not logged.
        status: Of run_stop; None: the log stops before it.
        end_min: When the run stops; None: with the last evaluation.
        key: The measure.
        prefix: What a launcher puts before each line.
        batch: Global batch size.
        benchmark: Name of the benchmark; None: not logged.
    """
    lines = ["some launcher says hello"]
    if before_min is not None:
        lines.append(mllog_line(START_MS - round(before_min * 60_000), "init_start", None, "INTERVAL_START"))
    if benchmark is not None:
        lines.append(mllog_line(START_MS - 1_000, "submission_benchmark", benchmark))
    lines += [mllog_line(START_MS - 900, "global_batch_size", batch)]
    if seed is not None:
        lines.append(mllog_line(START_MS - 800, "seed", seed))
    lines.append(mllog_line(START_MS - 500, "init_stop", None, "INTERVAL_END"))
    lines.append(mllog_line(START_MS, "run_start", None, "INTERVAL_START"))
    for minutes, value, samples in evaluations:
        at = START_MS + round(minutes * 60_000)
        lines.append(mllog_line(at - 40, "eval_start", None, "INTERVAL_START", samples_count=samples))
        lines.append(mllog_line(at, key, value, samples_count=samples))
    if status is not None:
        end = evaluations[-1][0] if end_min is None and evaluations else end_min or 0.0
        lines.append(mllog_line(START_MS + round(end * 60_000), "run_stop", None, "INTERVAL_END", status=status))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{prefix}{line}\n" for line in lines), encoding="utf-8")


def curve(
    minutes: float, *, every: float = 0.5, top: float = 0.95, last: float = 0.93, samples: float = 172_032
) -> list[tuple[float, float, float]]:
    """Evaluations that rise, of which the last one, after so many minutes, is at the top."""
    count = max(2, round(10 * every))
    times = [minutes - every * step for step in range(count, 0, -1) if minutes - every * step > 0]
    return [(at, last - 0.01 * (len(times) - place), samples * at / minutes) for place, at in enumerate(times)] + [
        (minutes, top, samples)
    ]


def write_mllogs(folder: Path, minutes: Sequence[float], **how: Any) -> None:
    """``result_0.txt`` and so on, a run each."""
    for place, one in enumerate(minutes):
        write_mllog(folder / f"result_{place}.txt", curve(one), seed=1000 + 7 * place, **how)


def write_jsonl(
    path: Path,
    evaluations: Sequence[tuple[float, float, float]],
    *,
    seed: int | None = None,
    workers: int | None = None,
    key: str = "val_accuracy",
    torn: bool = False,
) -> None:
    """A log with a JSON object a line: t, step, samples, and the measure.

    Args:
        path: Where.
        evaluations: Minutes, value, samples.
        seed, workers: Logged on each line, where they are given.
        key: The measure.
        torn: The last line is cut in the middle.
    """
    same = {name: value for name, value in (("seed", seed), ("workers", workers)) if value is not None}
    lines = [
        json.dumps({"t": 60.0 * minutes, "step": 10 * (place + 1), "samples": samples, **same, key: value,
                    "train_accuracy": min(1.0, value + 0.02)})
        for place, (minutes, value, samples) in enumerate(evaluations)
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    path.write_text(text[:-12] if torn else text, encoding="utf-8")
