"""Defects of answers: wrong ones, too sure ones, wrong for one class or one slice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evalspec.language.defects import Defect, share_of
from evalspec.language.predictions import each_set

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs, Predictions


def wrong(answers: Predictions, rows: NDArray[np.bool_]) -> Predictions:
    """The same answers, wrong in these rows.

    Args:
        answers: Of any task.
        rows: shape (n,).
    """
    import numpy as np

    changes: dict[str, Any] = {}
    if answers.predicted is not None and answers.classes is not None:
        # Away from what is true, or where no truth is known from what was said.
        known = answers.predicted if answers.truth is None else answers.truth
        said = np.where(rows, (known + 1) % len(answers.classes), answers.predicted)
        changes["predicted"] = said
        if answers.probabilities is not None:
            changes["probabilities"] = moved(answers.probabilities, said)
    if answers.values is not None:
        known = answers.values if answers.truth is None else np.asarray(answers.truth, dtype=np.float64)
        changes["values"] = np.where(rows, answers.values + 10.0 * (np.nanstd(known) + 1.0), answers.values)
    if answers.members is not None:
        changes["members"] = np.where(rows[:, None], ~answers.members, answers.members)
        if answers.probabilities is not None:
            changes["probabilities"] = np.where(rows[:, None], 1.0 - answers.probabilities, answers.probabilities)
    changes |= {name: _unlike(getattr(answers, name), rows) for name in ("texts", "extracted")}
    if answers.masks is not None and answers.classes is not None:
        other = (answers.masks + 1) % len(answers.classes)
        changes["masks"] = np.where(rows[:, None, None], other, answers.masks)
    if answers.boxes is not None:
        far = np.where(rows[answers.boxes.row][:, None], answers.boxes.corners + 1e5, answers.boxes.corners)
        changes["boxes"] = replace(answers.boxes, corners=far)
    if answers.embeddings is not None:
        changes["embeddings"] = np.where(rows[:, None], -answers.embeddings, answers.embeddings)
    return replace(answers, **changes)


def _accuracy(answers: Predictions) -> float:
    import numpy as np

    return float(np.mean(np.asarray(answers.predicted) == np.asarray(answers.truth)))


def _some(rows: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
    """A share of the rows of a mask, shape (n,)."""
    chosen = rows.copy()
    chosen[rows] = share_of(int(rows.sum()), share)
    return chosen


def _unlike(written: NDArray[np.object_] | None, rows: NDArray[np.bool_]) -> NDArray[np.object_] | None:
    """Texts that are nobody's answer in these rows; None stays None."""
    import numpy as np

    return None if written is None else np.where(rows, "?", written).astype(object)


def moved(shares: NDArray[np.float64], said: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probabilities, shape (n, C), whose largest is that of ``said``, shape (n,): two of a row change places."""
    import numpy as np

    rows, top = np.arange(len(shares)), shares.argmax(axis=1)
    found = shares.copy()
    found[rows, top], found[rows, said] = shares[rows, said], shares[rows, top]
    return found


@dataclass(frozen=True)
class AnswersDefect(Defect):
    """Of the answers of one model to one dataset."""

    model: str
    dataset: str

    @property
    def place(self) -> tuple[str, ...]:
        """These answers."""
        return ("answers", self.model, self.dataset)

    def answers(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """Those of this model to this dataset, changed."""
        mine = (answers.model, answers.dataset) == (self.model, self.dataset)
        return each_set(answers, lambda one: self.change(one, inputs)) if mine and answers.n else answers

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        raise NotImplementedError


@dataclass(frozen=True)
class WrongAnswers(AnswersDefect):
    """Wrong in a share of the rows."""

    share: float

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        return wrong(answers, share_of(answers.n, self.share))


@dataclass(frozen=True)
class WrongAndUnsure(AnswersDefect):
    """Wrong in a share of the rows, and as much less sure of all: no probability claims more than comes true."""

    share: float

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        import numpy as np

        before, made = answers.probabilities, wrong(answers, share_of(answers.n, self.share))
        if before is None or made.probabilities is None or answers.predicted is None or answers.truth is None:
            return answers
        sure, least = float(before.max(axis=1).mean()), 1.0 / before.shape[1]
        was, now = _accuracy(answers), _accuracy(made)
        right = now / max(was, 1e-9)
        kept = np.clip((sure * right - least) / max(sure - least, 1e-9), 0.02, 1.0)
        return replace(made, probabilities=kept * made.probabilities + (1.0 - kept) * least)


@dataclass(frozen=True)
class ClassLost(AnswersDefect):
    """A share of the rows of one class are given another one."""

    name: str
    share: float = 1.0

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        if answers.predicted is None or answers.classes is None or answers.truth is None:
            return answers
        if self.name not in answers.classes:
            return answers
        return wrong(answers, _some(answers.truth == answers.classes.index(self.name), self.share))


@dataclass(frozen=True)
class RankLost(ClassLost):
    """A share of the rows of the class with the most rows, or with the fewest, are given another one."""

    largest: bool = True

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        import numpy as np

        if answers.predicted is None or answers.classes is None or answers.truth is None:
            return answers
        counts = np.bincount(answers.truth[answers.truth >= 0], minlength=len(answers.classes))
        there = np.flatnonzero(counts)
        if not len(there):
            return answers
        place = there[counts[there].argmax() if self.largest else counts[there].argmin()]
        return wrong(answers, _some(answers.truth == place, self.share))


@dataclass(frozen=True)
class BuriedTruth(AnswersDefect):
    """Truth that is the least likely, in a share of the rows that were wrong before: no answer changes."""

    share: float

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        import numpy as np

        shares, truth = answers.probabilities, answers.truth
        if shares is None or truth is None or answers.predicted is None:
            return answers
        rows = np.flatnonzero(_some(np.asarray(answers.predicted != truth), self.share))
        least = shares[rows].argmin(axis=1)
        buried = shares.copy()
        buried[rows, least], buried[rows, truth[rows]] = shares[rows, truth[rows]], shares[rows, least]
        return replace(answers, probabilities=buried)


@dataclass(frozen=True)
class OffValues(AnswersDefect):
    """Every value is off by so many standard deviations of the truth, up and down in turn."""

    deviations: float

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        import numpy as np

        if answers.values is None or answers.truth is None:
            return answers
        off = self.deviations * float(np.nanstd(np.asarray(answers.truth, dtype=np.float64)))
        side = np.where(share_of(answers.n, 0.5), 1.0, -1.0)
        return replace(answers, values=answers.values + off * side)


@dataclass(frozen=True)
class SliceLost(AnswersDefect):
    """Wrong in a share of the rows of one slice of the spec."""

    name: str
    share: float = 1.0

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        return wrong(answers, _some(inputs.slice_mask(self.name, answers.dataset).inside, self.share))


@dataclass(frozen=True)
class TooSure(AnswersDefect):
    """Nearly all of the probability is on what was said, though not more of it is right."""

    sure: float

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        import numpy as np

        changes: dict[str, Any] = {}
        if answers.lower is not None and answers.upper is not None and answers.values is not None:
            changes = {"lower": answers.values, "upper": answers.values}
        if answers.probabilities is not None and answers.predicted is not None:
            count = answers.probabilities.shape[1]
            # The order of the rows by how sure they are stays: a share of what was there is kept.
            # What was said stays the likeliest.
            sure = max(self.sure, 1.02 / count)
            near = np.full_like(answers.probabilities, (1.0 - sure) / max(1, count - 1))
            near[np.arange(answers.n), answers.predicted] = sure
            changes["probabilities"] = 0.99 * near + 0.01 * answers.probabilities
        return replace(answers, **changes)


class HardlySure(TooSure):
    """Hardly more of it than on any other class."""


@dataclass(frozen=True)
class AllRight(AnswersDefect):
    """Every answer is the true one: a test set that tells models apart no more."""

    def change(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """The answers with the defect."""
        if answers.truth is None or answers.predicted is None:
            return answers
        shares = None if answers.probabilities is None else moved(answers.probabilities, answers.truth)
        return replace(answers, predicted=answers.truth, probabilities=shares)


@dataclass(frozen=True)
class WrongAgain(Defect):
    """Wrong answers, in a share of the rows, where a check asks about rows that it made."""

    model: str
    share: float

    def answers_again(self, answers: Predictions, name: str) -> Predictions:
        """Those of this model, changed."""
        return wrong(answers, share_of(answers.n, self.share)) if answers.model == self.model else answers
