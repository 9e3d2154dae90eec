"""One log of a harness, as answers with what stands beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.answers.classes import label_text
from evalspec.errors import InputError
from evalspec.evidence.words import plural

LONGEST_POSITION = 4


@dataclass(frozen=True, slots=True)
class AnswerLog:
    """Answers as a harness logged them.

    Args:
        samples: As they stand in the file, one a question.
        outputs: Name of a column: what each sample answered.
        claim: What the file says of its own origin, which nothing here can check.
        options: Texts of the options of each sample; None: it was not asked to choose.
        unanswered: Samples that ended without an answer; the empty text stands for each.
        missing: Of which sample the answer is one of those.
    """

    samples: Sequence[Mapping[str, Any]]
    outputs: Mapping[str, Sequence[Any]]
    claim: str
    options: Sequence[Sequence[str]] | None = None
    missing: Sequence[bool] = ()

    @property
    def unanswered(self) -> int:
        """Samples that ended without an answer."""
        return sum(self.missing)


def field(sample: Mapping[str, Any], path: str) -> Any:
    """Value in a sample under a path such as ``doc.id``.

    Raises:
        InputError: Nothing does.
    """
    value: Any = sample
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            there = tuple(map(str, value)) if isinstance(value, Mapping) else ()
            raise InputError(f"a sample has no field {path!r}", choices=there[:20])
        value = value[name]
    return value


def json_of(content: bytes | str, what: str) -> Any:
    """Parsed JSON.

    Raises:
        InputError: It is none.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not JSON: {error}", remedy="was it cut off?") from error


def records_of(value: Any, what: str) -> list[Mapping[str, Any]]:
    """A list of JSON objects.

    Raises:
        InputError: It is none, or empty.
    """
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise InputError(f"{what} holds no list of samples")
    if not value:
        raise InputError(f"{what} has no samples")
    return value


def read_text(path: Path, shown: str) -> str:
    """A file as text.

    Raises:
        InputError: It can't be read, or is no UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown!r} is not UTF-8: {error.reason} at byte {error.start:,}") from error
    except (OSError, MemoryError) as error:
        raise InputError(f"{shown!r} can't be read: {getattr(error, 'strerror', None) or 'no memory'}") from error


def check_same(
    said: Sequence[Any],
    known: Sequence[Any],
    names: tuple[str, str, str],
    options: Sequence[Sequence[str]] | None = None,
    classes: Sequence[str] | None = None,
) -> None:
    """Refuse a log whose questions are not those of the dataset: the key joins them, and what they hold shows it.

    Args:
        said: What the log says of each row.
        known: What the dataset says of it.
        names: The file, its field, and the dataset's column, for the sentence.
        options: Of each row, where both name one of them: by its position, its text or, the dataset, its class.
        classes: The spec's, in the order of the options.

    Raises:
        InputError: They differ, with the count.
    """
    if options is None:
        same = [bool(_texts(one) & _texts(other)) for one, other in zip(said, known, strict=True)]
    else:
        same = [
            (index := _position(one, texts)) is not None and index == _position(other, texts, classes)
            for one, other, texts in zip(said, known, options, strict=True)
        ]
    differ = same.count(False)
    if differ:
        shown, path, column = names
        raise InputError(
            f"{path!r} in {shown!r} is not {column!r} of the dataset in {differ:,} of {plural(len(same), 'row')}: they "
            "are joined incorrectly, or are different rows",
            remedy="give the field that holds the dataset's key (`key_from:`), or a field and a column with the same "
            "values (`agrees: {doc.question: question}`)",
        )


def _texts(value: Any) -> set[str]:
    """Texts that a value may stand for: of a list also the one that is alone in it."""
    if not isinstance(value, list | tuple):
        return {label_text(value)}
    return {str(list(value))} | ({label_text(value[0])} if len(value) == 1 else set())


def _position(value: Any, options: Sequence[str], classes: Sequence[str] | None = None) -> int | None:
    """Position of the option that a value names; None: of no one."""
    text = label_text(value)
    if classes is not None and text in classes:
        return classes.index(text)
    if text.isdecimal() and len(text) < LONGEST_POSITION:
        return int(text)
    plain = [label_text(option) for option in options]
    return plain.index(text) if text in plain else None
