"""LoadGen's side of a comparison: its Python binding, driven as its own examples drive it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from beside import summary


def run(
    scenario: str, queries: int, items: int, serve: Callable[[int], object], rate_qps: float | None = None
) -> Mapping[str, float]:
    """One performance run; the queries are answered where LoadGen hands them over.

    Args:
        scenario: ``SingleStream`` or ``Server``.
        queries: To issue.
        items: In the library of samples.
        serve: Handed the index of a sample.
        rate_qps: Of the Server scenario.
    """
    import mlperf_loadgen as lg

    respond, complete = lg.QuerySampleResponse, lg.QuerySamplesComplete

    def issue(samples: list[object]) -> None:
        for sample in samples:
            serve(sample.index)  # type: ignore[attr-defined]
        complete([respond(sample.id, 0, 0) for sample in samples])  # type: ignore[attr-defined]

    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, scenario)
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_query_count = settings.max_query_count = queries
    settings.min_duration_ms = 0
    if rate_qps is not None:
        settings.server_target_qps = rate_qps
        settings.server_target_latency_ns = 1_000_000_000
    with tempfile.TemporaryDirectory() as folder:
        output = lg.LogOutputSettings()
        output.outdir, output.copy_summary_to_stdout = folder, False
        log = lg.LogSettings()
        log.log_output, log.enable_trace = output, False
        system = lg.ConstructSUT(issue, lambda: None)
        library = lg.ConstructQSL(items, items, lambda indices: None, lambda indices: None)
        lg.StartTestWithLogSettings(system, library, settings, log)
        return summary(Path(folder))
