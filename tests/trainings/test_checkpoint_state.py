"""State in files of checkpoints: what is the same, what is not, and what is not read."""

from __future__ import annotations

import io
import json
import math
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.trainings.reading.checkpoint_state import StateValue, read_state


def state(path: Path) -> dict[str, StateValue]:
    return read_state(path, path.name)


def npz(path: Path, **arrays: Any) -> dict[str, StateValue]:
    np.savez(path, **arrays)
    return state(path)


def differ(one: dict[str, StateValue], other: dict[str, StateValue]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def test_numpy_s_archives_by_name(tmp_path: Path) -> None:
    weights = np.arange(6.0).reshape(2, 3)
    first = npz(tmp_path / "a.npz", w=weights, step=3, draw="{'state': 1}", raw=np.array(b"\x00\x01"), nan=math.nan)
    assert first["w"].type == "float64" and first["w"].shape == (2, 3)
    again = npz(
        tmp_path / "b.npz", w=np.asfortranarray(weights), step=3, draw="{'state': 1}", raw=np.array(b"\x00\x01"),
        nan=math.nan,
    )  # fmt: skip
    assert not differ(first, again), "NaN is NaN, and the order in memory is no state"
    other = npz(
        tmp_path / "c.npz", w=weights.astype(np.float32), step=np.array([3]), draw="{'state': 2222}",
        raw=np.array(b"\x00\x02"), nan=1.0,
    )  # fmt: skip
    assert differ(first, other) == {"w", "step", "draw", "raw", "nan"}
    assert other["draw"].type == first["draw"].type == "str" and other["step"].shape == (1,)
    big = npz(tmp_path / "d.npz", w=weights.astype(">f8"), step=3, draw="{'state': 1}", raw=np.array(b"\x00\x01"))
    assert differ(first, big) == {"nan"}


def safetensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]], pad: int = 0, **notes: str) -> Path:
    header: dict[str, Any] = {"__metadata__": notes} if notes else {}
    data = b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode() + b" " * pad
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_safetensors_are_read_without_a_package(tmp_path: Path) -> None:
    one = {"a": ("BF16", [2], b"\x01\x02\x03\x04"), "b": ("F8_E4M3", [1], b"\x07")}
    first = state(safetensors(tmp_path / "a.safetensors", one, saved="1"))
    assert first["a"] == state(safetensors(tmp_path / "b.safetensors", dict(reversed(one.items()))))["a"]
    assert set(first) == {"a", "b", "__metadata__.saved"}
    for pad in range(260):
        # Whatever its first byte, a header is no text.
        found = state(safetensors(tmp_path / "p.safetensors", {"a": one["a"]}, pad))
        assert found["a"].type == "BF16"
    whole = (tmp_path / "a.safetensors").read_bytes()
    for length in (3, 8, 40, len(whole) - 1):
        (tmp_path / "torn.safetensors").write_bytes(whole[:length])
        if length > 8:
            with pytest.raises(InputError, match=r"torn\.safetensors is torn"):
                state(tmp_path / "torn.safetensors")
    (tmp_path / "odd.safetensors").write_bytes(struct.pack("<Q", 20) + b'{"a": {"dtype": 1}} ' + b"1")
    with pytest.raises(InputError, match="is torn"):
        state(tmp_path / "odd.safetensors")


def test_json_by_its_keys_and_text_as_one_value(tmp_path: Path) -> None:
    first, other = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text('{"step": 5, "best": NaN, "rng": [1, 2, 3], "opt": {"groups": [{"lr": 0.1}]}, "none": {}}')
    other.write_text('{"step": 5.0, "best": NaN, "rng": [1, 2, 4], "opt": {"groups": [{"lr": 0.1}]}, "none": {}}')
    assert differ(state(first), state(other)) == {"step", "rng"}
    assert set(state(first)) == {"step", "best", "rng", "opt.groups.0.lr", "none"}
    (tmp_path / "latest").write_text("step500")
    assert set(state(tmp_path / "latest")) == {""}
    (tmp_path / "c.json").write_bytes(b'\xef\xbb\xbf{"step": 5}')
    assert set(state(tmp_path / "c.json")) == {"step"}
    first.write_text('{"step": 5')
    with pytest.raises(InputError, match=r"a\.json is torn"):
        state(first)


def test_no_value_hides_another_of_its_name(tmp_path: Path) -> None:
    first, other, turned = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"
    first.write_text('{"model": {"w": 1}, "model.w": 2}')
    other.write_text('{"model": {"w": 7}, "model.w": 2}')
    turned.write_text('{"model.w": 2, "model": {"w": 1}}')
    assert differ(state(first), state(other)) == {"model.w"} and not differ(state(first), state(turned))


def test_the_length_of_the_longest_text_is_no_state(tmp_path: Path) -> None:
    wide = npz(tmp_path / "a.npz", names=np.array(["a", "b"], "U9"), raw=np.array([b"a"], "S9"))
    assert not differ(wide, npz(tmp_path / "b.npz", names=np.array(["a", "b"]), raw=np.array([b"a"])))
    assert differ(wide, npz(tmp_path / "c.npz", names=np.array(["a", "c"]), raw=np.array([b"a"]))) == {"names"}


class Boom:
    """Would run code when it is unpickled."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("boom"),)


def npy_of(shape: tuple[int, ...]) -> bytes:
    """The header of an array of doubles, without its numbers."""
    header = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def changed_archive(place: int, byte: int) -> bytes:
    """An archive of numpy with another byte in what it says of its member, at both ends."""
    kept = io.BytesIO()
    np.savez(kept, w=np.ones(3))
    data = bytearray(kept.getvalue())
    data[place] = data[data.rindex(b"PK\x01\x02") + 2 + place] = byte
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.pt", b"", "empty.pt is empty"),
        ("a.pkl", pickle.dumps({"a": np.ones(3)}), "can't be read without running code"),
        ("a.bin", b"\xff\xfe\x00\x01" * 8, "can't be read without running code"),
        ("a.npz", b"PK\x03\x04 and no more", "a.npz is torn"),
        ("a.json", b"[" * 99_999 + b"]" * 99_999, "a.json is nested too deeply"),
        ("a", b'{"a":' * 99_999, "a is nested too deeply"),
        ("a.npy", b"\x93NUMPY\x01\x00", "a.npy is torn, or holds pickled objects"),
        ("a.npy", b"\x93NUMPY\x01\x00\x04\x00{'a\n", "a.npy is torn, or holds pickled objects"),
        ("a.npy", npy_of((10**17,)), "a.npy can't be read: there is too little memory for it, or it is torn"),
        ("a.npz", changed_archive(8, 99), "a.npz is torn: That compression method is not supported"),
        ("a.npz", changed_archive(6, 1), "a.npz is torn"),
        ("a.npz", changed_archive(6, 32), "a.npz is torn"),
    ],
)
def test_what_can_t_be_read_is_one_sentence(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as refused:
        state(tmp_path / name)
    assert said in str(refused.value)


@pytest.mark.proof
def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "a.npz", fine=1, bad=np.array([Boom()], dtype=object))
    with pytest.raises(InputError, match="holds pickled objects as 'bad'"):
        state(tmp_path / "a.npz")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Boom()))
    with pytest.raises(InputError, match=r"not unpickled|not installed"):
        state(tmp_path / "b.pt")
    assert not (tmp_path / "boom").exists()


def test_files_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)

    def saved(name: str, **changes: Any) -> dict[str, StateValue]:
        held = {
            "model": OrderedDict(w=torch.arange(6.0).reshape(2, 3), n=torch.tensor(3), half=torch.ones(2).bfloat16()),
            "optimizer": {"state": {0: {"exp_avg": torch.zeros(2), "step": torch.tensor(4.0)}},
                          "param_groups": [{"lr": 0.1, "params": [0, 1], "betas": (0.9, 0.999)}]},
            "rng": torch.get_rng_state(), "bytes": b"\x00\x01", "nan": math.nan, "empty": torch.zeros(0), "none": None,
            "sparse": torch.eye(2).to_sparse(),
        }  # fmt: skip
        torch.save(held | changes, tmp_path / name)
        return state(tmp_path / name)

    torch.manual_seed(3)
    first = saved("a.pt")
    assert not differ(first, saved("another-name"))
    transposed = {"w": torch.arange(6.0).reshape(3, 2).T.contiguous().T.reshape(2, 3)}
    assert first["model.w"] == saved("b.pt", model=transposed)["model.w"]
    assert first["optimizer.state.0.exp_avg"].type == "float32" and "optimizer.param_groups.0.lr" in first
    assert differ(first, saved("c.pt", nan=1.0, bytes=b"\x00\x02", rng=torch.zeros(5, dtype=torch.uint8))) == {
        "nan", "bytes", "rng",
    }  # fmt: skip
    torch.save({"a": Boom()}, tmp_path / "d.pt")
    with pytest.raises(InputError, match=r"d\.pt holds .*Path.*, which can't be read without running code"):
        state(tmp_path / "d.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "e.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"e\.pt is torn"):
        state(tmp_path / "e.pt")
    assert not (tmp_path / "boom").exists()


def test_tensors_of_torch_that_are_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def saved(**tensors: Any) -> dict[str, StateValue]:
        torch.save(tensors, tmp_path / "a.pt")
        return state(tmp_path / "a.pt")

    weights, scale = torch.arange(4.0), torch.tensor(2.0)
    tied = saved(embed=weights, out=weights, a=scale, b=scale, half=weights[:2])
    assert not differ(tied, saved(out=weights, embed=weights, half=weights[:2], b=scale, a=scale.clone()))
    copied = saved(embed=weights, out=weights.clone(), a=scale, b=scale, half=weights[:2])
    assert differ(tied, copied) == {"out"} and tied["out"].type == "float32, one with embed"


def test_numpy_s_values_in_files_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def saved(seed: int, **more: Any) -> dict[str, StateValue]:
        drawn = {"rng": np.random.RandomState(seed).get_state(), "best": np.float32(0.5), "w": torch.ones(2)}
        torch.save(drawn | more, tmp_path / "a.pt")
        return state(tmp_path / "a.pt")

    first = saved(0)
    assert first["rng.1"].type == "uint32" and first["rng.1"].shape == (624,) and first["best"].type == "float32"
    assert not differ(first, saved(0)) and differ(first, saved(1)) == {"rng.1"}
    for bad, said in (
        (np.array([Boom()], dtype=object), r"a\.pt holds .*Path.*, which can't be read without running code"),
        (np.array([{1: 2}], dtype=object), r"a\.pt is torn, or holds objects beside tensors"),
    ):
        with pytest.raises(InputError, match=said):
            saved(0, bad=bad)


def test_arrays_that_an_older_numpy_wrote_in_files_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": np.arange(3)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as now, zipfile.ZipFile(tmp_path / "b.pt", "w") as old:
        for name in now.namelist():
            old.writestr(name, now.read(name).replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert b"numpy.core" in (tmp_path / "b.pt").read_bytes()
    assert state(tmp_path / "a.pt") == state(tmp_path / "b.pt")


def test_the_order_of_a_set_is_chance(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def saved(*seen: int) -> dict[str, StateValue]:
        torch.save({"seen": set(seen)}, tmp_path / "a.pt")
        return state(tmp_path / "a.pt")

    assert repr(set((0, 8))) != repr(set((8, 0)))  # literals are built in an order of their own
    assert not differ(saved(0, 8), saved(8, 0)) and differ(saved(0, 8), saved(0, 16)) == {"seen"}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:TypedStorage")
def test_the_scale_of_a_quantized_tensor_is_state(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def saved(scale: float) -> dict[str, StateValue]:
        torch.save({"w": torch.quantize_per_tensor(torch.ones(4) * scale, scale, 0, torch.qint8)}, tmp_path / "a.pt")
        return state(tmp_path / "a.pt")

    assert not differ(saved(0.5), saved(0.5)) and differ(saved(0.5), saved(0.25)) == {"w"}


def test_what_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"none": null, "no": {}, "list": [], "zero": 0, "off": false, "one": [0]}')
    assert {name for name, one in state(tmp_path / "a.json").items() if one.is_empty} == {"none", "no", "list"}
    assert npz(tmp_path / "b.npz", w=np.zeros((0, 3)))["w"].is_empty


def test_all_arrays_that_were_saved_one_after_the_other_are_read(tmp_path: Path) -> None:
    def saved(second: float) -> dict[str, StateValue]:
        with (tmp_path / "both.npy").open("wb") as file:
            np.save(file, np.ones(3))
            np.save(file, np.full(4, second))
        return state(tmp_path / "both.npy")

    assert set(saved(0.0)) == {"0", "1"} and differ(saved(0.0), saved(1.0)) == {"1"}


@pytest.mark.parametrize("first", ["npz", "torch"])
@pytest.mark.parametrize("second", ["npz", "torch", "bytes"])
def test_what_comes_after_an_archive_is_not_left_unread(tmp_path: Path, first: str, second: str) -> None:
    torch = pytest.importorskip("torch")

    def write(kind: str, file: io.BufferedWriter) -> None:
        if kind == "npz":
            np.savez(file, w=np.ones(3))
        elif kind == "torch":
            torch.save({"w": torch.ones(3)}, file)
        else:
            file.write(b"the state of a generator")

    with (tmp_path / "both.pt").open("wb") as file:
        write(first, file)
    assert set(state(tmp_path / "both.pt")) == {"w"}
    with (tmp_path / "both.pt").open("ab") as file:
        write(second, file)
    with pytest.raises(InputError, match=r"both\.pt holds more than one archive"):
        state(tmp_path / "both.pt")


def test_what_comes_after_an_object_of_an_old_file_of_torch_is_not_left_unread(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "both.pt"
    torch.save({"w": torch.ones(3), "step": 4}, path, _use_new_zipfile_serialization=False)
    assert set(state(path)) == {"w", "step"}
    with path.open("ab") as file:
        torch.save({"optimizer": torch.ones(3)}, file, _use_new_zipfile_serialization=False)
    with pytest.raises(InputError, match=r"both\.pt holds more than one object"):
        state(path)


def test_what_comes_after_tensors_of_safetensors_is_not_left_unread(tmp_path: Path) -> None:
    path = safetensors(tmp_path / "a.safetensors", {"a": ("F32", [1], b"1234"), "b": ("F32", [0], b"")})
    assert set(state(path)) == {"a", "b"}
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(InputError, match="holds more than its tensors"):
        state(path)
