"""The tutorials, done as they are written: every file saved, every command run, every output looked for.

A comment before a fenced block says what it is: ``file: NAME`` is saved, ``append: NAME`` is added to a file, ``run``
is run by bash (``run: exit 0 or 3`` where another exit code is right), each line of ``prints`` is in what the last run
printed. ``after: PAGE`` does another tutorial first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.causal_models import reads_language_models
from tests.commands import put_command, reads_classifiers
from tests.shared import shared_folder

ROOT = Path(__file__).parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
PAGES = [ROOT / "docs" / "start.md", *sorted(TUTORIALS.glob("*.md"))]
STEP = re.compile(
    r"^<!-- (file|append|run|prints|after)(?:: ([^\n]*?))? -->\n(?:```\w*\n(.*?)^```$)?", re.M | re.DOTALL
)
FENCE = re.compile(r"^```", re.MULTILINE)

PIP = '''#!{python}
"""What `pip install ./FOLDER` does to a folder of modules, without a network."""
import pathlib, shutil, sys, tomllib
folder, site = pathlib.Path(sys.argv[-1]), pathlib.Path({site!r})
project = tomllib.loads((folder / "pyproject.toml").read_text())
about = project["project"]
for name in project["tool"]["setuptools"]["py-modules"]:
    shutil.copy(folder / (name + ".py"), site)
info = site / "own-1.dist-info"
info.mkdir()
info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\\nName: {{about['name']}}\\nVersion: 1\\n")
groups = about["entry-points"]
info.joinpath("entry_points.txt").write_text("".join(
    "[" + group + "]\\n" + "".join(f"{{name}} = {{place}}\\n" for name, place in entries.items())
    for group, entries in groups.items()))
'''


@dataclass(frozen=True)
class Step:
    line: int
    kind: str
    detail: str
    text: str


def steps(page: Path) -> Iterator[Step]:
    text = page.read_text(encoding="utf-8")
    for match in STEP.finditer(text):
        yield Step(text.count("\n", 0, match.start()) + 1, match[1], match[2] or "", match[3] or "")


def do(page: Path, folder: Path, environment: dict[str, str], before: Callable[[str], Path]) -> None:
    """Do a page in a folder.

    Args:
        page: The page.
        folder: Empty.
        environment: Of the commands.
        before: The folder in which another page was done.
    """
    printed = ""
    for step in steps(page):
        where = f"{page.name}:{step.line}"
        if step.kind == "after":
            shutil.copytree(before(step.detail), folder, dirs_exist_ok=True)
        elif step.kind == "prints":
            for line in step.text.splitlines():
                assert line in printed, f"{where}: {line!r} is not in\n{printed}"
        elif step.kind == "run":
            codes = {int(code) for code in re.findall(r"\d+", step.detail)} or {0}
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", step.text], cwd=folder, env=environment, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            printed = done.stdout
            assert done.returncode in codes, f"{where}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        else:
            path = folder / step.detail.partition(",")[0]
            path.parent.mkdir(exist_ok=True)
            text = path.read_text(encoding="utf-8") if step.kind == "append" else ""
            path.write_text(f"{text}\n{step.text}" if text else step.text, encoding="utf-8")


IMPORTS = {
    "start": reads_classifiers,
    "github": reads_classifiers,
    "sklearn": reads_classifiers,
    "torch": pytest.mark.imports("torch._dynamo", "torch.export"),
    "huggingface": reads_language_models,
}
"""Of pages whose children import more than others."""


@pytest.fixture
def environment(page: Path, tmp_path: Path) -> dict[str, str]:
    tools, site = tmp_path / "tools", tmp_path / "site"
    tools.mkdir()
    site.mkdir()
    pip = tools / "pip"
    pip.write_text(PIP.format(python=sys.executable, site=str(site)))
    pip.chmod(0o755)
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = os.environ | {"PATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    # Pages without folders of their own in PYTHONPATH share the server that forks their children.
    if any("pip install" in step.text for step in steps(page)):
        own["PYTHONPATH"] = str(site)
    put_command(tools, own)
    return own


@pytest.mark.proof
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem, marks=IMPORTS.get(page.stem, ())) for page in PAGES])
def test_a_tutorial_works_as_it_is_written(
    page: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def done(name: str) -> Path:
        def make(folder: Path) -> None:
            do(next(one for one in PAGES if one.name == name), folder, environment, done)

        return shared_folder(tmp_path_factory, f"tutorial-{name}", make)

    done(page.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_block_of_a_tutorial_goes_unrun(page: Path) -> None:
    """Only the line that installs evalspec itself, and files for other programs, are not run."""
    text = page.read_text(encoding="utf-8")
    rest = STEP.sub("", text)
    rest = re.sub(r"^```\npip install '?evalspec-gate[^\n]*\n```$", "", rest, flags=re.MULTILINE)
    rest = re.sub(r"^<!-- not a spec -->\n```yaml\n.*?^```$", "", rest, flags=re.MULTILINE | re.DOTALL)
    assert not FENCE.search(rest), rest[FENCE.search(rest).start() :][:200]  # type: ignore[union-attr]
    assert sum(step.kind == "run" for step in steps(page)) >= 2
