"""The log of a load tool: one request a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from evalspec.errors import InputError
from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Dataset
from evalspec.sources.reading.files import check_format, one_file, shown
from evalspec.sources.reading.table import SMALL_BYTES, small_header
from evalspec.sources.request_logs.aiperf import read_aiperf
from evalspec.sources.request_logs.guidellm import read_guidellm
from evalspec.sources.request_logs.inference_perf import read_inference_perf
from evalspec.sources.request_logs.request import COLUMNS, Request, table_of
from evalspec.sources.request_logs.vllm import read_vllm


class RequestLog(Dataset):
    """Requests that a load tool logged, one a row, in the order in which they were sent where it says when.

    Columns: ``sent_s``, ``wait_ms`` (from when it was due), ``ttft_ms``, ``tpot_ms``, ``latency_ms`` (all from when it
    was sent), ``output_tokens``, ``other_tokens`` (a second count), ``finish_reason``, ``failed``; empty where the tool
    does not say.
    """

    kind: Literal["request_log"] = "request_log"
    path: str = Field(description="The file.")
    format: Literal["aiperf", "vllm", "guidellm", "inference_perf"] = Field(description="The tool that wrote the log.")
    benchmark: int | None = Field(None, ge=0, description="guidellm: which benchmark of the report, counted from 0.")

    @model_validator(mode="after")
    def _fits_format(self) -> Self:
        if self.benchmark is not None and self.format != "guidellm":
            raise ValueError("`benchmark` belongs to `format: guidellm`")
        return self

    def files(self, access: Access) -> tuple[Path, ...]:
        """The file.

        Raises:
            InputError: It is missing or empty.
        """
        return (one_file(access, self.path, self.kind),)

    def header(self, access: Access) -> Header:
        """Columns; rows too where the file is under 8 MiB.

        Raises:
            InputError: Missing, empty or of another format.
        """
        path = self._checked(access)
        small = small_header(self, access, path) if path.stat().st_size <= SMALL_BYTES else None
        return small or Header(rows=None, columns={name: str(kind) for name, kind in COLUMNS.items()})

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All requests, these columns.

        Raises:
            InputError: As `header`, or a column isn't there.
        """
        path = self._checked(access)
        try:
            content = path.read_bytes()
        except (OSError, MemoryError) as error:
            raise InputError(f"{shown(access, path)} can't be read: {error}") from error
        requests = self._requests(content, shown(access, path))
        return table_of(requests, shown(access, path)).select(choose(columns, tuple(COLUMNS), repr(self.path)))

    def _requests(self, content: bytes, what: str) -> list[Request]:
        if self.format == "guidellm":
            return read_guidellm(content, what, self.benchmark)
        return {"aiperf": read_aiperf, "vllm": read_vllm, "inference_perf": read_inference_perf}[self.format](
            content, what
        )

    def _checked(self, access: Access) -> Path:
        path = one_file(access, self.path, self.kind)
        check_format(access, path, self.kind, text=True)
        return path
