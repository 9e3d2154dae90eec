"""Answers to some rows of a dataset, in the process that holds the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.answers.again import ROWS, UNLIKE, otherwise, rows_again
from evalspec.arrow import column_of
from evalspec.errors import WorkerError
from evalspec.running.children.messages import BLOCKS, Message
from evalspec.running.engines.node import cpu

if TYPE_CHECKING:
    from evalspec.language.parts.dataset import Between
    from evalspec.pipeline.serve import Served


def part_of(between: Between, served: Served, question: Message) -> Message:
    """A part: its file as bytes, and what is said beside.

    Some of its rows are asked a second time, those of the dataset that a single process would ask again.

    Args:
        between: Reads rows by their numbers.
        served: The model.
        question: Its ``start``, ``stop``, and the ``rows`` of the dataset.

    Raises:
        InputError: As of `evalspec.pipeline.serve.Served.predict_all`.
    """
    import pyarrow as pa

    from evalspec.answers.file import as_bytes, told_beside

    start, stop = int(question["start"]), int(question["stop"])
    table = pa.Table.from_batches(list(between(start, stop)))
    answers = served.predict_all(table, first_row=start)
    facts = {name: answers.details[name] for name in ("batch", "padded_rows") if name in answers.details}
    answers = replace(answers, details={})
    rows = rows_again(int(question["rows"]))
    rows = rows[(rows >= start) & (rows < stop)] - start
    if len(rows):
        facts |= {ROWS: len(rows), UNLIKE: otherwise(answers, rows, served.predict_all(table.take(column_of(rows))))}
    return {"rows": answers.n, "told": told_beside(answers), "facts": facts, "cpu": cpu(), BLOCKS: [as_bytes(answers)]}


def write_the_list(question: Message) -> Message:
    """Write the list of all parts.

    Args:
        question: File to write (``out``), the ``parts``, and what is ``told`` beside them.

    Raises:
        WorkerError: It can't be written.
    """
    from evalspec.answers.parts import AnswerPart, write_list

    path = Path(question["out"])
    try:
        write_list(path, [AnswerPart(**one) for one in question["parts"]], question["told"])
    except OSError as error:
        raise WorkerError(f"{path} can't be written: {error.strerror or error}") from error
    return {}
