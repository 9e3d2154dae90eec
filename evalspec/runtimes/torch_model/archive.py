"""Contents of a ``.pt2`` archive, read before torch unpacks it.

Loading an exported program is not only reading weights. torch evaluates its size expressions as Python, generates
and executes source from its names and guards, looks operators up by dotted path, and unpickles some constants with
no restriction at all. So an archive that is not trusted has to consist of what is known to be harmless: everything
else is refused by name. The archive is read with torch's own reader, so that both see the same records.

This makes a plain archive data. It is no sandbox: a fault in torch's native code is out of its reach.
"""

from __future__ import annotations

import ast
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.errors import InputError
from evalspec.language.bounded import check_zip
from evalspec.language.parts import Access
from evalspec.pipeline.untrusted_code import first_line, need_trust

RECORD_BYTES = 256 * 2**20
COMPILED = ("data/aotinductor/", "data/executorch/", "data/mtia", "xl_model_weights/")
COMPILED_ENDINGS = (".so", ".cpp", ".cubin", ".ptx", ".o", ".py", ".pyc")
OLD_FORMAT = ("version", "serialized_exported_program.json", "serialized_state_dict.pt", "serialized_constants.pt")
PLAIN = re.compile(
    r"^(data/weights/.+|data/constants/.+|data/sample_inputs/.+\.pt|models/.+\.json|extra/.*"
    r"|archive_format|archive_version|byteorder|\.data/\w+|\.format_version|\.storage_alignment)$"
)
PLAIN_CONSTANT = "tensor_"

WORD = re.compile(r"^[\w.+-]*$")
IDENTIFIER = re.compile(r"^[A-Za-z_]\w*$")
OPERATOR = re.compile(
    r"^(torch\.ops\.(aten|prims|quantized|quantized_decomposed|torchvision)\.\w+\.\w+"
    r"|torch\.ops\.higher_order\.(cond|scan|map_impl|while_loop|associative_scan|wrap_with_set_grad_enabled"
    r"|wrap_with_autocast|flex_attention)"
    r"|_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_|invert"
    r"|lshift|rshift)"
    r"|math\.(ceil|floor|trunc|sqrt|pow)"
    r"|torch\.(sym_\w+|_sym_\w+))$"
)
FILE_OPERATORS = ("aten.from_file", "aten.save")
FREE_TEXT = frozenset(
    {"as_string", "as_strings", "stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom", "from_node"}
)
CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")
FUNCTIONS = frozenset(
    [
        "Symbol",
        "Integer",
        "Float",
        "Rational",
        "Add",
        "Mul",
        "Pow",
        "Max",
        "Min",
        "Mod",
        "Abs",
        "Eq",
        "Ne",
        "Lt",
        "Le",
        "Gt",
        "Ge",
        "And",
        "Or",
        "Not",
        "Piecewise",
        "FloorDiv",
        "ModularIndexing",
        "Where",
        "PythonMod",
        "CleanDiv",
        "CeilToInt",
        "FloorToInt",
        "CeilDiv",
        "LShift",
        "RShift",
        "PowByNatural",
        "FloatPow",
        "FloatTrueDiv",
        "IntTrueDiv",
        "IsNonOverlappingAndDenseIndicator",
        "TruncToFloat",
        "TruncToInt",
        "RoundToInt",
        "RoundDecimal",
        "ToFloat",
        "Identity",
        "Equality",
        "Unequality",
        "StrictLessThan",
        "StrictGreaterThan",
        "LessThan",
        "GreaterThan",
    ]
)
ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
    ast.expr_context, ast.keyword,
)  # fmt: skip
SIZE_METHODS = ("size", "stride", "storage_offset", "ndim", "shape")


@dataclass(frozen=True, slots=True)
class Archive:
    """Contents of an archive.

    Args:
        compiled: Compiled code instead of a graph.
    """

    compiled: bool


def inspect_archive(path: Path, shown: str, access: Access) -> Archive:
    """Look through an archive before it is loaded.

    Raises:
        InputError: It is no archive, or holds what can run code and the caller has not allowed it.
    """
    records = _records(path, shown)
    names = tuple(records.names)
    compiled = _compiled_names(names)
    if compiled:
        need_trust(access, f"{shown!r} holds compiled code ({compiled[0]})")
        return Archive(compiled=any(name.startswith(COMPILED[0]) for name in compiled))
    if not any(name.startswith("models/") for name in names):
        raise InputError(f"{shown!r} holds no exported program", remedy="save it with torch.export.save")
    if not access.trust:
        for problem in _problems(records, path):
            need_trust(access, f"{shown!r} can't be shown to be free of code: {problem}")
    return Archive(compiled=False)


def hidden_code(path: Path, shown: str) -> str | None:
    """Content of an archive that can run code, in words, as its zip directory tells without torch; None: none was seen.

    It is for a sentence before a run. What torch itself would read, `inspect_archive` looks at.
    """
    try:
        check_zip(path, repr(shown))
        with zipfile.ZipFile(path) as archive:
            records = _Zipped(archive)
            compiled = _compiled_names(records.names)
            if compiled:
                return f"{shown!r} holds compiled code ({compiled[0]})"
            problem = next(_problems(records, path), None)
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, NotImplementedError, InputError):
        # No archive at all is another sentence, which loading it has.
        return None
    return None if problem is None else f"{shown!r} can't be shown to be free of code: {problem}"


def _compiled_names(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(COMPILED) or name.endswith(COMPILED_ENDINGS)]


class _Zipped:
    """Records of an archive, as its zip directory has them; they lie in one folder, which is no part of their names."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._places = {name.partition("/")[2]: name for name in archive.namelist()}
        self.names = list(self._places)

    def json(self, name: str) -> Any:
        with self._archive.open(self._places[name]) as stream:
            content = stream.read(RECORD_BYTES + 1)
        if len(content) > RECORD_BYTES:
            raise ValueError(f"{name!r} is larger than {RECORD_BYTES // 2**20} MiB")
        return json.loads(content.decode())


class _Records:
    """Records of an archive, as torch reads them."""

    def __init__(self, path: Path) -> None:
        import torch

        self._reader = torch._C.PyTorchFileReader(str(path))
        self.names: list[str] = list(self._reader.get_all_records())

    def json(self, name: str) -> Any:
        return json.loads(self._reader.get_record(name).decode())


def _records(path: Path, shown: str) -> _Records:
    try:
        with zipfile.ZipFile(path) as archive:
            old = [name for name in OLD_FORMAT if name in archive.namelist()]
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InputError(f"{shown!r} is not a .pt2 archive, or a truncated one: {first_line(error)}") from error
    if old:
        raise InputError(f"{shown!r} is in the format of torch 2.7 or older", remedy="save it again with torch 2.8+")
    try:
        return _Records(path)
    except RuntimeError as error:
        raise InputError(f"{shown!r} is not a .pt2 archive, or a truncated one: {first_line(error)}") from error


def _problems(records: _Records | _Zipped, path: Path) -> Iterator[str]:
    """Everything in it that is not known to be harmless."""
    for name in records.names:
        if not PLAIN.match(name):
            yield f"unknown record {name!r}"
    try:
        for name in records.names:
            if name.startswith("data/constants/") and name.endswith(".json"):
                yield from _constants(records.json(name))
            elif name.startswith("models/"):
                yield from _program(records.json(name))
    except (ValueError, RecursionError, AttributeError) as error:
        yield f"a record of {path.name} is not plain JSON ({first_line(error)})"


def _constants(config: Any) -> Iterator[str]:
    for name, entry in config["config"].items() if isinstance(config, dict) and "config" in config else ():
        where = str(entry.get("path_name"))
        if not where.startswith(PLAIN_CONSTANT):
            yield f"the constant {name!r} ({where}) is a pickled object"


def _program(program: Any) -> Iterator[str]:
    """Walks the program with the key that each value stands under."""
    waiting: list[tuple[str, Any]] = [("", program)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            for name, inner in value.items():
                if not WORD.match(name):
                    yield f"the name {name[:60]!r}"
                waiting.append((name, inner))
        elif isinstance(value, list):
            waiting.extend((key, inner) for inner in value)
        elif isinstance(value, str) and not _harmless(key, value):
            yield f"{key} {value[:60]!r}"


def _harmless(key: str, text: str) -> bool:
    if key in ("target", "as_operator"):
        return bool(OPERATOR.match(text)) and not any(name in text for name in FILE_OPERATORS)
    if key == "expr_str":
        return harmless_expression(text)
    if key == "guards_code":
        return harmless_expression(text, guard=True)
    if key in ("in_spec", "out_spec"):
        return harmless_treespec(text)
    if key == "forward_arg_names":
        return bool(IDENTIFIER.match(text))
    return key in FREE_TEXT or bool(WORD.match(text))


def harmless_expression(text: str, *, guard: bool = False) -> bool:
    """True if it is arithmetic on sizes and nothing else.

    Args:
        text: What torch evaluates.
        guard: It may look at the sizes of inputs (``L['x'].size()[0] == 4``).
    """
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    named = set() if guard else {id(text) for node in nodes for text in _symbol_names(node)}
    keys = {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)} if guard else set()
    return all(_plain_node(node, guard, named | keys) for node in nodes)


def _plain_node(node: ast.AST, guard: bool, texts: set[int]) -> bool:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return id(node) in texts and bool(WORD.match(node.value))
        return isinstance(node.value, bool | int | float)
    if isinstance(node, ast.Name):
        return not node.id.startswith("_")
    if isinstance(node, ast.Call):
        return _plain_call(node.func, guard)
    if guard and isinstance(node, ast.Attribute):
        return node.attr in SIZE_METHODS
    return isinstance(node, ARITHMETIC) or (guard and isinstance(node, ast.Subscript))


def _plain_call(function: ast.expr, guard: bool) -> bool:
    if isinstance(function, ast.Name):
        return function.id in FUNCTIONS
    return guard and isinstance(function, ast.Attribute) and function.attr in SIZE_METHODS


def _symbol_names(node: ast.AST) -> list[ast.expr]:
    """The name in ``Symbol('s0', ...)``, the only text in an expression."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol":
        return node.args[:1]
    return []


def harmless_treespec(text: str) -> bool:
    """True if the structure of inputs or outputs is made of tuples, lists and dicts only."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(parsed, list) or len(parsed) != 2:
        return False
    waiting = [parsed[1]]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or node.get("type") not in CONTAINERS or set(node) - {
            "type", "context", "children_spec"
        }:  # fmt: skip
            return False
        if not _plain_context(node.get("context")):
            return False
        waiting.extend(node.get("children_spec") or [])
    return True


def _plain_context(context: Any) -> bool:
    """None, or JSON text with None or a list of plain keys."""
    if context is None:
        return True
    try:
        keys = json.loads(context)
    except (TypeError, ValueError, RecursionError):
        return False
    return keys is None or (
        isinstance(keys, list) and all(isinstance(key, str | int) and WORD.match(str(key)) for key in keys)
    )
