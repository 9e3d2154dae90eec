"""The rows of a dataset as a run first read them, in a file without a name that its children map."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BYTES = 256 * 2**20
"""Largest size of a dataset that is kept; a larger one is read from its source by each child."""
DESCRIPTORS = Path("/proc/self/fd")


def unnamed_file(folder: Path) -> tuple[IO[bytes], Path] | None:
    """A file that is gone when this process is, however it ends.

    Args:
        folder: On whose disk it lies.

    Returns:
        The file, which is to be kept open, and where other processes of the same user find it meanwhile; None where
        the system or the disk gives none.
    """
    if not DESCRIPTORS.is_dir():
        return None
    try:
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the caller keeps it open
    except OSError:
        return None
    return file, Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")


class RowsWriter:
    """Writes rows that go by; gives up on what is too large, does not fit on the disk, or changes its types midway."""

    def __init__(self, path: Path | None) -> None:
        """``path`` names an existing file; with None nothing is written."""
        self._path = path
        self._sink: pa.OSFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._bytes = 0

    def update(self, batch: pa.RecordBatch) -> None:
        """Write the next rows."""
        import pyarrow as pa

        if self._path is None or not batch.num_rows:
            return
        self._bytes += batch.get_total_buffer_size()
        if self._bytes > MOST_BYTES:
            self._give_up()
            return
        try:
            if self._writer is None:
                self._sink = pa.OSFile(str(self._path), "wb")
                self._writer = pa.ipc.new_stream(self._sink, batch.schema)
            self._writer.write_batch(batch)
        except (OSError, pa.ArrowInvalid):
            self._give_up()

    def end(self) -> bool:
        """True where all rows are in the file, which is closed."""
        import pyarrow as pa

        if self._path is None or self._writer is None or self._sink is None:
            return False
        try:
            self._writer.close()
            self._sink.close()
        except (OSError, pa.ArrowInvalid):
            self._give_up()
        return self._path is not None

    def _give_up(self) -> None:
        path, self._path = self._path, None
        for one in (self._writer, self._sink):
            with contextlib.suppress(Exception):
                if one is not None:
                    one.close()
        if path is not None:
            with contextlib.suppress(OSError):
                os.truncate(path, 0)


def open_rows(path: Path) -> pa.Table:
    """Rows that `RowsWriter` wrote, without a copy of them in memory."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all()
