"""Specs that are fuzzed, each in a folder with the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SUITES = (
    "digits", "predictions", "tabular-shift", "contamination", "text", "labels", "chat", "small-lm", "served-digits",
    "mobilenet",
)  # fmt: skip
LOGS = ROOT / "tests" / "runtimes" / "eval_logs" / "files"
REQUESTS = ROOT / "tests" / "sources" / "request_logs" / "files"
LOG_SPEC = """evalspec: 1
name: logs
models:
  candidate: {kind: predictions, format: FORMAT, files: {test: FILE}, outputs: {text: text}, key_from: KEY, MORE}
datasets:
  test: {kind: jsonl, path: questions.jsonl, label: answer, key: id}
  load: {kind: request_log, format: vllm, path: vllm.json}
system:
  - {check: recorded_load, dataset: load, require: [ttft_p50 <= 90 s, error_rate <= 50 %]}
model:
  - {check: quality, dataset: test, require: [exact_match >= 10 %]}
  - {check: answers, dataset: test, require: [empty <= 90 %]}
"""
WRITTEN = {
    "lm-eval": LOG_SPEC.replace("FORMAT", "lm_eval").replace("FILE", "samples_sums_say.jsonl")
    .replace("KEY", "doc.id").replace("MORE", "filter: strict"),
    "inspect": LOG_SPEC.replace("FORMAT", "inspect").replace("FILE", "say.eval")
    .replace("KEY", "id").replace("MORE", "scorer: match"),
}  # fmt: skip


def specs() -> dict[str, Path]:
    """Name of a spec: its file, for those that suites have."""
    found = {}
    for suite in SUITES:
        for path in sorted((ROOT / "suites" / suite).glob("*.yaml")):
            if "evalspec: 1" in path.read_text(encoding="utf-8"):
                found[f"{suite}/{path.stem}"] = path
    return found


def trees() -> dict[str, Any]:
    """Name of a spec: what it says."""
    from evalspec.language.yaml import read_file, read_text

    found = {name: read_file(path, path.name)[1].value for name, path in specs().items()}
    return found | {name: read_text(text, name).value for name, text in WRITTEN.items()}


def folders(folder: Path) -> dict[str, Path]:
    """Name of a spec: a folder with the files that it names, made in ``folder``."""
    found = {}
    for name, sources in {
        **{name: (path.parent,) for name, path in specs().items()}, **dict.fromkeys(WRITTEN, (LOGS, REQUESTS)),
    }.items():  # fmt: skip
        place = folder / name.replace("/", "-")
        place.mkdir()
        for source in sources:
            for path in source.iterdir():
                if not (place / path.name).exists():
                    (place / path.name).symlink_to(path)
        found[name] = place
    return found
