from __future__ import annotations

import ast
import importlib.util
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
import typer
from scipy.stats import binom

from evalspec.cli import app
from evalspec.errors import SpecError
from evalspec.evidence.units import UNITS
from evalspec.language.parts import Check, Dataset, Model
from evalspec.language.registry import DIMENSIONS, discover
from evalspec.language.yaml import read_text
from evalspec.language.yaml_text import write
from evalspec.loading import LoadOptions, load
from evalspec.loading.catalogue import COMMON
from evalspec.loading.problems import keys_of
from evalspec.loading.spec_file import TOP_KEYS
from evalspec.pipeline.preprocess import STAGE_NAMES
from evalspec.stats.shares.proportion import Proportion

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
OWN = discover(plugins=False)

# A fragment stands in this spec: its mappings are merged with these, its lists replace them.
AROUND = """
evalspec: 1
name: around
models:
  candidate:
    {kind: onnx, path: m.onnx, inputs: {x: a}, outputs: {logits: y}, classes: [no, yes],
     quantization: {method: dynamic}}
  baseline: {kind: onnx, path: b.onnx, inputs: {x: a}, outputs: {logits: y}, classes: [no, yes]}
datasets:
  train: {kind: parquet, path: train.parquet, label: y}
  test: {kind: parquet, path: test.parquet, label: y, origin: {site: lab}}
  traffic: {kind: parquet, path: traffic.parquet}
  field: {kind: parquet, path: field.parquet, label: digit, origin: {site: field}}
  judgements: {kind: parquet, path: judgements.parquet}
  audited: {kind: parquet, path: audited.parquet, label: good}
trainings:
  recipe: {kind: mllog, path: "result_*.txt"}
slices:
  - {name: dark, where: lux < 100}
  - {name: occluded, where: occlusion > 0.5}
model:
  - {check: quality, dataset: test, require: [accuracy >= 90 %]}
"""


# Where a fragment asks for likelihoods, these are the models.
LANGUAGE_MODELS = {name: {"kind": "transformers", "path": name} for name in ("candidate", "baseline")}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    marker: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks() -> Iterator[Block]:
    """Fenced blocks, with the HTML comment that stands on the line before."""
    pattern = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in pattern.finditer(text):
            yield Block(page, text.count("\n", 0, match.start(2)) + 1, match[2], match[1], match[3])


YAML = [block for block in blocks() if block.language == "yaml"]


def whole(block: Block) -> bool:
    lines = [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]
    return lines[0].startswith("evalspec: 1")


def embedded(block: Block) -> dict[str, Any]:
    """The fragment inside the spec around it: `fragment` is some top keys, `fragment: model` a list of checks."""
    value: Any = read_text(block.text, str(block)).value
    key = (block.marker or "").partition("fragment")[2].removeprefix(":").strip()
    fragment = {key: value} if key else value
    assert isinstance(fragment, dict), f"{block}: write which key it stands under: <!-- fragment: KEY -->"
    around: Any = read_text(AROUND, "around").value
    if "check: likelihood" in block.text:
        around["models"] = LANGUAGE_MODELS
    for name, part in fragment.items():
        around[name] = around.get(name, {}) | part if isinstance(part, dict) else part
    return around  # type: ignore[no-any-return]  # what the reader of YAML gives has no type


@pytest.mark.parametrize("block", YAML, ids=str)
def test_yaml_in_the_documentation_is_right(block: Block, tmp_path: Path) -> None:
    if block.marker == "not a spec":
        assert not whole(block)
        return
    marker = block.marker or ""
    if marker.endswith(", of a plug-in"):
        return
    path = tmp_path / "evalspec.yaml"
    if whole(block):
        path.write_text(block.text, encoding="utf-8")
    else:
        assert marker.startswith(("fragment", "append: ")), f"{block}: mark it as a fragment"
        path.write_text(write(embedded(block)), encoding="utf-8")
    try:
        load(path, options=LoadOptions(files=False), registry=OWN)
    except SpecError as error:
        around = "" if whole(block) else "; a fragment stands in `AROUND` of tests/test_docs.py, names and all"
        pytest.fail(f"{block}: {error}{around}")


def test_most_blocks_are_found() -> None:
    assert len(YAML) >= 20
    assert sum(whole(block) for block in YAML) >= 2


def commands() -> dict[str, Any]:
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]  # the app is a group


def options_of(command: Any) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("--")}


def commands_named(text: str) -> Iterator[str]:
    """Command lines in code: `evalspec run x --trust` inside back ticks, or on a line of a block."""
    yield from re.findall(r"`(?:\.venv/bin/)?(evalspec [^`\n]+)`", text)
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            match = re.match(r"(?:- run: )?(?:\.venv/bin/)?(evalspec [a-zA-Z][^#>]*)", line.strip())
            if match:
                yield match[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    known = commands()
    every = {"--help", "--version", *(name for command in known.values() for name in options_of(command))}
    every |= {"--evalspec", "--evalspec-trust", "--evalspec-output", "--dist"}
    for line in commands_named(text):
        word = line.split()[1]
        if word in ("COMMAND", "--version"):
            continue
        assert word in known, f"{page.name}: `{line}`"
        named = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", line))
        assert named <= options_of(known[word]) | {"--help"}, f"{page.name}: `{line}`"
    for option in re.findall(
        r"(?<=[`\s(])--[a-z][a-z-]*(?=[`\s,.;=)])",
        re.sub(r"`(python|pip) [^`]*`|^docker .*$", "", text, flags=re.MULTILINE),
    ):
        assert option in every, f"{page.name} names {option}"


def test_the_command_line_is_documented() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name, command in commands().items():
        section = text.partition(f"\n## evalspec {name}\n")[2].partition("\n## ")[0]
        assert section, name
        for option in options_of(command):
            assert option in section, f"{name} {option}"
        assert "--json" in section.rpartition("<!-- end -->")[2] or "--json" not in options_of(command), name


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub makes it."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    stale = [str(path.relative_to(ROOT)) for path in build().outdated()]
    assert not stale, "run `python docs/build.py`"


def test_a_page_for_each_check_and_it_is_listed() -> None:
    listed = (DOCS / "spec.md").read_text(encoding="utf-8")
    for kind in OWN.kinds("checks"):
        page = (DOCS / "checks" / f"{kind}.md").read_text(encoding="utf-8")
        check = OWN.check(kind)
        row = f"| `{check.dimension}` | [{kind}](checks/{kind}.md) |"
        assert any(line.startswith(row) for line in listed.splitlines()), (
            f"under Checks of docs/spec.md, add: {row} ... |"
        )
        for metric in check.metrics:
            assert f"| `{metric.name}{f'({metric.parts})' if metric.parts else ''}` | {metric.unit} |" in page
        for field in set(keys_of(check)) - COMMON:
            assert f"| `{field}` |" in page


def words(text: str) -> set[str]:
    """Everything that stands in code: names between back ticks, and keys and values in blocks."""
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return {word for piece in code for word in re.findall(r"[\w/%]+", piece)}


def test_the_whole_language_is_documented() -> None:
    text = (DOCS / "spec.md").read_text(encoding="utf-8")
    known = words(text)
    kinds: list[type[Model] | type[Dataset]] = [OWN.runtime(kind) for kind in OWN.kinds("runtimes")]
    kinds += [OWN.source(kind) for kind in OWN.kinds("sources")]
    wanted = {*TOP_KEYS, *STAGE_NAMES, *COMMON, *OWN.kinds("runtimes"), *OWN.kinds("sources")}
    wanted |= {key for part in (*kinds, Check) for key in keys_of(part)}
    wanted |= {str(one) for one in get_args(keys_of(Model)["outputs"].annotation)[0].__args__}
    wanted |= {unit for unit in UNITS if unit not in ("fraction", "count", "score", "label")}
    assert wanted <= known, sorted(wanted - known)
    assert set(DIMENSIONS) <= known


def test_the_worked_example_is_right() -> None:
    text = (DOCS / "spec.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3}) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| (\w+)", text, re.M)
    assert len(rows) == 4
    for right, *numbers, word in rows:
        found = Proportion.of_counts(int(right), 600)
        lower, upper = found.bound(0.95, "lower"), found.bound(0.95, "upper")
        p_pass, p_fail = found.p_value(0.95, "lower"), found.p_value(0.95, "upper")
        for shown, value in zip(numbers, (int(right) / 600, lower, upper, p_pass, p_fail), strict=True):
            digits = len(shown.partition(".")[2])
            assert value is not None and float(shown) == round(value, digits), right
        assert p_pass is not None and p_fail is not None
        expected = "PASS" if p_pass <= 0.05 else "FAIL" if p_fail <= 0.05 / 10 else "INCONCLUSIVE"
        assert word == expected


def test_the_rows_that_questions_name_give_a_pass_nearly_always() -> None:
    text = (DOCS / "faq.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) % \| (\d+) % \| ([\d,]+) \|$", text, re.M)
    assert len(rows) == 5

    def chance(n: int, truth: float, threshold: float) -> float:
        least = bisect_left(range(n + 1), True, key=lambda right: lower(right, n) >= threshold)
        return float(binom.sf(least - 1, n, truth))

    def lower(right: int, n: int) -> float:
        return Proportion.of_counts(right, n).bound(0.95, "lower") or 0.0

    for truth, threshold, said in rows:
        n, share, least = int(said.replace(",", "")), int(truth) / 100, int(threshold) / 100
        assert chance(n, share, least) > 0.94 and chance(int(0.85 * n), share, least) < 0.94


def test_public_methods_are_documented_here_or_where_they_are_first_declared() -> None:
    classes = defaultdict(list)
    for path in (ROOT / "evalspec").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(node)

    def bases(node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        for base in node.bases:
            name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
            for one in classes[name] if name != node.name else ():
                yield one
                yield from bases(one)

    def documented(node: ast.ClassDef, method: str) -> bool:
        functions = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
        return any(one.name == method and ast.get_docstring(one) for one in functions)

    bare = [
        f"{node.name}.{one.name}"
        for nodes in list(classes.values())
        for node in nodes
        if not node.name.startswith("_")
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("_")
        if not any(documented(holder, one.name) for holder in (node, *bases(node)))
    ]
    assert not bare


def test_the_sample_report_is_what_its_record_gives() -> None:
    """`evalspec report reports/sample` makes it again, and `python docs/pictures.py` the pictures of it."""
    from evalspec.records.outputs import pages
    from evalspec.running.folders import read_record

    sample = ROOT / "reports" / "sample"
    for name, text in pages(read_record(sample)).items():
        assert (sample / name).read_text(encoding="utf-8") == text, name
