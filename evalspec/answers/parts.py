"""Answers to a large dataset in parts: a file for each leaf of its rows, and one that lists them with their digests.

The list stands where a single file of answers would, and its digest stands for all of them: it holds rows and sha256 of
each part. The parts lie in a folder beside it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.arrow import read_parquet
from evalspec.errors import RecordError

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.parts import Model

META_KEY = b"evalspec"
PARTS = "parts"
"""Field of what is said beside the rows of a list: how many parts there are."""
ANSWER_ROWS = 2**16
"""Rows of a part, but for the multiple of a batch."""
MOST_PARTS = 1024
"""Where there would be more, parts are twice as long, as often as it takes."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """Answers to some rows that follow each other, in a file of their own.

    Args:
        first_row: Number of the first of them.
        rows: How many.
        sha256: Of the file.
        cpu: Kind of the processor that answered.
    """

    first_row: int
    rows: int
    sha256: str
    cpu: str


def rows_of_a_part(rows: int, batch: int) -> int:
    """Rows of each part but the last: a multiple of a batch, so that batches are those of a single file.

    Args:
        rows: Of the dataset.
        batch: Rows that the model answers at once.
    """
    size = ANSWER_ROWS
    while size * MOST_PARTS < rows:
        size *= 2
    return -(-size // batch) * batch


def by_rows(model: Model) -> bool:
    """True if a row has one answer, which any process gives that has loaded the model."""
    once = model.samples == model.templates == model.orders == 1
    return model.timed and once and not (model.served or model.sampled or model.chooses or model.writes_texts)


def part_path(answers: Path, number: int) -> Path:
    """File of a part.

    Args:
        answers: The list.
        number: Of the part.
    """
    return answers.with_suffix("") / f"part-{number:05}.parquet"


def parts_of(path: Path) -> tuple[AnswerPart, ...]:
    """The parts of answers; none where they are a single file.

    Raises:
        RecordError: The list can't be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Of a single file no more than its foot is read.
        told = json.loads(pq.read_schema(path).metadata[META_KEY])
        return _listed(read_parquet(path)) if PARTS in told else ()
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        if not path.with_suffix("").is_dir():
            return ()
        raise RecordError(f"the list of parts {path} can't be read: {error}") from error


def _listed(table: pa.Table) -> tuple[AnswerPart, ...]:
    return tuple(AnswerPart(**row) for row in table.to_pylist())


def write_list(path: Path, parts: Sequence[AnswerPart], told: Mapping[str, Any]) -> None:
    """Write the list of all parts; it appears whole or not at all.

    Args:
        path: Of the list.
        parts: In the order of their rows.
        told: What stands beside the rows of a single file.

    Raises:
        OSError: It can't be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [("first_row", pa.int64()), ("rows", pa.int64()), ("sha256", pa.string()), ("cpu", pa.string())]
    meta = {**told, "n": sum(one.rows for one in parts), PARTS: len(parts)}
    schema = pa.schema(kinds, metadata={META_KEY: json.dumps(meta).encode()})
    partial = path.with_name(path.name + ".partial")
    pq.write_table(pa.Table.from_pylist([asdict(one) for one in parts], schema), partial)
    partial.replace(path)


def fault_of(answers: Path, number: int, part: AnswerPart) -> str | None:
    """Why a part is not the one that was written, in words; None: it is.

    Args:
        answers: The list.
        number: Of the part.
        part: As the list has it.
    """
    path = part_path(answers, number)
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"{_name(path)} can't be read: {error.strerror or error}"
    return None if digest == part.sha256 else f"{_name(path)} has changed since it was written"


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def first_fault(answers: Path) -> str | None:
    """The first part of answers that is not the one that was written, in words; None: all are, or there are none.

    Args:
        answers: The list, or a single file.
    """
    try:
        faults = (fault_of(answers, number, part) for number, part in enumerate(parts_of(answers)))
        return next((fault for fault in faults if fault is not None), None)
    except RecordError as error:
        return str(error)


def whole(path: Path, listed: pa.Table) -> pa.Table:
    """Rows of all parts, one after the other.

    Args:
        path: Of the list.
        listed: Its rows.

    Raises:
        RecordError: A part is missing, was changed, or has other rows than the list says.
    """
    import io

    import pyarrow as pa

    tables, first = [], 0
    for number, part in enumerate(_listed(listed)):
        place = part_path(path, number)
        try:
            data = place.read_bytes()
            if hashlib.sha256(data).hexdigest() != part.sha256:
                raise RecordError(f"the answers in {place} have changed since they were written")
            tables.append(read_parquet(io.BytesIO(data)).replace_schema_metadata(None))
        except (OSError, pa.ArrowException) as error:
            raise RecordError(f"the answers in {place} can't be read: {error}") from error
        if (part.first_row, part.rows) != (first, tables[-1].num_rows):
            raise RecordError(f"the answers in {place} are to other rows than {path.name} says")
        first += part.rows
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise RecordError(f"the parts of {path} don't go together: {error}") from error


def copy_answers(source: Path, target: Path) -> None:
    """Copy answers, with their parts where they have some.

    Raises:
        OSError: They can't be copied.
    """
    if part_path(source, 0).is_file():
        shutil.rmtree(target.with_suffix(""), ignore_errors=True)
        shutil.copytree(source.with_suffix(""), target.with_suffix(""))
    shutil.copyfile(source, target)
