"""Digests of artifacts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from evalspec.errors import InputError
from evalspec.pipeline.digest import artifact_digest, file_digest
from evalspec.runtimes.guards.observe import precision_of, size_bytes


def test_one_file_has_the_sum_that_everybody_computes(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"weights")
    assert file_digest(tmp_path / "m") == artifact_digest([tmp_path / "m"]) == hashlib.sha256(b"weights").hexdigest()


def test_several_files_count_with_their_names_and_borders(tmp_path: Path) -> None:
    def made(name: str, **files: bytes) -> str:
        folder = tmp_path / name
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        return artifact_digest([folder / file for file in reversed(files)])

    one = made("one", a=b"12", b=b"3")
    assert made("moved", a=b"12", b=b"3") == one
    assert (
        len({one, made("border", a=b"1", b=b"23"), made("name", a=b"12", c=b"3"), made("swap", a=b"3", b=b"12")}) == 4
    )
    assert artifact_digest([tmp_path / "one"]) == one
    assert size_bytes([tmp_path / "one" / "a", tmp_path / "one" / "b"]) == 3


def test_what_a_link_in_a_folder_leads_to_counts(tmp_path: Path) -> None:
    """What loads weights from a folder follows links in it; one that leads back ends nothing."""
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "config").write_bytes(b"{}")
    (tmp_path / "named" / "shards").symlink_to("../real")
    (tmp_path / "real" / "deep" / "back").symlink_to("../..")
    found = set()
    for content in (b"1", b"2"):
        (tmp_path / "real" / "deep" / "weights").write_bytes(content)
        found.add(artifact_digest([tmp_path / "named"]))
    assert len(found) == 2


def test_nothing_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no files to digest"):
        artifact_digest([])
    with pytest.raises(InputError, match=r"'absent' can't be read: No such file"):
        file_digest(tmp_path / "absent")


@pytest.mark.parametrize(
    ("counts", "precision"),
    [
        ({"float32": 100}, "fp32"),
        ({"int8": 95, "float32": 5}, "int8"),
        ({"int8": 60, "float32": 40}, "mixed"),
        ({"uint8": 50, "int8": 50}, "int8"),
        ({"float16": 10}, "fp16"),
        ({"float8_e4m3fn": 10, "float8e5m2": 10}, "fp8"),
        ({"int64": 10}, None),
        ({}, None),
    ],
)
def test_the_precision_of_weights(counts: dict[str, int], precision: str | None) -> None:
    assert precision_of(counts) == precision
