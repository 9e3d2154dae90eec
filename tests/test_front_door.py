"""`import evalspec`: what the commands do, as calls; and all that an extension may import."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import evalspec
from evalspec import api
from evalspec.errors import SpecError
from tests.running.small import CHECKS, answers, write

ROOT = Path(__file__).parent.parent
MODELS = f"""
  candidate:
    kind: predictions
    files: {{test: said.parquet}}
    outputs: {{label: said}}
    classes: [a, b]
    artifact: sha256:{"1" * 64}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    answers(tmp_path / "said.parquet", right=True)
    return write(tmp_path, MODELS)


def test_three_lines_are_a_gate(spec: Path, tmp_path: Path) -> None:
    run = evalspec.run(spec, output=tmp_path / "run")
    assert run.ready, run
    assert evalspec.decide(run.record) == run.verdict
    assert evalspec.read(tmp_path / "run").record.model_dump(mode="json") == run.record.model_dump(mode="json")
    page = run.report.read_text(encoding="utf-8")
    assert evalspec.render(run) == evalspec.render(run.record) == page
    assert {"junit.xml", "summary.md", "journal.jsonl"} <= {one.name for one in (tmp_path / "run").iterdir()}


@pytest.mark.proof
def test_a_violated_requirement_is_no_exception(spec: Path, tmp_path: Path) -> None:
    answers(tmp_path / "said.parquet", right=False)
    run = evalspec.run(spec, output=tmp_path / "run")
    assert (run.verdict.word, run.verdict.exit_code, run.ready) == ("NOT READY", 1, False)
    with pytest.raises(TypeError, match=r"assert run\.ready, run"):
        assert run


@pytest.mark.proof
def test_step_by_step(spec: Path, tmp_path: Path) -> None:
    loaded = evalspec.load(spec, ["seed=5"])
    assert (loaded.name, loaded.seed) == ("small", 5)
    planned = evalspec.plan(loaded, only=["one"])
    assert [one.check.name for one in planned.checks] == ["one"]
    assert not evalspec.run(planned, output=tmp_path / "run").ready, "a part of a spec is never READY"
    for read in (loaded, planned):
        with pytest.raises(SpecError, match="when a spec is read"):
            evalspec.run(read, models={"candidate": print})  # type: ignore[arg-type]  # mypy joins the two


@pytest.mark.proof
def test_what_verify_says_of_a_run_from_python(spec: Path, tmp_path: Path) -> None:
    evalspec.run(spec, output=tmp_path / "run")
    command = [sys.executable, "-m", "evalspec", "verify", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_allowed_that_was_not_said(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def predict(inputs):\n    return {'label': inputs['x']}\n")
    spec = write(tmp_path, "  candidate: {kind: python, object: 'own:predict', inputs: {x: x}}\n", CHECKS)
    with pytest.raises(SpecError, match="--trust"):
        evalspec.run(spec, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.proof
def test_an_engine_is_named_as_for_the_command(spec: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'abacus' is not an engine"):
        evalspec.run(spec, output=tmp_path / "run", engine="abacus")
    with pytest.raises(SpecError, match=r"pass --allow-host 10\.0\.3\.1"):
        evalspec.run(spec, output=tmp_path / "run", engine="dask:10.0.3.1:8786")
    assert not (tmp_path / "run").exists()
    run = evalspec.run(spec, output=tmp_path / "run", engine="local:2")
    engine = run.record.environment.engine
    assert (engine["name"], engine["children"], engine["leaves"], engine["again"]) == ("local", 2, 0, 0)


@pytest.mark.proof
def test_an_interrupt_is_one_and_keeps_what_was_measured(spec: Path, tmp_path: Path) -> None:
    class Interrupting:
        def step(self, text: str) -> None:
            if text == "model: two":
                signal.raise_signal(signal.SIGINT)

        def progress(self, done: float, total: float, what: str) -> None: ...

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        evalspec.run(spec, output=tmp_path / "run", observer=Interrupting())
    assert signal.getsignal(signal.SIGINT) is before
    assert [one.status for one in evalspec.read(tmp_path / "run").record.checks] == ["measured", "not_run"]
    run = evalspec.run(spec, output=tmp_path / "run", resume=True)
    assert run.ready, run
    assert run.record.resumption is not None and run.record.resumption.kept == ("one",)


def test_importing_it_loads_nothing() -> None:
    program = (
        "import sys, json, evalspec\n"
        "named = set(evalspec.__all__) <= set(dir(evalspec))\n"
        "loaded = sorted(name for name in sys.modules if name.startswith('evalspec.'))\n"
        "import evalspec.api\n"
        "print(json.dumps([named, loaded, 'numpy' in sys.modules, callable(evalspec.api.proportion)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [True, ["evalspec.version"], False, True]


def test_importing_it_takes_no_time() -> None:
    """In time of the processor, since other processes run beside, and the least of several."""
    program = "import time; begun = time.process_time(); import evalspec; print(time.process_time() - begun)"
    command = [sys.executable, "-X", "importtime", "-c", program]
    done = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in done[0].stderr.splitlines()}
    assert "evalspec" in modules
    assert not modules & {"numpy", "pydantic", "pyarrow", "pandas", "typer", "rich", "yaml"}
    assert min(float(one.stdout) for one in done) < 0.1


@pytest.mark.parametrize("module", [evalspec, api], ids=["evalspec", "evalspec.api"])
def test_every_name_is_there_and_says_what_it_is(module: object) -> None:
    names = module.__all__  # type: ignore[attr-defined]
    assert list(names) == sorted(names)
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing  # type: ignore[attr-defined]


def test_the_example_of_an_extension_imports_the_api_alone() -> None:
    sources = sorted((ROOT / "tests" / "plugin" / "src").rglob("*.py"))
    imported = set()
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "evalspec":
                imported.add(node.module)
            elif isinstance(node, ast.Import):
                imported |= {one.name for one in node.names if one.name.split(".")[0] == "evalspec"}
    assert imported == {"evalspec.api"}


def test_the_page_names_all_of_both() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for module in ("evalspec", "evalspec.api"):
        names = [one for one in importlib.import_module(module).__all__ if not one.startswith("__")]
        assert [one for one in names if f"`{one}`" not in page] == []
