"""Templates that were compiled once are read, and never those of something else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from evalspec.report.compiled_templates import CompiledTemplates


def rendered(folder: Path, text: str, settings: bytes = b"") -> str:
    made = Environment(
        loader=DictLoader({"a": text}), bytecode_cache=CompiledTemplates(folder, settings), autoescape=True
    )
    return made.get_template("a").render(x="<b>")


@pytest.fixture(autouse=True)
def _written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def test_what_was_compiled_is_taken_until_the_text_or_the_settings_change(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    assert rendered(folder, "1 {{ x }}") == "1 &lt;b&gt;"
    (kept,) = folder.iterdir()
    first = kept.stat().st_mtime_ns, kept.read_bytes()
    assert rendered(folder, "1 {{ x }}") == "1 &lt;b&gt;" and (kept.stat().st_mtime_ns, kept.read_bytes()) == first
    assert rendered(folder, "2 {{ x }}") == "2 &lt;b&gt;" and list(folder.iterdir()) == [kept]
    assert rendered(folder, "2 {{ x }}", b"other") == "2 &lt;b&gt;" and len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_that_is_cut_is_made_again(tmp_path: Path, share: float) -> None:
    rendered(tmp_path, "1 {{ x }}")
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[: int(share * len(whole))])
    assert rendered(tmp_path, "1 {{ x }}") == "1 &lt;b&gt;" and kept.read_bytes() == whole


def test_wherever_it_is_cut(tmp_path: Path) -> None:
    """In its head, in the digest of the text, in the code."""
    rendered(tmp_path, "1 {{ x }}")
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    for end in range(100):
        kept.write_bytes(whole[:end])
        assert rendered(tmp_path, "1 {{ x }}") == "1 &lt;b&gt;", end
    kept.write_bytes(whole)
    assert kept.stat().st_mode & 0o444 == 0o444


def test_where_nothing_can_be_kept_templates_are_compiled_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert rendered(tmp_path / "file", "1 {{ x }}") == "1 &lt;b&gt;"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered(tmp_path / "kept", "1 {{ x }}") == "1 &lt;b&gt;" and not (tmp_path / "kept").exists()
