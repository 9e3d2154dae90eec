"""Defects that `evalspec selftest` plants in what a check is handed, to see that its requirements can go red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cells
    from evalspec.language.inputs import Inputs, Predictions, Probe, Samples
    from evalspec.language.likelihoods import TokenLikelihoods

GOLDEN = 0.6180339887498949
"""Multiples of it, less their whole part, fill an interval evenly however many there are."""
SHARES = (
    (0.01, "1 %"), (0.02, "2 %"), (0.03, "3 %"), (0.05, "5 %"), (0.07, "7 %"), (0.1, "a tenth"), (0.15, "15 %"),
    (0.2, "a fifth"), (0.3, "30 %"), (0.4, "40 %"), (0.5, "half"), (0.7, "70 %"), (1.0, "all"),
)  # fmt: skip
"""Strengths of a defect that some of the rows have, mildest first, and their words."""
TIMES = (1.5, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""Strengths of a defect that makes something so many times as long or as much."""


def share_of(count: int, share: float) -> NDArray[np.bool_]:
    """Shape (count,): a share of the rows, spread evenly over whatever order they are in."""
    import numpy as np

    found: NDArray[np.bool_] = np.modf(np.arange(count) * GOLDEN)[0] < share
    return found


@dataclass(frozen=True)
class Defect:
    """A defect in the evidence. A subclass changes one kind of evidence and returns everything else unchanged.

    Defects of one class that differ only in numbers are one defect in several strengths. The selftest uses the mildest
    one that makes a requirement fail.

    Args:
        what: The defect, in words for people: ``a third of the answers is wrong``.
    """

    what: str

    @property
    def place(self) -> tuple[str, ...]:
        """Shared evidence that it changes: ``("answers", model, dataset)`` or ``("rows", dataset)``.

        Empty: it changes evidence of the check itself, such as its timings.
        """
        return ()

    def answers(self, answers: Predictions, inputs: Inputs) -> Predictions:
        """Change answers that existed before the check; ``inputs`` are those of the check."""
        return answers

    def answers_again(self, answers: Predictions, name: str) -> Predictions:
        """Change answers to the rows that the check requested under this name."""
        return answers

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """Change rows of a dataset, not their number, columns or types. ``read`` returns other datasets unchanged."""
        return rows

    def samples(self, samples: Samples) -> Samples:
        """Change timings of one process."""
        return samples

    def probe(self, probe: Probe) -> Probe:
        """Change what a probe found in one process."""
        return probe

    def file(self, name: str, path: Path, scratch: Path) -> Path:
        """A file that a check names: ``path`` itself, or a copy in ``scratch`` with the defect."""
        return path

    def likelihoods(self, found: TokenLikelihoods) -> TokenLikelihoods:
        """Change likelihoods from a language model."""
        return found

    def facts(self, model: str, facts: Cells) -> Cells:
        """Change known facts about a model: its size, its precision."""
        return facts
