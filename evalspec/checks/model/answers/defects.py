"""Defects of texts, by which `evalspec selftest` sees that the requirements of `answers` can go red."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.model.answers.faults import CUT
from evalspec.checks.model.answers.loops import LONG, TIMES
from evalspec.checks.model.answers.refusals import LOOKED_AT, REFUSED, patterns
from evalspec.language.defects import SHARES, Defect, share_of
from evalspec.language.patterns import shortest
from evalspec.language.predictions import each_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.answers.spec import Refusals, WrittenAnswers
    from evalspec.language.inputs import Inputs, Predictions

    Rows = NDArray[np.bool_]

LENGTHS = (3, 30)
CIRCLE = " ".join(["round"] * LONG * TIMES)
HELPS = "Here it is."
NOBODYS = "?"


@dataclass(frozen=True)
class TextDefect(Defect):
    """Of a share of the texts of one model on one dataset."""

    model: str
    dataset: str
    share: float

    @property
    def place(self) -> tuple[str, ...]:
        """These answers."""
        return ("answers", self.model, self.dataset)

    def answers(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """Those of this model to this dataset, changed."""
        mine = (answers.model, answers.dataset) == (self.model, self.dataset)
        if not mine or not answers.n:
            return answers
        rows = share_of(answers.n, self.share)
        return each_set(answers, lambda one: self._changed(one, rows, inputs))

    def _changed(self, answers: Predictions, rows: Rows, inputs: Inputs) -> Predictions:
        return answers if answers.texts is None else replace(answers, **self.changes(answers, rows, inputs))

    def changes(self, answers: Predictions, rows: Rows, inputs: Inputs) -> dict[str, Any]:
        """Fields of answers that are others in these rows, shape (n,)."""
        raise NotImplementedError


def _written(answers: Predictions, rows: Rows, text: str) -> dict[str, Any]:
    """One text in place of what was written."""
    return {"texts": np.where(rows, text, np.asarray(answers.texts)).astype(object)}


class CutTexts(TextDefect):
    """Cut off."""

    def changes(self, answers: Predictions, rows: Rows, inputs: Inputs) -> dict[str, Any]:
        """Reasons to stop that say so."""
        if answers.finish_reasons is None:
            return {}
        return {"finish_reasons": np.where(rows, CUT[0], answers.finish_reasons).astype(object)}


class EmptyTexts(TextDefect):
    """Nothing is written."""

    def changes(self, answers: Predictions, rows: Rows, inputs: Inputs) -> dict[str, Any]:
        """Texts without a word."""
        return _written(answers, rows, "")


class LostAnswers(TextDefect):
    """No answer where it should be."""

    def changes(self, answers: Predictions, rows: Rows, inputs: Inputs) -> dict[str, Any]:
        """Answers that are not found."""
        if answers.extracted is None:
            return {}
        extracted = answers.extracted.copy()
        extracted[rows] = None
        return {"extracted": extracted}


class Circles(TextDefect):
    """Texts that run in circles."""

    def changes(self, answers: Predictions, rows: Rows, inputs: Inputs) -> dict[str, Any]:
        """A word again and again."""
        return _written(answers, rows, CIRCLE)


@dataclass(frozen=True)
class OtherLengths(TextDefect):
    """Texts that are so many times as long, or, of a negative number, as short."""

    times: int

    def changes(self, answers: Predictions, rows: Rows, inputs: Inputs) -> dict[str, Any]:
        """Texts and tokens."""
        factor = float(self.times) if self.times > 0 else -1.0 / self.times
        texts = [self._length(text) if row else text for text, row in zip(np.asarray(answers.texts), rows, strict=True)]
        changed = np.empty(answers.n, dtype=object)
        changed[:] = texts
        counts = answers.tokens
        tokens = None if counts is None else np.where(rows, np.round(counts * factor), counts).astype(np.int64)
        return {"texts": changed, "tokens": tokens}

    def _length(self, text: str) -> str:
        words = text.split()
        return " ".join(words * self.times) if self.times > 0 else " ".join(words[: len(words) // -self.times])


class ShorterTexts(OtherLengths):
    """Texts that are so many times as short."""


@dataclass(frozen=True)
class OtherRefusals(TextDefect):
    """Refusals as a pattern finds them, or none; people say the same of those that they look at."""

    refusals: Refusals
    refuses: bool

    def changes(self, answers: Predictions, rows: Rows, inputs: Inputs) -> dict[str, Any]:
        """Texts that the pattern finds, or does not."""
        made = (shortest(one) for one in patterns(self.refusals, inputs))
        text = next((one for one in made if one is not None), None) if self.refuses else HELPS
        return {} if text is None else _written(answers, rows, text)

    def file(self, name: str, path: Path, scratch: Path) -> Path:
        """The audited rows, all of them refusals or none; what text it was is left out."""
        if name != self.refusals.audited:
            return path
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        changed = [
            {key: value for key, value in row.items() if key != LOOKED_AT} | {REFUSED: self.refuses} for row in rows
        ]
        copy = scratch / f"planted-{path.name}"
        copy.write_text("\n".join(json.dumps(row) for row in changed), encoding="utf-8")
        return copy


class LostMass(TextDefect):
    """Hardly any probability is left for the options."""

    def answers(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """Those of this model to this dataset, with a thousandth of it."""
        mine = (answers.model, answers.dataset) == (self.model, self.dataset)
        return each_set(answers, _faint) if mine else answers


def _faint(answers: Predictions) -> Predictions:
    return answers if answers.masses is None else replace(answers, masses=answers.masses / 1000)


class TurnedChoices(TextDefect):
    """Another option is chosen where the options stand in another order than the first."""

    def answers(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """Those of this model to this dataset, with the next option in every other order."""
        if (answers.model, answers.dataset) != (self.model, self.dataset) or answers.classes is None:
            return answers
        return replace(answers, again=tuple(_other(one, share_of(one.n, self.share)) for one in answers.again))


class OtherWording(TextDefect):
    """Wrong where another template of the prompt asks than the first."""

    def answers(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """Those of this model to this dataset, with other answers by every other template."""
        if (answers.model, answers.dataset) != (self.model, self.dataset):
            return answers
        rows = share_of(answers.n, self.share)
        others = tuple(each_set(one, lambda one: _other(one, rows)) for one in answers.by_template)
        return replace(answers, by_template=others)


def _other(answers: Predictions, rows: Rows) -> Predictions:
    """Another answer in these rows, shape (n,): the next option, or a text that is nobody's."""
    if answers.predicted is not None and answers.classes is not None:
        turned = (answers.predicted + 1) % len(answers.classes)
        return replace(answers, predicted=np.where(rows, turned, answers.predicted))
    if answers.texts is None:
        return answers
    lost = None if answers.extracted is None else answers.extracted.copy()
    if lost is not None:
        lost[rows] = None
    return replace(answers, **_written(answers, rows, NOBODYS), extracted=lost)


def planted(check: WrittenAnswers) -> tuple[Defect, ...]:
    """Defects of the texts that a check looks at, mildest first of each kind."""
    return tuple(_planted(check))


def _planted(check: WrittenAnswers) -> Iterator[Defect]:
    model, dataset = check.model, check.dataset
    for share, words in SHARES:
        of = f"{words} of the texts of {model} on {dataset}"
        yield CutTexts(f"{of} are cut off", model, dataset, share)
        yield LostAnswers(f"{of} have no answer in them", model, dataset, share)
        yield EmptyTexts(f"{of} are empty", model, dataset, share)
        yield Circles(f"{of} run in circles", model, dataset, share)
    if check.refusals is not None:
        for refuses, what in ((True, "are refusals"), (False, "are helpful")):
            for share, words in SHARES:
                of = f"{words} of the texts of {model} on {dataset} {what}"
                yield OtherRefusals(of, model, dataset, share, check.refusals, refuses)
    yield TurnedChoices(f"{model} chooses by the place of an option in {dataset}", model, dataset, 1.0)
    yield OtherWording(f"{model} is wrong on {dataset} where another template asks", model, dataset, 1.0)
    yield LostMass(f"{model} gives the options of {dataset} hardly any probability", model, dataset, 1.0)
    for times in LENGTHS:
        yield OtherLengths(f"the texts of {model} on {dataset} are {times} times as long", model, dataset, 1.0, times)
        yield ShorterTexts(f"those of {model} on {dataset} are {times} times as short", model, dataset, 1.0, -times)
