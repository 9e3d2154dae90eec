"""Keeps the raw timings of a run, so that later tests need not time: ``save_timings.py RUN NAME``.

Run it after a suite's models or its system checks have changed, on a machine that does nothing else::

    evalspec run suites/digits/evalspec.yaml --output /tmp/digits
    python tests/suites/save_timings.py /tmp/digits digits
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from evalspec.evidence.record import Environment, Record
from evalspec.language.inputs import Samples
from evalspec.running.samples import ARRAYS, read_samples, write_samples

TIMINGS = Path(__file__).resolve().parent / "timings"
KEPT = {"latency": 2000, "throughput": 200}
"""Queries of each process, by check: no fewer than the specs plan."""


def main(run: Path, name: str) -> None:
    """Copies the samples, the first ones of each process, and a record that only names the models."""
    target = TIMINGS / name
    record = Record.model_validate_json((run / "record.json").read_text(encoding="utf-8"))
    kept = record.model_copy(
        update={
            "checks": (),
            "verdict": None,
            "environment": Environment(),
            "command": (),
            "spec_file": "evalspec.yaml",
        }
    )
    for source in sorted((run / "evidence").glob("samples-*.parquet")):
        count = KEPT[source.stem.removeprefix("samples-")]
        write_samples([_first(one, count) for one in read_samples(source)], target / "evidence" / source.name)
    (target / "record.json").write_text(kept.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _first(samples: Samples, count: int) -> Samples:
    answers = samples.answers[:count] if samples.answers is not None else None
    return replace(samples, answers=answers, **{name: getattr(samples, name)[:count] for name in ARRAYS})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
