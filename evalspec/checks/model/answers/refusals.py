"""Refusals: texts that a pattern takes for one, and people's word on a sample of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.answers.classes import label_text
from evalspec.answers.search import each_found
from evalspec.cells import values_of
from evalspec.checks.model.answers.spec import COMMENT
from evalspec.errors import InputError
from evalspec.evidence.words import plural
from evalspec.language.bounded import read_bounded
from evalspec.language.patterns import pattern_problem, ready
from evalspec.stats.shares.audited import audited_share, p_drawn_evenly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.answers.spec import Refusals
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Inputs, Predictions

FILE_BYTES = 64 * 2**20
EVEN_LEVEL = 1e-4
"""At which the pattern must find another share of audited than of other rows for these to be no random sample."""
REFUSED, LOOKED_AT = "refused", "text"


@dataclass(frozen=True, slots=True)
class RefusalAudit:
    """People's word on some rows.

    Args:
        audited: shape (n,), rows that were looked at.
        refused: shape (n,), rows that are refusals by their word.
        elsewhere: Audited rows that the dataset does not have.
        named: Audited rows whose text the file holds.
        changed: Of these, rows whose text is another one now.
    """

    audited: NDArray[np.bool_]
    refused: NDArray[np.bool_]
    elsewhere: int
    named: int
    changed: int


def patterns(refusals: Refusals, inputs: Inputs) -> tuple[str, ...]:
    """The patterns: that of the spec, or those of its file, one a line.

    Raises:
        InputError: The file has none, or one that may not be used.
    """
    if not refusals.in_a_file:
        return (refusals.pattern,)
    lines = read_bounded(inputs.file(refusals.pattern), repr(refusals.pattern), FILE_BYTES).decode(errors="replace")
    found = tuple(line.strip() for line in lines.splitlines() if line.strip() and not line.startswith(COMMENT))
    if not found:
        raise InputError(f"{refusals.pattern!r} holds no pattern", remedy="write one a line")
    for one in found:
        problem = pattern_problem(one, groups=None)
        if problem is not None:
            raise InputError(f"{refusals.pattern!r}: {problem.message}", remedy=problem.remedy)
    return found


def flagged(found: tuple[str, ...], texts: list[str]) -> NDArray[np.bool_]:
    """Texts in which one of the patterns is found, whatever the case, shape (n,).

    Raises:
        InputError: A pattern takes too long on a text.
    """
    compiled = [ready(f"(?i:{one})") for one in found]
    return np.array(each_found(lambda text: any(one.search(text) for one in compiled), texts), dtype=np.bool_)


def audit_of(refusals: Refusals, inputs: Inputs, answers: Predictions) -> RefusalAudit | None:
    """People's word on the rows of a dataset; None: nobody was asked.

    Raises:
        InputError: The dataset has no key, or the file has no such rows.
    """
    if refusals.audited is None:
        return None
    key = inputs.key(answers.dataset)
    if key is None:
        raise InputError(
            f"audited rows are joined by key, but the dataset {answers.dataset!r} names none", remedy="add `key:` to it"
        )
    shown = repr(refusals.audited)
    lines = read_bounded(inputs.file(refusals.audited), shown, FILE_BYTES).decode(errors="replace").splitlines()
    said = _by_key([_row(line, f"{shown}, line {at}", key) for at, line in enumerate(lines, 1) if line.strip()], shown)
    keys = [label_text(one) for one in values_of(inputs.table(answers.dataset, [key]).column(key))]
    audited = np.array([one in said for one in keys], dtype=np.bool_)
    if not audited.any():
        raise InputError(f"none of {plural(len(said), 'row')} of {shown} is in the dataset {answers.dataset!r}")
    assert answers.texts is not None
    now = dict(zip(keys, answers.texts.tolist(), strict=True))
    looked_at = {key: word.text for key, word in said.items() if word.text is not None and key in now}
    return RefusalAudit(
        audited=audited,
        refused=np.array([one in said and said[one].refused for one in keys], dtype=np.bool_),
        elsewhere=len(said.keys() - now.keys()),
        named=len(looked_at),
        changed=sum(text != now[key] for key, text in looked_at.items()),
    )


@dataclass(frozen=True, slots=True)
class PersonsWord:
    """One line of an audit: the row's key, whether its answer is a refusal, and the text that was looked at."""

    key: str
    refused: bool
    text: str | None


def _row(line: str, where: str, key: str) -> PersonsWord:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON") from error
    if not isinstance(row, dict) or row.get(key) is None:
        raise InputError(f"{where} has no key {key!r}", remedy=f'write such as {{"{key}": 7, "refused": true}}')
    refused, text = row.get(REFUSED), None if key == LOOKED_AT else row.get(LOOKED_AT)
    if not isinstance(refused, bool):
        raise InputError(f"{where} does not say whether it is a refusal", remedy='write "refused": true or false')
    if text is not None and not isinstance(text, str):
        raise InputError(f"{where} has a {LOOKED_AT!r} that is not text", remedy="write the audited answer")
    return PersonsWord(label_text(row[key]), refused, text)


def _by_key(rows: list[PersonsWord], shown: str) -> dict[str, PersonsWord]:
    if not rows:
        raise InputError(f"{shown} has no rows")
    key, count = Counter(row.key for row in rows).most_common(1)[0]
    if count > 1:
        raise InputError(f"{shown} has the key {key!r} twice", remedy="a row can be audited only once")
    return {row.key: row for row in rows}


def audited_rate(marks: NDArray[np.bool_], audit: RefusalAudit, clusters: NDArray[np.int64] | None) -> Estimate:
    """Share of refusals by people's word, with the pattern's errors in its bounds."""
    return audited_share(marks, audit.audited, audit.refused, clusters)


def invalid(audit: RefusalAudit) -> str | None:
    """Reason why people's word is not about these answers; None: nothing says so."""
    if not audit.changed:
        return None
    return (
        f"{audit.changed:,} of {audit.named:,} audited answers are no longer what the model says; have a new sample of "
        "its answers audited"
    )


def uneven(marks: NDArray[np.bool_], audit: RefusalAudit) -> str | None:
    """Reason why audited rows are no random sample; None: nothing says so."""
    if audit.audited.all() or p_drawn_evenly(marks, audit.audited) > EVEN_LEVEL:
        return None
    inside, outside = marks[audit.audited].mean(), marks[~audit.audited].mean()
    return (
        f"the audited rows are not a random sample: the pattern finds {100 * inside:.1f} % of them and "
        f"{100 * outside:.1f} % of the others; draw rows at random, whatever the pattern finds"
    )
