"""The last line of a log."""

from __future__ import annotations

from pathlib import Path

from evalspec.logs import LONGEST, last_line


def test_the_last_line_that_says_something(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" * 10_000 + b"  the weights are gone \xff \n\n")
    assert last_line(log) == "the weights are gone \N{REPLACEMENT CHARACTER}"


def test_a_long_line_is_shortened(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 10_000)
    assert last_line(log) == "x" * LONGEST


def test_nothing_was_written(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n\n")
    assert last_line(tmp_path / "log") == last_line(tmp_path / "none") == ""
