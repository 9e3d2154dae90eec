"""Folders of checkpoints before and after they were saved again at once."""

from __future__ import annotations

import json
import math
import os
import pickle
import socket
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from evalspec.evidence.record import Resaved
from evalspec.running.supervision import round_trip
from evalspec.running.supervision.round_trip import kept_aside, out_of_reach, place_in, resaved
from evalspec.trainings.command import RoundTrip
from evalspec.trainings.reading import checkpoint_state
from evalspec.trainings.reading.checkpoint_state import StateValue, read_state

State = Mapping[str, Any]
FULL: State = {"model.w": np.ones((2, 3), np.float32), "optimizer.m": np.zeros(6), "step": 500, "nan": math.nan}


def write(folder: Path, name: str, state: State | bytes, at: int) -> None:
    """A file that was written so many seconds after the first."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(state, bytes):
        path.write_bytes(state)
    else:
        with path.open("wb") as file:
            np.savez(file, **state)
    os.utime(path, (1_700_000_000 + at, 1_700_000_000 + at))


def trip(
    folder: Path,
    before: Mapping[str, State | bytes],
    after: Mapping[str, State | bytes],
    holds: tuple[str, ...] = ("model.*", "optimizer.*"),
    may_change: tuple[str, ...] = (),
    deleted: tuple[str, ...] = (),
    moved: Mapping[str, str] = MappingProxyType({}),
) -> Resaved:
    """Files of before, in the order in which they were written, and those that the round trip moved, deleted, wrote."""
    out = folder / "out"
    for at, (name, state) in enumerate(before.items()):
        write(out / "kept", name, state, at)
    (out / "kept").mkdir(parents=True, exist_ok=True)
    asked = RoundTrip(add=("--again",), holds=holds, may_change=may_change)
    with kept_aside(out) as aside:
        for name, other in moved.items():
            (out / "kept" / name).rename(out / "kept" / other)
        for name in deleted:
            (out / "kept" / name).unlink()
        for at, (name, state) in enumerate(after.items()):
            write(out / "kept", name, state, 1_000 + at)
        found = resaved(aside, out, Path("kept"), asked)
    there = {path.relative_to(out / "kept").as_posix() for path in (out / "kept").rglob("*") if path.is_file()}
    assert there == set(before) and not aside.exists(), "the folder is as it was"
    return found


def lost(found: Resaved) -> list[tuple[str, str]]:
    assert found.unknown is None and found.lost >= len(found.first)
    return [(one.name, one.what) for one in found.first]


def without(name: str) -> State:
    return {key: value for key, value in FULL.items() if key != name}


@pytest.mark.parametrize("name", ["step500.npz", "step0501.npz", "last"])
def test_what_is_saved_again_as_it_was_has_lost_nothing(tmp_path: Path, name: str) -> None:
    old = {"step400.npz": FULL | {"step": 400}, "step500.npz": FULL}
    found = trip(tmp_path, {"last": FULL} if name == "last" else old, {name: FULL})
    assert lost(found) == [] and found.names == 4
    assert found.file == ("last" if name == "last" else "step500.npz")


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (without("optimizer.m"), [("optimizer.*", "absent"), ("optimizer.m", "gone")]),
        (without("step"), [("step", "gone")]),
        (without("step") | {"steps": 500}, [("step", "gone")]),
        (FULL | {"model.w": np.ones((2, 3), np.float16)}, [("model.w", "type")]),
        (FULL | {"model.w": np.ones((3, 2), np.float32)}, [("model.w", "size")]),
        (FULL | {"optimizer.m": np.ones(6)}, [("optimizer.m", "value")]),
        (FULL | {"nan": 0.0}, [("nan", "value")]),
        (FULL | {"more": 1}, []),
    ],
)
def test_what_is_not_as_it_was_is_named(tmp_path: Path, now: State, expected: list[tuple[str, str]]) -> None:
    assert lost(trip(tmp_path, {"step500.npz": FULL}, {"step500.npz": now})) == expected


def test_a_checkpoint_that_is_ignored_is_lost_whole(tmp_path: Path) -> None:
    fresh = {name: np.full_like(value, 7) for name, value in FULL.items()}
    found = trip(tmp_path, {"step500.npz": FULL}, {"step000.npz": fresh})
    assert {name for name, what in lost(found) if what == "value"} >= {"optimizer.m", "step", "nan"}
    (tmp_path / "b").mkdir()
    # It starts anew and writes over the first checkpoint, which is as it was.
    found = trip(tmp_path / "b", {"step000.npz": fresh, "step500.npz": FULL}, {"step000.npz": fresh})
    assert lost(found) == [("step500.npz", "passed over")]


def test_a_checkpoint_that_is_a_folder(tmp_path: Path) -> None:
    model, optimizer = {"model.w": FULL["model.w"]}, {"optimizer.m": FULL["optimizer.m"]}
    before = {
        "checkpoint-400/model.npz": model, "checkpoint-400/optimizer.npz": optimizer,
        "checkpoint-500/model.npz": model, "checkpoint-500/optimizer.npz": optimizer, "latest": b"checkpoint-500",
    }  # fmt: skip
    for number, name in enumerate(("checkpoint-500", "checkpoint-501")):
        folder = tmp_path / str(number)
        folder.mkdir()
        both = {f"{name}/model.npz": model, f"{name}/optimizer.npz": optimizer}
        assert lost(trip(folder, before, both)) == []
        (folder / "b").mkdir()
        half = trip(folder / "b", before, {f"{name}/model.npz": model})
        assert ("checkpoint-500/optimizer.npz", "gone") in lost(half) and ("optimizer.*", "absent") in lost(half)
        (folder / "c").mkdir()
        other = trip(folder / "c", before, both | {f"{name}/optimizer.npz": {"optimizer.m": np.ones(6)}})
        assert lost(other) == [("checkpoint-500/optimizer.npz: optimizer.m", "value")]


def test_shards_of_workers_are_held_against_their_own(tmp_path: Path) -> None:
    def shards(step: int) -> dict[str, State | bytes]:
        return {
            f"step{step}/rank{rank}.npz": {"model.w": np.full(3, float(rank)), "optimizer.m": np.full(3, rank + 0.5)}
            for rank in range(3)
        }

    assert lost(trip(tmp_path, shards(400) | shards(500), shards(501))) == []
    (tmp_path / "b").mkdir()
    flat = {name.replace("/", "-"): value for name, value in (shards(400) | shards(500)).items()}
    assert lost(trip(tmp_path / "b", flat, {n.replace("/", "-"): v for n, v in shards(501).items()})) == []
    (tmp_path / "c").mkdir()
    by_rank = {f"rank{rank}/step{step}.npz": FULL | {"rank": rank} for step in (400, 500) for rank in range(2)}
    assert (
        lost(trip(tmp_path / "c", by_rank, {f"rank{rank}/step500.npz": FULL | {"rank": rank} for rank in (0, 1)})) == []
    )


@pytest.mark.parametrize("flawed", [0, 1, 2])
@pytest.mark.parametrize("form", ["step500/rank{}.npz", "step500-rank{}.npz", "rank{}/step500.npz", "last/layer{}.npz"])
def test_each_of_several_files_with_the_same_names_is_compared(tmp_path: Path, form: str, flawed: int) -> None:
    before = {form.format(one): FULL | {"rank": one} for one in range(3)}
    name = form.format(flawed)
    found = trip(tmp_path, before, before | {name: before[name] | {"optimizer.m": np.ones(6)}})
    assert lost(found) == [(f"{name}: optimizer.m", "value")] and found.names == 15


@pytest.mark.parametrize("flawed", [0, 1, 2])
@pytest.mark.parametrize("deletes", [False, True])
def test_each_shard_must_be_saved_again(tmp_path: Path, flawed: int, deletes: bool) -> None:
    before = {f"step{step}/rank{rank}.npz": FULL for step in (400, 500) for rank in range(3)}
    name = f"step500/rank{flawed}.npz"
    after = {one: FULL for one in before if one.startswith("step500") and one != name}
    assert lost(trip(tmp_path, before, after, deleted=(name,) if deletes else ())) == [(name, "gone")]


def test_checkpoints_that_make_way_for_later_ones_are_not_lost(tmp_path: Path) -> None:
    before = {f"rank{rank}/step{step}.npz": FULL for step in (300, 400, 500) for rank in range(2)}
    after = {f"rank{rank}/step501.npz": FULL for rank in range(2)}
    assert lost(trip(tmp_path, before, after, deleted=("rank0/step300.npz", "rank1/step300.npz"))) == []


def test_a_file_of_one_name_that_vanishes_is_lost(tmp_path: Path) -> None:
    before = {"model.npz": FULL, "extra.npz": FULL, "model.npz.tmp": b"PK", "run.lock": b"7"}
    found = trip(tmp_path, before, {"model.npz": FULL}, deleted=("extra.npz", "model.npz.tmp", "run.lock"))
    assert lost(found) == [("extra.npz", "gone")]


def test_a_checkpoint_under_a_name_of_its_own_is_compared_with_nothing(tmp_path: Path) -> None:
    found = trip(tmp_path, {"step500.npz": FULL}, {"again500.npz": FULL | {"step": 0}})
    assert found.unknown is not None and not found.early
    assert found.unknown.startswith("it wrote again500.npz, which is not compared with step500.npz")


def test_an_empty_file_is_no_state_by_its_name(tmp_path: Path) -> None:
    both = {"step5/model.json": b"{}", "step5/optimizer.json": b'{"m": 1}'}
    assert lost(trip(tmp_path, both, both)) == [("model.*", "blank")]


def test_checkpoints_that_are_one_file(tmp_path: Path) -> None:
    def once(out: Path, now: State) -> Resaved:
        write(out, "state.npz", FULL, 1)
        write(out, "log.jsonl", b"{}", 1)
        with kept_aside(out) as aside:
            write(out, "state.npz", now, 9)
            asked = RoundTrip(add=("--again",), holds=("model.*",))
            return resaved(aside, out, Path("state.npz"), asked)

    assert lost(once(tmp_path / "a", FULL)) == []
    assert lost(once(tmp_path / "b", FULL | {"step": 0})) == [("step", "value")]


@pytest.mark.parametrize("absolute", [False, True])
def test_a_folder_of_checkpoints_that_is_a_link(tmp_path: Path, absolute: bool) -> None:
    out = tmp_path / "out"
    write(out / "scratch", "step500.npz", FULL, 1)
    (out / "kept").symlink_to(out / "scratch" if absolute else "scratch")
    place = place_in(out, out / "kept")
    assert place == Path("scratch")
    with kept_aside(out) as aside:
        write(out / "kept", "step500.npz", FULL | {"step": 0}, 9)
        asked = RoundTrip(add=("--again",), holds=("model.*",))
        assert lost(resaved(aside, out, place, asked)) == [("step", "value")]
    assert np.load(out / "kept" / "step500.npz")["step"] == 500
    (out / "far").symlink_to(tmp_path)
    assert place_in(out, out / "far") is None


def test_what_may_change_may(tmp_path: Path) -> None:
    old, new = FULL | {"elapsed_s": 3.0, "clock.now": 1}, FULL | {"elapsed_s": 5.0}
    found = trip(tmp_path, {"last": old}, {"last": new}, may_change=("elapsed_s", "clock.*"))
    assert lost(found) == []
    (tmp_path / "b").mkdir()
    code = {"last.npz": FULL, "args.bin": b"\xff\x00code 1"}
    found = trip(tmp_path / "b", code, {"last.npz": FULL, "args.bin": b"\xff\x00code 2"}, may_change=("args.bin",))
    assert lost(found) == []


def test_bytes_that_are_the_same_need_not_be_read(tmp_path: Path) -> None:
    code = b"\xff\x00\x80 some pickle"
    assert lost(trip(tmp_path, {"last.npz": FULL, "rng.bin": code}, {"last.npz": FULL, "rng.bin": code})) == []
    (tmp_path / "b").mkdir()
    found = trip(tmp_path / "b", {"rng.bin": code}, {"rng.bin": code}, holds=("rng.bin",))
    assert lost(found) == []
    (tmp_path / "c").mkdir()
    found = trip(tmp_path / "c", {"last.npz": FULL, "rng.bin": code}, {"last.npz": FULL, "rng.bin": code + b"1"})
    assert found.unknown is not None and "rng.bin can't be read without running code" in found.unknown


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"step000.npz": FULL}, "it had not written a checkpoint"),
        ({"step500.npz": FULL}, {}, "it wrote no checkpoint"),
        ({"step500.npz": b""}, {"step500.npz": FULL}, "step500.npz is empty"),
        ({"step500.npz": FULL}, {"step500.npz": b""}, "step500.npz is empty"),
        ({"step500.npz": b"PK\x03\x04torn"}, {"step501.npz": FULL}, "step500.npz is torn"),
        ({"args.json": b"{}"}, {"args.json": b"{}", "step000.npz": FULL}, "no checkpoint had 'model.*' yet"),
    ],
)
def test_what_tells_nothing_is_a_sentence(
    tmp_path: Path, before: Mapping[str, State | bytes], after: Mapping[str, State | bytes], said: str
) -> None:
    found = trip(tmp_path, before, after)
    assert found.unknown is not None and said in found.unknown and found.lost == 0


def test_links_are_no_checkpoints(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out / "kept", "step500.npz", FULL, 1)
    (out / "kept" / "last").symlink_to("step500.npz")
    asked = RoundTrip(add=("--again",), holds=("model.*",))
    with kept_aside(out) as aside:
        write(out / "kept", "step501.npz", FULL, 9)
        assert lost(resaved(aside, out, Path("kept"), asked)) == []
    assert (out / "kept" / "last").is_symlink()


def test_a_folder_is_put_back_whatever_happens(tmp_path: Path) -> None:
    write(tmp_path / "out", "a", FULL, 1)
    with pytest.raises(RuntimeError), kept_aside(tmp_path / "out"):
        (tmp_path / "out" / "a").unlink()
        raise RuntimeError
    assert (tmp_path / "out" / "a").is_file() and len(list(tmp_path.iterdir())) == 1


def test_what_a_kill_cut_off_is_well_passed_over(tmp_path: Path) -> None:
    before = {"step400.npz": FULL, "step500.npz": b"PK\x03\x04 and no more"}
    assert lost(trip(tmp_path, before, {"step400.npz": FULL})) == []
    (tmp_path / "b").mkdir()
    left = {"last/state.npz": FULL, "last/state.tmp": b"PK"}
    assert lost(trip(tmp_path / "b", left, {"last/state.npz": FULL})) == []


def test_an_empty_file_that_tells_of_the_end_is_no_state(tmp_path: Path) -> None:
    found = trip(tmp_path, {"step500/state.npz": FULL}, {"step500/state.npz": FULL, "step500/DONE": b""})
    assert lost(found) == []


def test_files_may_be_what_must_be_there(tmp_path: Path) -> None:
    both = {"checkpoint-500/model_0.npz": {"w": 1}, "checkpoint-500/rng_0.bin": b"\xff\x00"}
    holds = ("model_0.npz", "rng_*.bin")
    assert lost(trip(tmp_path, both, both, holds=holds)) == []
    (tmp_path / "b").mkdir()
    one = {"checkpoint-500/model_0.npz": {"w": 1}}
    assert lost(trip(tmp_path / "b", one, one, holds=holds)) == [("rng_*.bin", "absent")]


@pytest.mark.parametrize("nothing", [None, {}, [], {"shadow": {}}])
def test_what_must_be_there_must_hold_something(tmp_path: Path, nothing: object) -> None:
    def state(note: int) -> bytes:
        return json.dumps({"model": {"w": 1}, "ema": nothing, "note": note}).encode()

    found = trip(tmp_path, {"last.json": state(1)}, {"last.json": state(2)}, ("model.*", "ema*"), ("note",))
    assert lost(found) == [("ema*", "blank")]


def test_what_only_a_round_trip_saves_is_lost(tmp_path: Path) -> None:
    holds = ("model.*", "ema.*")
    found = trip(tmp_path, {"step500.npz": FULL}, {"step500.npz": FULL | {"ema.w": np.ones(3)}}, holds)
    assert lost(found) == [("ema.*", "unsaved")]


def test_names_of_values_are_no_paths_of_files(tmp_path: Path) -> None:
    before = {"model/w": np.ones(2), "model/step": 5}
    now = {"model/w": np.zeros(2), "model/step": 6}
    (tmp_path / "b").mkdir()
    assert lost(trip(tmp_path, {"last.npz": before}, {"last.npz": now}, ("model/*",), ("step",))) == [
        ("model/w", "value"), ("model/step", "value")
    ]  # fmt: skip
    found = trip(tmp_path / "b", {"last.npz": before}, {"last.npz": now}, ("model/*",), ("model/step",))
    assert lost(found) == [("model/w", "value")]


@pytest.mark.parametrize("absolute", [False, True])
def test_links_to_elsewhere_in_the_run_are_followed(tmp_path: Path, absolute: bool) -> None:
    out = tmp_path / "out"
    far = out if absolute else Path("..")
    write(out / "store", "optimizer.npz", {"optimizer.m": np.zeros(3)}, 1)
    write(out / "store" / "more", "ema.npz", {"ema.w": np.zeros(3)}, 1)
    write(out / "kept", "model.npz", {"model.w": np.ones(3)}, 1)
    (out / "kept" / "optimizer.npz").symlink_to(far / "store" / "optimizer.npz")
    (out / "kept" / "more").symlink_to(far / "store" / "more")
    (out / "kept" / "last.npz").symlink_to(out / "kept" / "model.npz" if absolute else "model.npz")
    (out / "kept" / "gone").symlink_to(far / "store" / "gone")
    (out / "kept" / "loop").symlink_to("loop")
    (out / "store" / "more" / "up").symlink_to(out / "kept")
    asked = RoundTrip(add=("--again",), holds=("model.*", "optimizer.*", "ema.*"))
    assert out_of_reach(out, out / "kept", asked) is None
    for value, expected in (
        (0.0, []),
        (1.0, [("optimizer.npz: optimizer.m", "value"), ("more/ema.npz: ema.w", "value")]),
    ):
        with kept_aside(out) as aside:
            write(out / "kept", "model.npz", {"model.w": np.ones(3)}, 9)
            write(out / "store", "optimizer.npz", {"optimizer.m": np.full(3, value)}, 9)
            write(out / "store" / "more", "ema.npz", {"ema.w": np.full(3, value)}, 9)
            found = resaved(aside, out, Path("kept"), asked)
        assert sorted(lost(found)) == sorted(expected)


@pytest.mark.parametrize("is_folder", [False, True])
def test_links_out_of_the_run_can_t_be_put_back(tmp_path: Path, is_folder: bool) -> None:
    out = tmp_path / "out"
    write(out / "kept", "model.npz", FULL, 1)
    write(tmp_path / "far", "optimizer.npz", FULL, 1)
    (out / "kept" / "more").symlink_to(tmp_path / "far" if is_folder else tmp_path / "far" / "optimizer.npz")
    asked = RoundTrip(add=("--again",), holds=("model.*",))
    said = out_of_reach(out, out / "kept", asked)
    assert said == "more is behind a link out of {out}, where it can't be put back: have it save in {out}"
    aside = RoundTrip(add=("--again",), holds=("model.*",), may_change=("more",))
    assert out_of_reach(out, out / "kept", aside) is None


def test_sockets_and_pipes_are_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write(out / "kept", "model.npz", FULL, 1)
    os.mkfifo(out / "kept" / "pipe")
    monkeypatch.chdir(out)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("ear")
    with kept_aside(out) as aside:
        write(out / "kept", "model.npz", FULL | {"more": 1}, 9)
        asked = RoundTrip(add=("--again",), holds=("model.*",))
        assert lost(resaved(aside, out, Path("kept"), asked)) == []


@pytest.mark.parametrize("form", ["step{}/{}.npz", "step{}-{}.npz"])
def test_a_checkpoint_that_the_kill_cut_off_between_two_files_is_well_passed_over(tmp_path: Path, form: str) -> None:
    files = ("model", "optimizer", "done")
    whole = {form.format(400, one): {f"{one}.w": np.ones(2)} for one in files}
    now = whole | {form.format(400, "model"): {"model.w": np.ones(2), "more": 1}}
    for number, there in enumerate(files):
        folder = tmp_path / str(number)
        folder.mkdir()
        part = {form.format(500, one): {f"{one}.w": np.ones(2)} for one in files[: number + 1]}
        expected = [] if there != "done" else [(form.format(500, one), "passed over") for one in files]
        assert sorted(lost(trip(folder, whole | part, now))) == sorted(expected)
    (tmp_path / "torn").mkdir()
    part = {form.format(500, one): b"PK\x03\x04" if one == "done" else {f"{one}.w": np.ones(2)} for one in files}
    assert lost(trip(tmp_path / "torn", whole | part, now)) == []
    (tmp_path / "notes").mkdir()
    # A note that is written once for all checkpoints makes none of them whole.
    noted = {"notes/args.json": b'{"a": 1}', "latest": b"step400"}
    part = {form.format(500, one): {f"{one}.w": np.ones(2)} for one in files}
    found = trip(
        tmp_path / "notes", whole | noted | part, now | {"notes/args.json": b'{"a": 1} '} | {"latest": b"step400"}
    )
    assert sorted(lost(found)) == [(form.format(500, one), "passed over") for one in sorted(files)]


def test_a_kill_cuts_off_the_last_checkpoint_alone(tmp_path: Path) -> None:
    weights = {"model.w": np.ones(2)}
    old = {"step400/config.json": b'{"layers": 1}', "step400/model.npz": weights}
    old |= {"step500/model.npz": weights, "step600/model.npz": weights}
    again = {"step400/config.json": b'{"layers": 1}', "step400/model.npz": weights | {"more": 1}}
    # Of the last one nobody knows whether its configuration was still to be written.
    assert lost(trip(tmp_path, old, again, holds=("model.*",))) == [("step500/model.npz", "passed over")]


@pytest.mark.parametrize("may_change", [(), ("*.pkl",)])
def test_a_file_that_is_never_read_tells_of_no_cut(tmp_path: Path, may_change: tuple[str, ...]) -> None:
    weights = {"model.w": np.ones(2)}
    more, less = pickle.dumps({"at": "100"}), pickle.dumps({"at": "99"})
    old = {"step500/args.pkl": more, "step500/model.npz": weights}
    again = {"step500/args.pkl": more, "step500/model.npz": weights | {"more": 1}}
    for number, (there, expected) in enumerate(((less, True), (more[:-3], False))):
        newer = {"step600/args.pkl": there, "step600/model.npz": weights}
        folder = tmp_path / str(number)
        folder.mkdir()
        found = lost(trip(folder, old | newer, again, holds=("model.*",), may_change=may_change))
        assert (("step600/model.npz", "passed over") in found) is expected


def test_each_file_is_read_once_for_whether_it_is_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = {f"step500-{one}.npz": {"model.w": np.ones(9 + one)} for one in range(12)}
    newer = {f"step600-{one}.npz": {"model.w": np.ones(9 + one)} for one in range(12)}
    read: list[str] = []

    def counted(path: Path, name: str) -> dict[str, StateValue]:
        read.append(name)
        return read_state(path, name)

    monkeypatch.setattr(round_trip, "read_state", counted)
    monkeypatch.setattr(checkpoint_state, "read_state", counted)
    found = trip(tmp_path, shards | newer, shards, holds=("model.*",))
    assert found.lost == 12
    assert max(Counter(one for one in read if one.startswith("step600")).values()) <= 2


def test_folders_that_can_t_be_read_are_a_sentence(tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = RoundTrip(add=("--again",), holds=("model.*",))
    write(out / "kept", "model.npz", FULL, 1)
    with kept_aside(out) as aside:
        (out / "kept" / "link").symlink_to("/" + "x" * 300)
        said = "the checkpoints can't be read: File name too long"
        assert out_of_reach(out, out / "kept", asked) == said
        assert resaved(aside, out, Path("kept"), asked).unknown == said
    (out / "circle").symlink_to("circle")
    assert place_in(out, out / "circle") == Path("circle") and out_of_reach(out, out / "circle", asked) is None
    assert resaved(out, out, Path("circle"), asked).early


def test_a_checkpoint_that_makes_way_for_the_next_is_not_written(tmp_path: Path) -> None:
    old = {"prev1.npz": FULL | {"step": 300}, "prev0.npz": FULL | {"step": 400}, "last.npz": FULL}
    moved = {"prev0.npz": "prev1.npz", "last.npz": "prev0.npz"}
    assert lost(trip(tmp_path, old, {"last.npz": FULL}, moved=moved)) == []
    (tmp_path / "b").mkdir()
    found = trip(tmp_path / "b", old, {"last.npz": FULL | {"optimizer.m": np.ones(6)}}, moved=moved)
    assert lost(found) == [("optimizer.m", "value")]
    (tmp_path / "c").mkdir()
    found = trip(tmp_path / "c", {"step500.npz": FULL}, {}, moved={"step500.npz": "step501.npz"}, deleted=())
    assert found.unknown is not None and "it wrote no checkpoint" in found.unknown


def test_a_kill_between_two_names_leaves_the_other(tmp_path: Path) -> None:
    assert lost(trip(tmp_path, {"prev.npz": FULL}, {"last.npz": FULL})) == []
    (tmp_path / "b").mkdir()
    found = trip(tmp_path / "b", {"prev.npz": FULL}, {"last.npz": FULL | {"optimizer.m": np.ones(6)}})
    assert found.unknown is not None and found.unknown.startswith("it wrote last.npz, which is not compared with prev")
    (tmp_path / "c").mkdir()
    old = {"best.npz": FULL | {"step": 400}, "newer.npz": FULL}
    assert trip(tmp_path / "c", old, {"last.npz": FULL | {"step": 400}}).unknown is not None


@pytest.mark.parametrize("left", ["tmp/model.npz", "last.tmp/model.npz", "tmpa_bcde", ".tmp-last/model.npz", "temp/a"])
def test_what_a_kill_left_half_written_is_no_checkpoint(tmp_path: Path, left: str) -> None:
    old = {"last/state.npz": FULL, left: FULL}
    assert lost(trip(tmp_path, old, {"last/state.npz": FULL}, deleted=(left,))) == []
    (tmp_path / "b").mkdir()
    found = trip(tmp_path / "b", {left: FULL}, {"step000/state.npz": FULL})
    assert found.early and found.unknown is not None and "no checkpoint had 'model.*' yet" in found.unknown


def test_checkpoints_in_a_folder_among_others(tmp_path: Path) -> None:
    whole = {f"all/step{step}/{one}.npz": {f"{one}.w": step} for step in (400, 500) for one in ("model", "optimizer")}
    again = {name: value | {"more": 1} for name, value in whole.items() if isinstance(value, dict) and "500" in name}
    assert lost(trip(tmp_path, {"all/args.json": b"{}"} | whole, again)) == []
    for number, (newer, expected) in enumerate(((("model",), False), (("model", "optimizer"), True))):
        (tmp_path / str(number)).mkdir()
        part = {f"all/step600/{one}.npz": {f"{one}.w": 600} for one in newer}
        found = lost(trip(tmp_path / str(number), whole | part, again))
        assert (("all/step600/model.npz", "passed over") in found) is expected and bool(found) is expected


@pytest.mark.parametrize("form", ["slot{}/rank{}.npz", "slot{}-{}.npz"])
def test_two_names_in_turn(tmp_path: Path, form: str) -> None:
    def slot(number: int, step: int, **more: object) -> dict[str, State | bytes]:
        return {form.format(number, rank): FULL | {"step": step, "rank": rank} | more for rank in (0, 1)}

    cases = (
        (slot(0, 500), []),
        (slot(1, 500), []),
        (slot(0, 400), [(form.format(1, rank), "passed over") for rank in (0, 1)]),
        (slot(0, 500, nan=0.0), [(f"{form.format(1, rank)}: nan", "value") for rank in (0, 1)]),
    )
    for number, (now, expected) in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        assert lost(trip(tmp_path / str(number), slot(0, 400) | slot(1, 500), now)) == expected


@pytest.mark.parametrize("flawed", [0, 1, 2])
@pytest.mark.parametrize("form", ["step500/rank{}.npz", "step500-rank{}.npz", "last/layer{}.npz"])
def test_each_shard_of_the_one_checkpoint_that_is_kept_must_be_saved_again(
    tmp_path: Path, form: str, flawed: int
) -> None:
    before = {form.format(one): FULL | {"rank": one} for one in range(3)}
    after = {name: value for name, value in before.items() if name != form.format(flawed)}
    assert lost(trip(tmp_path, before, after)) == [(form.format(flawed), "gone")]
