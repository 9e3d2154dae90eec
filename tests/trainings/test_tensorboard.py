"""Event files of TensorBoard: as their writers write them, torn, damaged, and in folders."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.trainings.reading.frames import masked_sum
from tests.trainings.events import START_S, crc32c, event, field, frame, masked, simple, tensor, write_events
from tests.trainings.logs import curve
from tests.trainings.test_kinds import refused, rows, training

NAME = "events.out.tfevents.1726000000.host.1.0"


def values(folder: Path, *events: bytes, **fields: Any) -> dict[str, list[float]]:
    """Values by tag of a file with these events."""
    (folder / NAME).write_bytes(b"".join(frame(one) for one in events))
    found: dict[str, list[float]] = {}
    for row in rows(folder, "tensorboard", path=NAME, **fields):
        found.setdefault(row["metric"], []).append(row["value"])
    return found


def test_sums_are_those_of_rfc_3720() -> None:
    """B.4, and the check value of CRC-32C; both ways to compute it agree."""
    known = {b"123456789": 0xE3069283, bytes(32): 0x8A9136AA, b"\xff" * 32: 0x62A8AB43, bytes(range(32)): 0x46DD794E}
    for content, crc in known.items():
        assert crc32c(content) == crc
        assert struct.pack("<I", masked_sum(content)) == masked(content)


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    """TensorBoard 2.21.0 tells the same values, times and steps of these files.

    EventAccumulator(DIR).Reload().Scalars("val/accuracy"); and files of its own EventFileWriter, with scalars of both
    formats, are read here as they were written.
    """
    for seed in (3, 14):
        write_events(tmp_path / "runs" / str(seed) / NAME, curve(20.0 + seed, samples=1_000.0))
    found = rows(tmp_path, "tensorboard", path="runs/{seed}", samples="seen", workers=4)
    first, last = found[0], found[5]
    assert (first["run"], first["seed"], first["workers"], first["metric"]) == ("runs/3", 3, 4, "val/accuracy")
    assert (last["value"], last["step"]) == (pytest.approx(0.95), 60)
    assert (last["time_s"], last["end_s"], last["samples"]) == (60 * 23.0, 60 * 23.0, 1_000.0)
    assert (last["before_s"], last["status"], last["batch"]) == (None, "ended", None)
    assert {row["metric"] for row in found} == {"val/accuracy"}
    (row, *_) = rows(tmp_path, "tensorboard", path=f"runs/3/{NAME}", batch=32)
    assert (row["run"], row["samples"], row["batch"]) == (f"runs/3/{NAME}", 320.0, 32)


def test_scalars_of_every_writer(tmp_path: Path) -> None:
    number = {"float": 0.75, "double": 0.7, "half": 0.5, "bfloat16": 0.875, "int32": -3.0, "int64": 2.0**40}
    as_bytes = {
        "float": tensor(struct.pack("<f", 0.75), 1), "double": tensor(struct.pack("<d", 0.7), 2),
        "half": tensor(struct.pack("<e", 0.5), 19), "bfloat16": tensor(struct.pack("<f", 0.875)[2:], 14),
        "int32": tensor(struct.pack("<i", -3), 3), "int64": tensor(struct.pack("<q", 2**40), 9),
    }  # fmt: skip
    listed = {
        "float": tensor(struct.pack("<f", 0.75), 1, listed=5), "double": tensor(struct.pack("<d", 0.7), 2, listed=6),
        "half": tensor(b"\x80\x70", 19, listed=13), "bfloat16": tensor(b"\xe0\x7e", 14, listed=13),
        "int32": tensor(b"\xfd" + b"\xff" * 8 + b"\x01", 3, listed=7),
        "int64": tensor(b"\x80" * 5 + b"\x20", 9, listed=10),
    }  # fmt: skip
    for how in (as_bytes, listed):
        found = values(tmp_path, event(START_S, 1, list(how.items())))
        assert {tag: one for tag, (one,) in found.items()} == number


def test_what_is_no_scalar_is_passed_by(tmp_path: Path) -> None:
    """Pictures, texts, histograms and graphs, and a step and a time alone."""
    found = values(
        tmp_path,
        event(START_S, 0, other=field(3, b"brain.Event:2")),
        event(START_S + 1, 1, [("text", tensor(b"hello", 7)), ("histogram", tensor(bytes(12), 2, (3, 1)))]),
        event(START_S + 2, 2, [("picture", field(4, b"png")), ("a", simple(math.nan)), ("a/b", simple(0.5))]),
        event(START_S + 3, 3, other=field(4, bytes(70_000))),
    )
    assert list(found) == ["a", "a/b"]
    assert math.isnan(found["a"][0])


def test_folders_inside_a_run_name_their_measures(tmp_path: Path) -> None:
    """Keras writes what it trains on and what it validates on into two folders of one run."""
    write_events(tmp_path / "run" / "train" / NAME, curve(20.0), tag="epoch_accuracy")
    write_events(tmp_path / "run" / "validation" / NAME, curve(20.5), tag="epoch_accuracy", begun_min=1.0)
    found = rows(tmp_path, "tensorboard", path="run")
    assert {row["metric"] for row in found} >= {"train/epoch_accuracy", "validation/epoch_accuracy"}
    assert found[-1]["time_s"] == 60 * 20.5
    times = [row["time_s"] for row in found]
    assert times == sorted(times)


def test_a_torn_last_frame_is_a_run_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / NAME
    write_events(path, curve(20.0))
    whole = path.read_bytes()
    for end in (len(whole) - 1, len(whole) - 20, len(whole) - 4):
        path.write_bytes(whole[:end])
        found = rows(tmp_path, "tensorboard", path=NAME)
        assert {row["status"] for row in found} == {"cut"}
        assert len(found) == 2 * (len(curve(20.0)) - 1)
    path.write_bytes(whole + bytes(5))
    assert {row["status"] for row in rows(tmp_path, "tensorboard", path=NAME)} == {"cut"}
    path.write_bytes(whole[:-8] + bytes(8))
    assert {row["status"] for row in rows(tmp_path, "tensorboard", path=NAME)} == {"cut"}
    path.write_bytes(b"")
    (row,) = rows(tmp_path, "tensorboard", path=NAME)
    assert (row["status"], row["metric"]) == ("cut", None)


def test_what_is_wrong_with_event_files_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / NAME
    write_events(path, curve(20.0))
    whole = path.read_bytes()
    for place in (70, 61):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert f"{NAME} is damaged: the sum of the frame at byte" in refused(tmp_path, "tensorboard", path=NAME)
    path.write_text("hello, this is no event file")
    assert "does not begin as an event file" in refused(tmp_path, "tensorboard", path=NAME)
    path.write_bytes(frame(b"\x0a\xff\xff"))
    assert f"event 1 of {NAME} is not one of TensorBoard" in refused(tmp_path, "tensorboard", path=NAME)
    large = event(START_S, 1, [("a", simple(0.5))], field(4, bytes(70_000)))
    path.write_bytes(frame(large)[:-4] + bytes(4) + frame(event(START_S, 2, [("a", simple(0.5))])))
    assert "the sum of the frame at byte 0 does not match" in refused(tmp_path, "tensorboard", path=NAME)
    (tmp_path / "empty").mkdir()
    assert "empty holds no event files" in refused(tmp_path, "tensorboard", path="empty")
    assert "there is no file 'no*'" in refused(tmp_path, "tensorboard", path="no*")
    write_events(path, curve(20.0))
    assert "has no 'samples_seen', which `samples:` names" in refused(
        tmp_path, "tensorboard", path=NAME, samples="samples_seen"
    )


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    """A second run writes its own file beside the first, and TensorBoard draws one line through both."""
    write_events(tmp_path / "run" / NAME, curve(20.0))
    write_events(tmp_path / "run" / NAME.replace("00.", "99."), [(m + 30, v, n) for m, v, n in curve(20.0)])
    assert "in run the step goes back from 60 to 10" in refused(tmp_path, "tensorboard", path="run")
    resumed = [(m + 30, v, n + 1e6) for m, v, n in curve(20.0)]
    write_events(tmp_path / "run" / NAME.replace("00.", "99."), resumed, first_step=70)
    assert len(rows(tmp_path, "tensorboard", path="run", samples="seen")) == 12


def test_event_files_outside_of_the_folder_need_leave(tmp_path: Path) -> None:
    write_events(tmp_path / "out" / NAME, curve(20.0))
    (tmp_path / "spec" / "run").mkdir(parents=True)
    (tmp_path / "spec" / "run" / NAME).symlink_to(tmp_path / "out" / NAME)
    with pytest.raises(InputError, match="outside the spec's folder"):
        training("tensorboard", path="run").read(Access(tmp_path / "spec"))
    assert training("tensorboard", path="run").read(Access(tmp_path / "spec", allow_outside=True)).num_rows


def test_damage_is_a_sentence_or_a_run_that_was_cut(tmp_path: Path) -> None:
    """Bytes changed anywhere, and events with any content in frames that are whole."""
    draw = np.random.default_rng(1)
    path = tmp_path / NAME
    write_events(path, curve(20.0))
    whole = path.read_bytes()
    sound = rows(tmp_path, "tensorboard", path=NAME)
    inside = event(START_S, 3, [("a", simple(0.5)), ("b", tensor(bytes(4))), ("c", tensor(bytes(3), 14, listed=13))])
    for framed in (False, True) * 150:
        content = bytearray(inside if framed else whole)
        for place in draw.integers(0, len(content), 2).tolist():
            content[place] ^= int(draw.integers(1, 256))
        path.write_bytes(frame(bytes(content)) if framed else bytes(content))
        try:
            found = rows(tmp_path, "tensorboard", path=NAME)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert framed or (found[0]["status"] == "cut" and len(found) < len(sound))
