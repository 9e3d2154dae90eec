"""Detectors of `contamination` beside text and numbers: pictures, embeddings, keys; and the consequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from evalspec.checks.data.contamination.prompts import METRIC as IN_PROMPT
from evalspec.checks.data.contamination.prompts import prompt_rows
from evalspec.checks.data.contamination.recitation import METRIC as RECITED
from evalspec.checks.data.contamination.recitation import longest_column, recited_rows
from evalspec.checks.data.contamination.row_order import row_order
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.reasons import NoEvidence
from evalspec.scoring.scored_rows import scored

if TYPE_CHECKING:
    from evalspec.checks.data.contamination.spec import Contamination
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.language.inputs import Inputs


def further_detectors(check: Contamination, inputs: Inputs, asked: TestSide) -> list[Detector]:
    """Detectors for what the spec names and the columns allow.

    Args:
        check: Its fields.
        inputs: What it is handed.
        asked: The test side.

    Raises:
        InputError: A model gives no embeddings.
    """
    found: list[Detector] = []
    for column in asked.columns:
        if holds_pictures(asked.table.column(column)):
            found.append(PictureDetector(asked, column, check.picture_similarity))
    if check.keys:
        found.append(KeyDetector(asked, check.keys))
    if check.embedding is not None:
        found.append(EmbeddingDetector(inputs, asked, check.embedding, check.embedding_similarity))
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
    """Blocks on embeddings of independent rows beside those that match."""
    return tuple(one.table() for one in detectors if isinstance(one, EmbeddingDetector))


def further_notes(detectors: Sequence[Detector]) -> tuple[str, ...]:
    """Notes on what was not looked at, and on what the reader should know of it."""
    kinds = PictureDetector | EmbeddingDetector | KeyDetector
    return tuple(note for one in detectors if isinstance(one, kinds) for note in one.notes)


@dataclass(slots=True)
class LanguageModel:
    """Metrics of the language model that is asked: what its prompt holds, and what it recites.

    Args:
        estimates: By metric.
        missing: Metric: why it can't be told.
        blocks: Rows beside what they stand in.
        notes: What could not be looked at.
        weakens: That the order of the rows gives it away.
    """

    estimates: dict[str, Fact | Estimate] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    blocks: list[AnyBlock] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    weakens: list[str] = field(default_factory=list)


def language_model(check: Contamination, inputs: Inputs) -> LanguageModel:
    """Search the prompt of a model, and let one go on with rows, where the spec names them.

    Args:
        check: Its fields.
        inputs: What it is handed.
    """
    found = LanguageModel()
    if check.prompts is not None:
        try:
            stands = prompt_rows(check, inputs)
            found.estimates[IN_PROMPT] = stands.fact(check.prompts)
            found.blocks += stands.shown() if check.show_examples else ()
        except NotRunError as reason:
            found.missing[IN_PROMPT] = str(reason)
    if check.recite is not None:
        try:
            recited = recited_rows(check, inputs)
            found.estimates[RECITED] = recited.share()
            found.blocks.append(recited.table())
            found.blocks += recited.shown() if check.show_examples else ()
        except NotRunError as reason:
            found.missing[RECITED] = str(reason)
    if check.shuffles:
        _look_at_order(check, inputs, found)
    return found


def _look_at_order(check: Contamination, inputs: Inputs, found: LanguageModel) -> None:
    """Add whether the model knows the order of the rows."""
    assert check.recite is not None
    sent, table = inputs.sent_texts(check.recite), inputs.table(check.test)
    try:
        columns = list(check.named) if sent is None else [longest_column(check, table, sent)]
        if len(columns) != 1:
            raise NotRunError(f"the order of {check.test} is that of one text: name it in `column:`")
        order = row_order(check, inputs, [str(one or "") for one in table.column(columns[0]).to_pylist()])
    except NotRunError as reason:
        found.notes.append(f"Not checked: {reason}.")
        return
    found.blocks.append(order.table())
    found.weakens += order.suspicion


def consequence(check: Contamination, inputs: Inputs, asked: TestSide, levels: Sequence[Level]) -> CleanScore:
    """Score of the model without the rows that are copies.

    Neighbours in embeddings and shared keys are no copies: they stand in the table, and count nowhere.

    Args:
        check: Its fields.
        inputs: What it is handed.
        asked: The test side.
        levels: What was found.

    Raises:
        InputError: The answers can't be scored.
    """
    if check.predictions is None:
        return CleanScore()
    dirty = contaminated(tuple(one for one in levels if one.metric in COPIES), len(asked.usable)) & asked.usable
    ways: dict[str, Mask] = {}
    for one in levels:
        ways[one.title] = ways.get(one.title, False) | one.rows
    rows = scored(
        inputs,
        asked.name,
        check.predictions,
        positive=check.positive,
        decision_threshold=check.decision_threshold,
    )
    return clean_score(inputs, rows, check.metric_, dirty, ways)
