"""What `contamination` looks for beside text and numbers: pictures, embeddings, keys; and the consequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.checks.data.contamination.clean_score import CleanScore, clean_score
from evalspec.checks.data.contamination.detector import (
    COPIES,
    Detector,
    Level,
    Mask,
    TestSide,
    contaminated,
    first_found,
)
from evalspec.checks.data.contamination.embeddings import METRIC as NEIGHBOURS
from evalspec.checks.data.contamination.embeddings import EmbeddingDetector
from evalspec.checks.data.contamination.keys import METRIC as KEYS
from evalspec.checks.data.contamination.keys import KeyDetector
from evalspec.checks.data.contamination.picture_columns import holds_pictures
from evalspec.checks.data.contamination.pictures import PictureDetector
from evalspec.evidence.estimate import Fact, Measured
from evalspec.evidence.reasons import NoEvidence
from evalspec.scoring.scored_rows import scored

if TYPE_CHECKING:
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.language.inputs import Inputs


@dataclass(frozen=True, slots=True)
class Further:
    """What else the spec asks for.

    Args:
        key: Columns that together name a row; empty: none.
        predictions: Model whose answers are scored on clean and on other rows, or None.
        metric: What they are scored by.
        positive: Class that binary metrics are about; None: the second of two.
        decision_threshold: Probability from which on it is predicted; None: the most probable class is.
        embedding: Model that gives embeddings, or None.
        embedding_similarity: Cosine from which on rows are neighbours.
        picture_similarity: Correlation from which on pictures look the same.
    """

    key: tuple[str, ...] = ()
    predictions: str | None = None
    metric: str = "accuracy"
    positive: str | None = None
    decision_threshold: float | None = None
    embedding: str | None = None
    embedding_similarity: float = 0.95
    picture_similarity: float = 0.95


def further_detectors(inputs: Inputs, asked: TestSide, further: Further) -> list[Detector]:
    """Detectors for what the spec names and the columns allow.

    Args:
        inputs: What the check is handed.
        asked: The test side.
        further: What the spec asks for.

    Raises:
        InputError: A model gives no embeddings.
    """
    found: list[Detector] = []
    for column in asked.columns:
        if holds_pictures(asked.table.column(column)):
            found.append(PictureDetector(asked, column, further.picture_similarity))
    if further.key:
        found.append(KeyDetector(asked, further.key))
    if further.embedding is not None:
        found.append(EmbeddingDetector(inputs, asked, further.embedding, further.embedding_similarity))
    return found


def further_facts(levels: Sequence[Level], usable: Mask, detectors: Sequence[Detector]) -> dict[str, Fact | Measured]:
    """Rows that share a key, and the share of rows with a neighbour.

    Args:
        levels: What was found.
        usable: shape (m,), test rows that hold something to compare.
        detectors: What looked.
    """
    facts: dict[str, Fact | Measured] = {}
    keys = next((one for one in detectors if isinstance(one, KeyDetector)), None)
    for level in levels:
        if level.metric == KEYS:
            among = len(usable) if keys is None else keys.named
            first = first_found([level], usable | level.rows)
            counted = Fact(float(level.rows.sum()), among, level.method, first=first)
            why = None if keys is None else keys.unknown
            facts[KEYS] = counted if why is None else Measured(counted, withhold=NoEvidence(why))
        elif level.metric == NEIGHBOURS:
            first = first_found([level], usable | level.rows)
            method = f"counted: {level.method}"
            facts[NEIGHBOURS] = Fact(float(level.rows.mean()), len(usable), method, first=first)
    return facts


def further_blocks(detectors: Sequence[Detector]) -> tuple[AnyBlock, ...]:
    """What embeddings of independent rows look like beside those found."""
    return tuple(one.table() for one in detectors if isinstance(one, EmbeddingDetector))


def further_notes(detectors: Sequence[Detector]) -> tuple[str, ...]:
    """What was not looked at, and what the reader should know of it."""
    kinds = PictureDetector | EmbeddingDetector | KeyDetector
    return tuple(note for one in detectors if isinstance(one, kinds) for note in one.notes)


def consequence(inputs: Inputs, asked: TestSide, levels: Sequence[Level], further: Further) -> CleanScore:
    """What the model scores without the rows that were found to be copies.

    Neighbours in embeddings and shared keys are no copies: they stand in the table, and count nowhere.

    Args:
        inputs: What the check is handed.
        asked: The test side.
        levels: What was found.
        further: What the spec asks for.

    Raises:
        InputError: The answers can't be scored.
    """
    if further.predictions is None:
        return CleanScore()
    dirty = contaminated(tuple(one for one in levels if one.metric in COPIES), len(asked.usable)) & asked.usable
    ways: dict[str, Mask] = {}
    for one in levels:
        ways[one.title] = ways.get(one.title, False) | one.rows
    rows = scored(
        inputs,
        asked.name,
        further.predictions,
        positive=further.positive,
        decision_threshold=further.decision_threshold,
    )
    return clean_score(inputs, rows, further.metric, dirty, ways)
