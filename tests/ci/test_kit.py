"""What is shipped for CI: a GitHub Action, a GitLab template, a pre-commit hook, a Dockerfile."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from evalspec.cli import app

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = sorted((ROOT / "ci").glob("*.sh"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def options_of(command: str) -> set[str]:
    known = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]  # the app is a group
    return {name for one in known.params for name in (*one.opts, *one.secondary_opts)}


@pytest.mark.parametrize("path", [*SCRIPTS, ROOT / "ci" / "gitlab.yml", ROOT / ".pre-commit-hooks.yaml"], ids=str)
def test_commands_and_options_exist(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    commands = re.findall(r"\bevalspec (run|compare|report|validate)\b([^>\n]*)", "\n".join(lines))
    for command, rest in commands:
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= options_of(command), command


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_bash(script: Path) -> None:
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_action_hangs_together() -> None:
    action = read("action.yml")
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    assert all(one["description"] for one in (*action["inputs"].values(), *action["outputs"].values()))
    steps = action["runs"]["steps"]
    written = {"pip": {"folder"}, "gate": set(re.findall(r'echo "([\w-]+)=', (ROOT / "ci" / "gate.sh").read_text()))}
    for step, output in re.findall(r"steps\.(\w+)\.outputs\.([\w-]+)", text):
        assert output in written[step]
    for step in steps:
        # A value that is put into a command is code; into the environment, it is text.
        assert "${{" not in step.get("run", "")
        assert ("run" in step) == ("shell" in step)
        for script in re.findall(r"\$ACTION/(\S+?)\"", step.get("run", "")):
            assert (ROOT / script).is_file() and "ACTION" in step["env"]
    used = {step["uses"] for step in steps if "uses" in step}
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", one) for one in used)


def test_the_template_for_gitlab() -> None:
    job = read("ci/gitlab.yml")[".evalspec"]
    assert job["artifacts"]["reports"]["junit"] == "evalspec-run/junit.xml"
    assert job["artifacts"]["when"] == "always" and "evalspec-run" in job["artifacts"]["paths"]
    used = set(re.findall(r"\$\{?([A-Z_]+)", str(job)))
    assert used <= set(job["variables"]) | {"CI_PROJECT_DIR"}
    assert job["variables"]["EXTRAS"] in EXTRAS


def test_the_hook_is_one_for_specs() -> None:
    clientlib = pytest.importorskip("pre_commit.clientlib")
    (hook,) = clientlib.load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    assert hook["id"] == "evalspec-validate"
    matched = [name for name in ("evalspec.yaml", "gate/evalspec.yml", "evalspec_yaml", "my-evalspec.yaml")]
    assert [name for name in matched if re.search(hook["files"], name)] == matched[:2]


def test_the_docker_file_fits_the_project() -> None:
    lines = [
        line.split(maxsplit=1)
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    words = [word for word, _ in lines]
    values = dict(lines)
    image, tag = values["FROM"].split(":")
    assert image == "python" and re.fullmatch(r"3\.\d+-slim", tag)
    version = tuple(int(part) for part in tag.removesuffix("-slim").split("."))
    assert f"Programming Language :: Python :: {version[0]}.{version[1]}" in PROJECT["classifiers"]
    name, _, default = values["ARG"].partition("=")
    assert name == "EXTRAS" and set(default.split(",")) <= EXTRAS
    assert values["USER"] != "root" and words.index("USER") > max(i for i, word in enumerate(words) if word == "RUN")
    assert values["ENTRYPOINT"] == '["evalspec"]' and "evalspec" in PROJECT["scripts"]
    seen = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = {source for word, rest in lines if word == "COPY" for source in rest.split()[:-1]}
    assert copied == seen and all((ROOT / source).exists() for source in copied)
    # What the build of the package reads is there.
    assert {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml"} <= copied


STUB = """#!/usr/bin/env bash
if [ "$1" = run ]; then
  printf '%s\\n' "$@" > "$CALLS"
  while [ "$1" != --output ]; do shift; done
  [ "$CODE" = 2 ] && exit 2
  mkdir -p "$2"; echo '## READY' > "$2/summary.md"
  exit "$CODE"
fi
echo "$1 $2"
exit "${COMPARED:-0}"
"""


def gate(folder: Path, **environment: str) -> tuple[int, dict[str, str], str]:
    """Exit code of the script with a stand-in for evalspec, what it gives to later steps, and its summary."""
    (folder / "bin").mkdir(exist_ok=True)
    stub = folder / "bin" / "evalspec"
    stub.write_text(STUB)
    stub.chmod(0o755)
    files = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "CALLS")}
    given = {"EVALSPEC_SPEC": "gate/evalspec.yaml", "EVALSPEC_OUTPUT": str(folder / "run"), **files, **environment}
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(ROOT / "ci" / "gate.sh")], env={"PATH": path, **given}, cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    outputs = dict(line.split("=", 1) for line in (folder / "GITHUB_OUTPUT").read_text().splitlines())
    summary = folder / "GITHUB_STEP_SUMMARY"
    return done.returncode, outputs, summary.read_text() if summary.exists() else ""


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_the_gate_ends_as_the_run_does(code: int, tmp_path: Path) -> None:
    ended, outputs, summary = gate(tmp_path, CODE=str(code))
    assert ended == code and outputs["exit-code"] == str(code)
    assert summary == ("" if code == 2 else "## READY\n") and ("comment" in outputs) == (code != 2)


def test_options_are_words_and_never_code(tmp_path: Path) -> None:
    gate(tmp_path, CODE="0", EVALSPEC_ARGS="--only quality $(touch owned) ; touch owned", EVALSPEC_TRUST="true")
    calls = (tmp_path / "CALLS").read_text().splitlines()
    assert calls[:2] == ["run", "gate/evalspec.yaml"] and calls[-1] == "--trust"
    assert calls[5:9] == ["--only", "quality", "$(touch", "owned)"] and not (tmp_path / "owned").exists()


@pytest.mark.parametrize(("compared", "said"), [("1", ""), ("4", "failed (exit code 4)")])
def test_the_comment_compares_where_there_is_a_run(compared: str, said: str, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    (earlier / "record.json").write_text("{}")
    code, outputs, _ = gate(tmp_path, CODE="0", EVALSPEC_COMPARE=str(earlier), COMPARED=compared)
    comment = Path(outputs["comment"]).read_text()
    assert code == 0 and comment.startswith("<!-- evalspec: gate/evalspec.yaml -->\ncompare ") and said in comment


def test_without_an_earlier_run_the_comment_is_the_summary(tmp_path: Path) -> None:
    _, outputs, _ = gate(tmp_path, CODE="0", EVALSPEC_COMPARE=str(tmp_path / "none"))
    assert "\nreport " in Path(outputs["comment"]).read_text()


GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> "$CALLS"
[[ "$*" == *--jq* ]] && printf '%s' "$FOUND"
exit 0
"""


@pytest.mark.parametrize(("found", "method"), [("", "POST"), ("17\n18\n", "PATCH repos/o/r/issues/comments/17 ")])
def test_the_comment_of_an_earlier_push_is_replaced(found: str, method: str, tmp_path: Path) -> None:
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "comment.md").write_text("<!-- evalspec: a -->\ntext\n")
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls"), "FOUND": found, "NUMBER": "3",
        "COMMENT": str(tmp_path / "comment.md"), "REPOSITORY": "o/r",
    }  # fmt: skip
    done = subprocess.run(["bash", str(ROOT / "ci" / "comment.sh")], env=environment, capture_output=True, check=False)
    assert done.returncode == 0
    assert f"--method {method}" in (tmp_path / "calls").read_text().splitlines()[-1]


def test_extras_are_names(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "EXTRAS": "onnx]; touch owned", "ACTION": "."}
    script = ["bash", str(ROOT / "ci" / "install.sh")]
    done = subprocess.run(script, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "is not a list of names" in done.stderr and not list(tmp_path.iterdir())
