"""F6: whole runs against a server that echoes the secret it is sent: no file of the run holds it, and no terminal."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.records.verify import verify
from tests.commands import evalspec
from tests.runtimes.llm_server import playing

SERVER = Path(__file__).with_name("echo_server.py")
TOKEN = "s3cr3t/Token-8472+x"
NAME = "EVALSPEC_TEST_TOKEN"
SPEC = """
evalspec: 1
name: echo
models:
  candidate:
    kind: http
    url: http://127.0.0.1:{port}
    model_name: m
    inputs: {{x: x}}
    outputs: {{text: t}}
    headers: {{Authorization: {{env: {name}}}}}
    artifact: server.py
    start: [python, server.py, "{port}", {way}]
datasets:
  test: {{kind: parquet, path: test.parquet, label: y}}
{system}
model:
  - {{check: quality, dataset: test, require: [exact_match >= 30 %]}}
"""
SYSTEM = """
system:
  - {check: latency, dataset: test, processes: 5, queries: 100, warmup: 3, require: [latency_p50 <= 500 ms]}
  - {check: stages, dataset: test, report_only: true}
"""


def write(folder: Path, way: str = "right", system: str = "") -> Path:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = int(one.getsockname()[1])
    shutil.copy(SERVER, folder / "server.py")
    rows = [str(number) for number in range(60)]
    pq.write_table(pa.table({"x": rows, "y": rows}), folder / "test.parquet")
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(port=port, name=NAME, way=way, system=system))
    return path


def ran(path: Path, *options: str, secret: str = f"Bearer {TOKEN}") -> subprocess.CompletedProcess[str]:
    return evalspec(
        "run", path, "--trust", "--env", NAME, *options, "--output", path.parent / "run", env={NAME: secret}
    )


def assert_nowhere(folder: Path, printed: str) -> None:
    forms = [TOKEN, TOKEN.replace("/", "\\/"), TOKEN.replace("/", "%2F"), TOKEN.encode().hex()]
    forms += [base64.b64encode(f"Bearer {TOKEN}".encode()).decode()[:20], TOKEN[5:]]
    files = [path for path in folder.rglob("*") if path.is_file()]
    said = {"the terminal": printed.encode().lower()} | {str(one): one.read_bytes().lower() for one in files}
    for path in folder.rglob("*.parquet"):
        said[f"{path}, unpacked"] = repr(pq.read_table(path).to_pydict()).encode().lower()
    for where, text in said.items():
        for form in forms:
            assert form.lower().encode() not in text, (where, form)


@pytest.mark.proof
@pytest.mark.parametrize("way", ["right", "draft", "refuses", "crashes"])
def test_a_secret_that_a_server_echoes_is_nowhere(way: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    draft = way == "draft"
    ended = ran(write(tmp_path, way, SYSTEM if draft else ""), *(["--draft"] if draft else []))
    folder = tmp_path / "run"
    assert ended.returncode == {"right": 0, "draft": 3}.get(way, 4), ended.stderr + ended.stdout
    # Processes below it print past what the command prints.
    assert_nowhere(folder, ended.stdout + ended.stderr + "".join(capfd.readouterr()))
    record = json.loads((folder / "record.json").read_text())
    assert f"[{NAME}]" in (folder / "logs" / "server-candidate.log").read_text()
    if way in ("right", "draft"):
        assert f"[{NAME}]" in json.dumps(record)
        answers = pq.read_table(folder / "evidence" / "predictions-candidate-test.parquet").to_pydict()
        assert f"59 [{NAME}]" in next(column for name, column in answers.items() if "text" in name)
        assert {one["status"] for one in record["checks"]} == {"measured"}
        assert not verify(folder).differs
    else:
        quality = next(one for one in record["checks"] if one["check"] == "quality")
        assert (f"bad token [{NAME}]" in quality["reason"]) is (way == "refuses")


CHAT = """
evalspec: 1
name: chat
models:
  candidate:
    {{kind: http, protocol: openai, url: "{url}", model_name: small, artifact: "sha256:{digest}",
     api_key: {{env: {name}}}, prompt: {{user: "{{x}}"}}, inputs: {{x: x}}, generate: {{max_tokens: 16}}}}
datasets:
  test: {{kind: parquet, path: test.parquet, label: y}}
system:
  - {{check: latency, dataset: test, processes: 5, queries: 100, warmup: 3, require: [ttft_p50 <= 900 ms]}}
model:
  - {{check: quality, dataset: test, require: [exact_match >= 80 %]}}
"""


@pytest.mark.proof
@pytest.mark.parametrize(("mode", "code"), [("echo", 1), ("401", 4)])
def test_a_key_that_a_language_model_or_its_server_says_is_nowhere(
    mode: str, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """As its answer, streamed while it is timed and while it is judged; and in the error that refuses it."""
    rows = [f"row {number}" for number in range(60)]
    pq.write_table(pa.table({"x": rows, "y": ["never"] * 60}), tmp_path / "test.parquet")
    with playing(first_ms=1.0, gap_ms=0.0, tokens=2) as server:
        path = tmp_path / "spec.yaml"
        path.write_text(CHAT.format(url=server.url(mode), digest="0" * 64, name=NAME))
        ended = ran(path, secret=TOKEN)
    assert_nowhere(tmp_path / "run", ended.stdout + ended.stderr + "".join(capfd.readouterr()))
    asked = [one for one in server.headers if one.get("Authorization") == f"Bearer {TOKEN}"]
    assert len(asked) == len(server.headers) > 0
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    reasons = [one["reason"] for one in record["checks"]]
    assert ended.returncode == code, reasons
    if mode == "401":
        assert all(f"Incorrect API key provided: Bearer [{NAME}]" in one for one in reasons)
        assert "it refuses the key: check `api_key:`, or" in ended.stdout + ended.stderr
    else:
        kept = pq.read_table(tmp_path / "run" / "evidence" / "predictions-candidate-test.parquet").to_pydict()
        assert f"Bearer [{NAME}]" in str(kept)


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("abc", "it has fewer than 6 letters"),
        ("candidate", "is a word of the spec or of every record"),
        ("Bearer requirement", "is a word of the spec or of every record"),
    ],
)
def test_a_secret_that_can_not_be_told_from_text_is_refused(secret: str, why: str, tmp_path: Path) -> None:
    ended = ran(write(tmp_path), secret=secret)
    assert ended.returncode == 2
    assert why in ended.stderr and f"set {NAME} to another value" in ended.stderr
    assert not (tmp_path / "run").exists()
