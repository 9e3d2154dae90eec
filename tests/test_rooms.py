"""The rules of ARCHITECTURE.md that no import contract can say, held over the whole tree."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "evalspec"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
MOST_MODULES = 25
MOST_CIRCLES = 8
PARTICIPLES = {"Found", "Asked", "Told", "Held", "Judged", "Apart", "Seen", "Done"}


@cache
def trees() -> dict[str, ast.Module]:
    """Module: its syntax tree."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def imported(tree: ast.Module) -> Iterator[str]:
    """Modules of the package that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in trees())
        elif isinstance(node, ast.ImportFrom) and node.module in trees():
            for one in node.names:
                full = f"{node.module}.{one.name}"
                yield full if full in trees() else node.module


def test_the_page_lists_the_packages_that_there_are() -> None:
    rooms = re.search(r"## The packages\n(.*?)\n## ", PAGE, flags=re.DOTALL)
    assert rooms is not None
    listed = re.findall(r"^\| `(\w+)` \|", rooms[1], flags=re.MULTILINE)
    assert sorted(listed) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    named = set(re.findall(r"`(\w+)`", rooms[1]))
    inner = {path.parent.name for path in PACKAGE.glob("*/*/__init__.py") if path.parents[1].name != "measure"}
    inner -= {path.parent.name for path in PACKAGE.glob("scoring/*/__init__.py")}
    assert inner <= named | {"system", "model", "data"}


def test_no_folder_holds_more_modules_than_one_can_look_over() -> None:
    counts = {
        folder: sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in (PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir()))
    }
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_a_checks_package_has_its_rooms_and_no_underscore() -> None:
    packages = [path.parent for path in PACKAGE.glob("checks/*/*/__init__.py")]
    assert len(packages) >= 27
    for package in packages:
        names = {path.stem for path in package.glob("*.py")}
        assert {"spec", "measure"} <= names, package
        assert [name for name in names if name.startswith("_") and name != "__init__"] == []


def test_what_validates_imports_no_numbers() -> None:
    wrong = []
    for name, tree in trees().items():
        if re.fullmatch(r"evalspec\.checks\.\w+\.\w+\.spec", name):
            for node in ast.walk(tree):
                modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                wrong += [f"{name}: {one}" for one in modules if one.split(".")[0] in ("numpy", "scipy")]
            wrong += [f"{name}: {one}" for one in imported(tree) if one.rpartition(".")[2] in ("measure", "show")]
    assert wrong == []


def test_nobody_reaches_into_another_package() -> None:
    wrong = []
    for name, tree in trees().items():
        for target in set(imported(tree)):
            parts = target.split(".")
            hidden = next((place for place, part in enumerate(parts) if part.startswith("_")), None)
            if hidden is not None and not f"{name}.".startswith(".".join(parts[:hidden]) + "."):
                wrong.append(f"{name} -> {target}")
    assert wrong == []


def test_no_two_public_classes_share_a_name_and_none_is_a_participle() -> None:
    classes: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name)
    assert {name: where for name, where in classes.items() if len(where) > 1} == {}
    assert PARTICIPLES & set(classes) == set()


def test_circles_are_few_and_of_two_files() -> None:
    circles = [one for one in components({name: set(imported(tree)) - {name} for name, tree in trees().items()})]
    assert [one for one in circles if len(one) > 2] == []
    assert len(circles) <= MOST_CIRCLES


def components(edges: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components of more than one node (Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in edges:
        stack = [(start, iter(edges[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            node, rest = stack[-1]
            following = next((one for one in rest if one not in seen), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(edges[following])))
    back: dict[str, set[str]] = defaultdict(set)
    for node, targets in edges.items():
        for target in targets:
            back[target].add(node)
    found, taken = [], set[str]()
    for start in reversed(order):
        if start in taken:
            continue
        group, pending = {start}, [start]
        while pending:
            new = back[pending.pop()] - taken - group
            group |= new
            pending += new
        taken |= group
        found.append(group)
    return [group for group in found if len(group) > 1]


def test_a_circle_is_seen() -> None:
    assert components({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [{"a", "b", "c"}]
    assert components({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    """A reader who looks for answers finds "Answers of a model" sooner than "What a model gives"."""
    wrong = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "evalspec").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node))
        if text.split()[0] in ("It", "That", "What", "Whether")
    ]
    assert wrong == []
