"""A row that is too long for a served model: one sentence, and nothing that was measured is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands import evalspec
from tests.runtimes.llm_server import LONG, playing

SPEC = """
evalspec: 1
name: chat
models:
  candidate:
    {{kind: http, protocol: openai, url: "{url}", model_name: small, artifact: "sha256:{digest}",
     prompt: {{user: "{{x}}"}}, inputs: {{x: x}}, generate: {{max_tokens: 16}}}}
datasets:
  short: {{kind: parquet, path: short.parquet, label: y}}
  test: {{kind: parquet, path: test.parquet, label: y}}
system:
  - {{check: latency, dataset: short, processes: 5, queries: 100, warmup: 3, require: [ttft_p50 <= 900 ms]}}
model:
  - {{check: quality, dataset: test, require: [exact_match >= 80 %]}}
"""


@pytest.mark.proof
def test_a_row_too_long_for_the_context_costs_one_check(tmp_path: Path) -> None:
    rows = [f"row {number}" for number in range(60)]
    for name, said in (("short", rows), ("test", [*rows[1:], "word " * LONG])):
        pq.write_table(pa.table({"x": said, "y": ["one two"] * 60}), tmp_path / f"{name}.parquet")
    path = tmp_path / "spec.yaml"
    with playing(first_ms=1.0, gap_ms=0.0, tokens=2) as server:
        path.write_text(SPEC.format(url=server.url("long"), digest="0" * 64))
        ended = evalspec("run", path, "--output", tmp_path / "run")
    said = ended.stdout + ended.stderr
    assert ended.returncode == 4, said
    assert "The prompt is too long for this model" in said and "exclude long rows with `where:`" in said
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    status = {one["check"]: one["status"] for one in record["checks"]}
    assert status == {"latency": "measured", "quality": "error"}
    assert list((tmp_path / "run" / "evidence").glob("*latency*"))
