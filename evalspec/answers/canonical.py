"""Answers inside texts, in the form in which they are compared."""

from __future__ import annotations

import re
from decimal import Decimal

from evalspec.language.predictions import AnswerKind

_NUMBER = re.compile(
    r"[^\w+\-\u2212.]*(?P<sign>[+\-\u2212]?)[$\u20ac\u00a3\u00a5]?"
    r"(?P<digits>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?P<power>[eE][+\-]?[0-9]{1,3})?"
    r"(?!\w|[.,:/^\-][0-9]|[ \u00a0\u202f][0-9]{3}(?![0-9]))"
)
"""Marks, a sign, a currency; digits, with commas by thousands and a decimal point or without. What goes on as another
number (`1/2`, `5:30`, `3-4`, `1,20`, `10k`, `18 000`) is none."""
_LETTER = re.compile(r"[\W_]*(?P<letter>[^\W\d_])(?!\w|['\u2019]\w)")
_REST = re.compile(r"[\W_]*")


def canonical(piece: str, kind: AnswerKind, *, whole: bool = False) -> str | None:
    """A piece of text as it is compared; None: there is no such answer at its beginning.

    Numbers become decimals without needless zeros (``1,200``, ``$1200.0`` and ``1.2e3`` are ``1200``), letters large.

    Args:
        piece: Begins with the answer; marks before it (brackets, asterisks, a currency) do not count.
        kind: What is looked for.
        whole: Nothing but marks may follow.
    """
    if kind == "text":
        return piece.strip() or None
    found = (_NUMBER if kind == "number" else _LETTER).match(piece)
    if found is None or (whole and not _REST.fullmatch(piece, found.end())):
        return None
    return found["letter"].upper() if kind == "letter" else _decimal(found)


def _decimal(found: re.Match[str]) -> str:
    value = Decimal(found["digits"].replace(",", "") + (found["power"] or ""))
    digits = format(value, "f")
    if "." in digits:
        digits = digits.rstrip("0").removesuffix(".")
    digits = digits.lstrip("0") or "0"
    digits = f"0{digits}" if digits.startswith(".") else digits
    return digits if digits == "0" or found["sign"] in ("", "+") else f"-{digits}"
