"""Classes in the folder of a state dict that its weights may belong to; nothing is imported to find them."""

from __future__ import annotations

import ast
from pathlib import Path

MODULE = "Module"
MOST_FILES, MOST_BYTES = 50, 2**20
QUIET = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
"""Statements that define and do nothing else, as long as what is assigned is no call."""


def factories(folder: Path) -> tuple[list[str], list[str]]:
    """Classes that derive from a module of torch, as ``module:Class``.

    Args:
        folder: Of the spec.

    Returns:
        Those in files that only define, and those in files that also run something when they are imported.
    """
    quiet: list[str] = []
    loud: list[str] = []
    for path in sorted(folder.glob("*.py"))[:MOST_FILES]:
        if not path.stem.isidentifier() or path.stat().st_size > MOST_BYTES:
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        names = [
            f"{path.stem}:{node.name}" for node in tree.body if isinstance(node, ast.ClassDef) and _is_module(node)
        ]
        (quiet if all(map(_only_defines, tree.body)) else loud).extend(names)
    return quiet, loud


def _is_module(node: ast.ClassDef) -> bool:
    return any(
        base.attr == MODULE if isinstance(base, ast.Attribute) else isinstance(base, ast.Name) and base.id == MODULE
        for base in node.bases
    )


def _only_defines(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not any(isinstance(one, ast.Call) for one in ast.walk(node))
    if isinstance(node, ast.If):
        named = any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test))
        return named or all(map(_only_defines, [*node.body, *node.orelse]))
    return isinstance(node, QUIET) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
