"""The little language of ``where``: columns held against literals.

``lux < 100 and site in ['lab', 'field']``, ``0.2 < occlusion <= 0.5``, ``not (site == 'lab' or lux is None)``. A name
that is no word stands in backticks. The text is parsed as Python and only these forms are taken; nothing is ever
evaluated as Python.
"""

from __future__ import annotations

import ast
import datetime
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evalspec.errors import InputError, Problem, SpecError, did_you_mean
from evalspec.moments import Comparison, NoMoment, compared, held_against

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.inputs import SliceMask

Scalar = str | int | float | bool

_LONGEST = 2_000
_LARGEST = 2**63 - 1
_DEEPEST = 50
_FORMS = "a column with a literal (lux < 100), in [..], is None, is not None, and, or, not, brackets"
_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`(?P<quoted>[^`]*)`")
_OPERATORS: dict[type[ast.cmpop], Comparison] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_SWAPPED: dict[Comparison, Comparison] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LOWER_CASE = {"true": "True", "false": "False", "none": "None", "null": "None"}


@dataclass(frozen=True, slots=True)
class Compare:
    """A column held against a literal."""

    column: str
    op: Comparison
    literal: Scalar


@dataclass(frozen=True, slots=True)
class Among:
    """A column among literals."""

    column: str
    literals: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class IsNone:
    """A column is missing."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    of: Term


@dataclass(frozen=True, slots=True)
class Join:
    """All of them hold, or any."""

    word: Literal["and", "or"]
    terms: tuple[Term, ...]


Term = Compare | Among | IsNone | Not | Join


@dataclass(frozen=True, slots=True)
class Where:
    """A parsed text.

    Args:
        text: As written.
        term: What it says.
        columns: Columns that it reads, in the order in which they stand.
    """

    text: str
    term: Term
    columns: tuple[str, ...]


def parse_where(text: str) -> Where:
    """Parse a ``where``.

    Raises:
        SpecError: It is no comparison of columns with literals; names the piece that is not understood.
    """
    if not text.strip():
        raise SpecError(Problem("an empty where", remedy=f"write {_FORMS}"))
    if len(text) > _LONGEST:
        raise SpecError(Problem(f"a where of {len(text):,} characters; {_LONGEST:,} is the most"))
    plain, quoted = _unquote(" ".join(text.strip().splitlines()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, SyntaxWarning, DeprecationWarning, RecursionError, MemoryError) as error:
        raise SpecError(Problem(f"{_short(text)} is not understood", remedy=f"write {_FORMS}")) from error
    parser = _Parser(plain, quoted)
    term = parser.term(tree.body, 0)
    return Where(text, term, tuple(dict.fromkeys(_columns(term))))


def check_columns(where: Where, columns: Mapping[str, str]) -> list[Problem]:
    """Problems of a ``where`` on a dataset with these columns (name: arrow type as text)."""
    problems = []
    for name in where.columns:
        if name not in columns:
            remedy = did_you_mean(name, columns)
            problems.append(Problem(f"unknown column {name!r} in where", choices=tuple(columns), remedy=remedy))
    return problems + check_literals(where, columns)


def check_literals(where: Where, columns: Mapping[str, str]) -> list[Problem]:
    """Literals of a ``where`` that its columns can't be held against; columns that are not there are passed over."""
    problems = []
    for column, literal in _literals(where.term):
        family = column_family(columns[column]) if column in columns else None
        if family is not None and not _fits(literal, family):
            kind = family if family == "text" else f"a {family}"
            message = f"column {column!r} holds {columns[column]}, and {_cut(repr(literal))} is not {kind}"
            problems.append(Problem(message, remedy=_instead(literal, family)))
    return problems


def _instead(literal: Scalar, family: str) -> str:
    """Advice on what to write in place of a literal."""
    if family == "text":
        return f"write {_cut(repr(str(literal)))}"
    if family == "date":
        return "write a day in quotes, such as '2026-01-31'"
    if family == "truth value":
        return "write True or False"
    plain = isinstance(literal, str) and re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", literal.strip(), re.ASCII)
    return f"write {_cut(str(literal).strip())} without quotes" if plain else "write a number"


def mask(table: pa.Table, where: Where) -> SliceMask:
    """The rows for which it holds.

    A row of which it can't be said, because a column that decides it is missing there, belongs to neither side and is
    counted.

    Args:
        table: Holds the columns of ``where``.
        where: What must hold.

    Raises:
        InputError: A column is not there, or holds something that can't be compared.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from evalspec.language.inputs import SliceMask

    problems = check_columns(where, {field.name: str(field.type) for field in table.schema})
    if problems:
        raise InputError("; ".join(str(problem) for problem in problems))
    columns = {name: _plain(table.column(name)) for name in where.columns}
    try:
        holds = _evaluate(where.term, columns)
    except (pa.ArrowException, NoMoment) as error:
        raise InputError(f"where {_short(where.text)} can't be compared with its columns: {error}") from error
    inside = pc.fill_null(holds, False).to_numpy(zero_copy_only=False)
    return SliceMask(inside=np.asarray(inside, dtype=bool), missing=int(holds.null_count))


class _Parser:
    """Takes the forms that the language has from a Python syntax tree, and refuses the rest."""

    def __init__(self, text: str, quoted: Mapping[str, str]) -> None:
        self.text = text
        self.quoted = quoted

    def term(self, node: ast.expr, depth: int) -> Term:
        if depth > _DEEPEST:
            raise SpecError(Problem(f"{_short(self.text)} is nested deeper than {_DEEPEST} levels"))
        if isinstance(node, ast.BoolOp):
            word: Literal["and", "or"] = "and" if isinstance(node.op, ast.And) else "or"
            return Join(word, tuple(self.term(value, depth + 1) for value in node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return Not(self.term(node.operand, depth + 1))
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            links = [self.link(*link) for link in zip(sides, node.ops, sides[1:], strict=False)]
            return links[0] if len(links) == 1 else Join("and", tuple(links))
        if isinstance(node, ast.Name):
            name = self.name(node)
            raise SpecError(Problem(f"{name!r} alone is not a condition", remedy=f"write {name} == True"))
        raise self.refuse(node)

    def link(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Term:
        if isinstance(op, ast.Is | ast.IsNot):
            return self.missing(left, right, isinstance(op, ast.IsNot))
        if isinstance(op, ast.In | ast.NotIn):
            return self.among(left, right, isinstance(op, ast.NotIn))
        word = _OPERATORS[type(op)]
        if not isinstance(left, ast.Name) and isinstance(right, ast.Name):
            left, right, word = right, left, _SWAPPED[word]
        if not isinstance(left, ast.Name):
            raise self.refuse(left, "one side must be a column")
        if isinstance(right, ast.Name) and right.id not in _LOWER_CASE:
            column, other = self.name(left), self.name(right)
            raise SpecError(
                Problem(f"{column!r} is compared with the column {other!r}", remedy=f"text needs quotes: {other!r}")
            )
        return Compare(self.name(left), word, self.literal(right))

    def missing(self, left: ast.expr, right: ast.expr, negated: bool) -> Term:
        if not isinstance(left, ast.Name) or not (isinstance(right, ast.Constant) and right.value is None):
            raise self.refuse(right if isinstance(left, ast.Name) else left, "'is' is only for None")
        term = IsNone(self.name(left))
        return Not(term) if negated else term

    def among(self, left: ast.expr, right: ast.expr, negated: bool) -> Term:
        if not isinstance(left, ast.Name):
            raise self.refuse(left, "'in' needs a column on its left")
        if not isinstance(right, ast.List) or not right.elts:
            raise self.refuse(right, "'in' needs a list of literals in square brackets on its right")
        term = Among(self.name(left), tuple(self.literal(item) for item in right.elts))
        return Not(term) if negated else term

    def literal(self, node: ast.expr) -> Scalar:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            if isinstance(node.operand, ast.UnaryOp):
                raise self.refuse(node, "a number can have one sign only")
            value = self.literal(node.operand)
            if isinstance(value, bool | str):
                raise self.refuse(node)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.Name) and node.id in _LOWER_CASE:
            raise self.refuse(node, f"write {_LOWER_CASE[node.id]}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
            if not isinstance(node.value, str) and abs(node.value) > _LARGEST:
                raise self.refuse(node, "too large for a number")
            return node.value
        if isinstance(node, ast.Constant) and node.value is None:
            raise self.refuse(node, "write 'is None' or 'is not None'")
        raise self.refuse(node, "a number, a text in quotes, True or False is expected here")

    def name(self, node: ast.Name) -> str:
        return self.quoted.get(node.id, node.id)

    def refuse(self, node: ast.expr, why: str | None = None) -> SpecError:
        piece = ast.get_source_segment(self.text, node) or self.text
        for placeholder, name in self.quoted.items():
            piece = piece.replace(placeholder, f"`{name}`")
        return SpecError(Problem(f"{_short(piece)} is not allowed in a where", remedy=why or f"a where has {_FORMS}"))


def _unquote(text: str) -> tuple[str, dict[str, str]]:
    """The text with names in backticks replaced by words, and what each word stands for."""
    quoted: dict[str, str] = {}
    stem = "_column"
    while stem in text:
        stem += "_"

    def replaced(match: re.Match[str]) -> str:
        name = match["quoted"]
        if name is None:
            return match[0]
        word = f"{stem}{len(quoted)}_"
        quoted[word] = name
        return word

    return _TOKEN.sub(replaced, text), quoted


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _cut(shown: str) -> str:
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _columns(term: Term) -> list[str]:
    if isinstance(term, Join):
        return [name for one in term.terms for name in _columns(one)]
    return _columns(term.of) if isinstance(term, Not) else [term.column]


def _literals(term: Term) -> list[tuple[str, Scalar]]:
    if isinstance(term, Join):
        return [pair for one in term.terms for pair in _literals(one)]
    if isinstance(term, Not):
        return _literals(term.of)
    if isinstance(term, Compare):
        return [(term.column, term.literal)]
    return [(term.column, literal) for literal in term.literals] if isinstance(term, Among) else []


def column_family(type_text: str) -> Literal["text", "number", "truth value", "date"] | None:
    """Kind of literal that a column of this arrow type can be held against; None: nothing is known of it."""
    inner = re.match(r"dictionary<values=([^,]+),", type_text)
    name = inner[1] if inner else type_text
    if name in ("string", "large_string", "string_view"):
        return "text"
    if name == "bool":
        return "truth value"
    if name.startswith(("timestamp", "date", "time")):
        return "date"
    return "number" if name.startswith(("int", "uint", "float", "double", "halffloat", "decimal")) else None


def _fits(literal: Scalar, family: str) -> bool:
    if isinstance(literal, bool):
        return family == "truth value"
    if isinstance(literal, str):
        return family == "text" or (family == "date" and is_moment(literal))
    return family == "number"


def is_moment(text: str) -> bool:
    """A day, a time of a day, or both."""
    for read in (datetime.datetime.fromisoformat, datetime.time.fromisoformat):
        try:
            read(text.strip())
        except ValueError:
            continue
        return True
    return False


def _plain(column: Any) -> Any:
    """A column without dictionary encoding or views, NaN made missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column


def _evaluate(term: Term, columns: Mapping[str, Any]) -> Any:
    """The truth of a term in each row, null where it is not known."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(term, Join):
        return _joined(term, columns)
    if isinstance(term, Not):
        return pc.invert(_evaluate(term.of, columns))
    column = columns[term.column]
    if isinstance(term, IsNone):
        return pc.is_null(column)
    if isinstance(term, Among):
        return _any([_compare(column, "==", literal) for literal in term.literals])
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.bool_())
    return _compare(column, term.op, term.literal)


def _joined(term: Join, columns: Mapping[str, Any]) -> Any:
    import pyarrow.compute as pc

    parts = [_evaluate(one, columns) for one in term.terms]
    if term.word == "or":
        return _any(parts)
    whole = parts[0]
    for part in parts[1:]:
        whole = pc.and_kleene(whole, part)
    return whole


def _any(parts: Sequence[Any]) -> Any:
    import pyarrow.compute as pc

    whole = parts[0]
    for part in parts[1:]:
        whole = pc.or_kleene(whole, part)
    return whole


def _compare(column: Any, op: Comparison, literal: Scalar) -> Any:
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.bool_())
    if isinstance(literal, str) and pa.types.is_temporal(column.type):
        return held_against(column, op, literal, utc=True)
    return compared(column, op, pa.scalar(literal))
