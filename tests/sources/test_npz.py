from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources.npz import Npz


def saved(folder: Path, **arrays: np.ndarray) -> Npz:
    np.savez_compressed(folder / "d.npz", **arrays)  # type: ignore[arg-type]
    return Npz(path="d.npz")


def test_axes_become_lists_and_tensors(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(np.uint8)
    dataset = saved(
        tmp_path,
        image=images,
        row=np.ones((2, 5), np.float32),
        text=np.array(["a", "long"]),
        raw=np.array([b"x", b"yz"]),
        big=np.array([1, 2], ">i4"),
        yes=np.array([True, False]),
        when=np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"),
        fortran=np.asfortranarray(np.arange(6).reshape(2, 3)),
    )
    table = dataset.read(Access(tmp_path))
    assert table.schema.field("image").type == pa.fixed_shape_tensor(pa.uint8(), [3, 4])
    assert (table["image"].combine_chunks().to_numpy_ndarray() == images).all()
    assert table.schema.field("row").type == pa.list_(pa.float32(), 5)
    assert table["fortran"].to_pylist() == [[0, 1, 2], [3, 4, 5]]
    assert table.select(["text", "raw", "big", "yes"]).to_pylist() == [
        {"text": "a", "raw": b"x", "big": 1, "yes": True},
        {"text": "long", "raw": b"yz", "big": 2, "yes": False},
    ]
    assert str(table["when"][0]) == "2020-01-01"
    header = dataset.header(Access(tmp_path))
    assert header.rows == 2
    assert header.columns["image"] == "tensor<uint8>[3, 4]"
    assert {name: kind for name, kind in header.columns.items() if name != "image"} == {
        field.name: str(field.type) for field in table.schema if field.name != "image"
    }


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": np.array([1, "a", None], object)}, "array 'y' of 'd.npz' holds Python objects, which only pickle can"),
        ({"x": np.zeros(3), "y": np.zeros(2)}, "different numbers of rows: x 3, y 2; list those that belong together"),
        ({"n": np.array(3)}, "array 'n' of 'd.npz' is a single value and has no rows"),
        ({"c": np.zeros(2, complex)}, "array 'c' of 'd.npz' has dtype complex128"),
        ({"r": np.zeros(2, [("a", int)])}, "neither a number, nor text, nor a time"),
        ({"e": np.zeros((2, 0))}, "which are empty"),
        ({}, "holds no array"),
    ],
)
def test_bad_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], words: str) -> None:
    dataset = saved(tmp_path, **arrays)
    for act in (dataset.header, dataset.read):
        with pytest.raises(InputError, match="npz") as caught:
            act(Access(tmp_path))
        assert words in str(caught.value)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return open, (str(tmp_path / "sprung"), "w")  # type: ignore[return-value]

    dataset = saved(tmp_path, a=np.array([Trap()], object))
    with pytest.raises(InputError, match="Python objects"):
        dataset.read(Access(tmp_path))
    assert not (tmp_path / "sprung").exists()


def test_some_arrays_only(tmp_path: Path) -> None:
    saved(tmp_path, x=np.zeros(3), y=np.zeros(2), objects=np.array([None], object))
    dataset = Npz(path="d.npz", arrays=("x",))
    assert dataset.header(Access(tmp_path)).rows == 3
    assert dataset.read(Access(tmp_path)).column_names == ["x"]
    with pytest.raises(InputError, match="no column 'z'"):
        Npz(path="d.npz", arrays=("z",)).read(Access(tmp_path))


def test_a_zip_that_is_no_npz(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InputError, match="can't be read as npz"):
        Npz(path="d.npz").read(Access(tmp_path))


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"is a single numpy array \(.npy\)"):
        Npz(path="d.npy").read(Access(tmp_path))
