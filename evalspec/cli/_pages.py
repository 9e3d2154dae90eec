"""Pages that a command writes beside runs: their names, and the way from them to the reports."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from evalspec.errors import SpecError

SUFFIX = ".html"


def write_page(output: Path, page: str) -> None:
    """Write a page.

    Raises:
        SpecError: The name is not that of a page.
        WriteError: It can't be written.
    """
    from evalspec.running.files import write_atomically

    check_page(output)
    write_atomically(output, page)


def check_page(output: Path) -> None:
    """Refuse a name that no browser would open as a page.

    Raises:
        SpecError: It does not end in ``.html``.
    """
    if output.suffix.lower() != SUFFIX:
        raise SpecError(f"--output {output} is not a page; name a file that ends in {SUFFIX}")


def report_link(page: Path, run: Path) -> str:
    """The way from a page to the report of a run; empty where there is no report."""
    from evalspec.running.folders import folder_of

    report = folder_of(run) / "report.html"
    if not report.is_file():
        return ""
    try:
        return quote(Path(os.path.relpath(report.resolve(), page.resolve().parent)).as_posix())
    except ValueError:
        return ""
