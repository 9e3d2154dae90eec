"""Pictures of the test set that training shows too: encoded again, resized, brightened."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from evalspec.checks.data.contamination.detector import Level, RowPair, TestSide
from evalspec.checks.data.contamination.examples import PAIRS_SHOWN, SIDE_SHOWN, example, with_fields
from evalspec.checks.data.contamination.picture_columns import shown_pixels, sign
from evalspec.evidence.blocks import Example
from evalspec.scoring.thumbnails import picture, png
from evalspec.stats.sets.perceptual import FURTHEST, SIDE, PictureSearch

KIND, TITLE = "picture", "alike"
MUCH = 0.01
"""Share of look-alikes among the test pictures themselves above which the limit says little."""


@dataclass
class _Kept:
    """Pictures kept of one training set.

    Args:
        search: The closest training picture of each test picture.
        shown: Test row: the training row, and a table of it alone.
    """

    search: PictureSearch
    shown: dict[int, tuple[int, pa.Table]] = field(default_factory=dict)


class PictureDetector:
    """Test pictures that look the same as one in training; a `Detector`.

    Args:
        asked: The test side.
        column: A column of pictures.
        similarity: Least correlation of the pixels at 32 x 32.
    """

    def __init__(self, asked: TestSide, column: str, similarity: float) -> None:
        self._asked, self._column, self._similarity = asked, column, similarity
        self._ours, self._span = sign(asked.table, column, 0.0)
        self._among = PictureSearch(self._ours, similarity)
        self._among.add(self._ours, same=True)
        self._sets: dict[str, _Kept] = {}
        self._now = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are compared and shown."""
        return self._asked.named

    @property
    def metric(self) -> str:
        """Pictures alone make rows near; beside other columns each of those must be near too, so nothing is counted."""
        return "near_duplicates" if len(self._asked.columns) == 1 else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was not looked at, and that pictures look alike anyway."""
        flat, test = int((self._ours.flat & self._asked.usable).sum()), self._asked.name
        found = (
            [f"{flat:,} pictures of {test} are missing or of one tone: only exact copies are found."] if flat else []
        )
        if self.chance > MUCH:
            found.append(
                f"{100 * self.chance:.3g} % of the pictures of {test} look like a different one of {test}: if these "
                f"are not copies, raise `picture_similarity:` (here {self._similarity:g})."
            )
        return tuple(found)

    @property
    def chance(self) -> float:
        """Share of test pictures that look the same as another test picture: what the limit means here."""
        return float((self._among.train_row >= 0).mean()) if len(self._ours) else 0.0

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        self._now = train_set
        self._sets[train_set] = _Kept(PictureSearch(self._ours, self._similarity))

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Look at some training pictures; a column that holds none, or smaller ones, is passed over.

        Raises:
            InputError: Bytes are no picture that can be read.
        """
        kept = self._sets[self._now]
        kept.search.add(sign(rows, self._column, self._span)[0], first_row)
        here = kept.search.train_row - first_row
        for row in np.flatnonzero((here >= 0) & (here < rows.num_rows)).tolist():
            if row in kept.shown or len(kept.shown) < PAIRS_SHOWN:
                kept.shown[row] = (first_row + int(here[row]), rows.take(pa.array([here[row]])))

    def levels(self) -> tuple[Level, ...]:
        """One: the test pictures that look the same as one in training."""
        rows = {name: kept.search.train_row for name, kept in self._sets.items()}
        found = {name: row >= 0 for name, row in rows.items()}
        return (
            Level(
                kind=KIND,
                metric=self.metric,
                title=TITLE,
                rows=np.asarray(np.logical_or.reduce([np.zeros(len(self._ours), bool), *found.values()])),
                in_set=found,
                train_row=rows,
                closeness={name: kept.search.closeness for name, kept in self._sets.items()},
                method=(
                    f"pictures whose perceptual hashes of 64 bits differ in {FURTHEST} at most (each such pair is "
                    f"compared) and whose pixels at {SIDE} x {SIDE} correlate by {self._similarity:g} at least; "
                    f"{100 * self.chance:.3g} % of the test pictures look like another test picture"
                ),
            ),
        )

    def pairs(self) -> tuple[RowPair, ...]:
        """Thumbnails side by side."""
        made = []
        for name, kept in self._sets.items():
            for row, (train_row, theirs) in sorted(kept.shown.items()):
                alike = {"correlation": round(float(kept.search.closeness[row]), 4)}
                ours = self._asked.table.slice(row, 1)
                left = with_fields(example(self._asked, self._asked.table, row, TITLE), alike)
                right = with_fields(example(self._asked, theirs, 0, TITLE, name=name, number=train_row), alike)
                both = [_with_picture(left, ours, self._column), _with_picture(right, theirs, self._column)]
                made.append(RowPair(KIND, row, name, train_row, both[0], both[1]))
        return tuple(made)


def _with_picture(one: Example, rows: pa.Table, column: str) -> Example:
    """The same with a thumbnail of a picture that is a file in bytes; the bytes themselves say nothing."""
    pixels = shown_pixels(rows, column)
    small = None if pixels is None else picture(pixels)
    if small is None:
        return one
    step = -(-max(small.shape[:2]) // SIDE_SHOWN)
    fields = {name: value for name, value in one.fields.items() if name != column}
    return one.model_copy(update={"image": png(small[::step, ::step]), "fields": fields})
