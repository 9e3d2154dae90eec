from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources.images import Images

pytest.importorskip("PIL")


def put(path: Path, pixels: np.ndarray) -> np.ndarray:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def grey(seed: int, shape: tuple[int, ...] = (4, 6)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def test_folders_are_labels(tmp_path: Path) -> None:
    dog = put(tmp_path / "set" / "dog" / "deep" / "1.png", grey(0))
    cats = [put(tmp_path / "set" / "cat" / f"{i}.png", grey(i)) for i in (1, 2)]
    (tmp_path / "set" / "cat" / "notes.txt").write_text("x")
    dataset = Images(path="set", label="label")
    table = dataset.read(Access(tmp_path))
    assert table["path"].to_pylist() == ["cat/1.png", "cat/2.png", "dog/deep/1.png"]
    assert table["label"].to_pylist() == ["cat", "cat", "dog"]
    assert table.schema.field("image").type == pa.fixed_shape_tensor(pa.uint8(), [4, 6])
    assert (table["image"].combine_chunks().to_numpy_ndarray() == np.stack([*cats, dog])).all()
    header = dataset.header(Access(tmp_path))
    assert header.rows == 3
    assert header.columns == {"image": "tensor<uint8>[4, 6]", "path": "string", "label": "string"}
    assert dataset.read(Access(tmp_path), ["label"]).column_names == ["label"]


def test_metadata_is_joined_by_file_name(tmp_path: Path) -> None:
    for i in range(3):
        put(tmp_path / "set" / f"{i}.png", grey(i, (4, 6, 3)))
    (tmp_path / "meta.csv").write_text("file_name,label,lux\n2.png,c,30\n0.png,a,10\n1.png,b,20\n")
    dataset = Images(path="set", metadata="meta.csv", label="label")
    table = dataset.read(Access(tmp_path))
    assert table.select(["path", "label", "lux"]).to_pylist() == [
        {"path": f"{i}.png", "label": "abc"[i], "lux": 10 * (i + 1)} for i in range(3)
    ]
    assert dataset.header(Access(tmp_path)).columns["lux"] == "int64"
    assert dataset.files(Access(tmp_path))[-1].name == "meta.csv"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("file_name,a\n0.png,1\n", "1 images have no row in metadata 'meta.csv', such as '1.png'"),
        ("file_name,a\n0.png,1\n1.png,2\n9.png,3\n", "names 1 images that don't exist: '9.png'"),
        ("file_name,a\n0.png,1\n0.png,2\n1.png,3\n", "two rows for '0.png'"),
        ("name,a\n0.png,1\n", "no column 'file_name' (choices: name, a)"),
        ("file_name,image\n0.png,1\n1.png,1\n", "a column 'image', a name that images already use"),
        ("file_name,a\n0.png\n", "can't be read as csv"),
    ],
)
def test_metadata_that_doesnt_fit(tmp_path: Path, rows: str, words: str) -> None:
    for i in range(2):
        put(tmp_path / "set" / f"{i}.png", grey(i))
    (tmp_path / "meta.csv").write_text(rows)
    with pytest.raises(InputError) as caught:
        Images(path="set", metadata="meta.csv").read(Access(tmp_path))
    assert words in str(caught.value)


def test_several_sizes_and_kinds(tmp_path: Path) -> None:
    put(tmp_path / "sizes" / "a.png", grey(0))
    put(tmp_path / "sizes" / "b.png", grey(0, (5, 6)))
    with pytest.raises(InputError, match=r"'sizes/a.png' is 4 x 6 .*'sizes/b.png' 5 x 6; write `size:"):
        Images(path="sizes").read(Access(tmp_path))
    table = Images(path="sizes", size=(3, 2)).read(Access(tmp_path))
    assert table.schema.field("image").type == pa.fixed_shape_tensor(pa.uint8(), [3, 2])
    put(tmp_path / "kinds" / "a.png", grey(0))
    put(tmp_path / "kinds" / "b.png", grey(0, (4, 6, 3)))
    with pytest.raises(InputError, match=r"'kinds/a.png' is grey of 8 bits, 'kinds/b.png' colour of 8 bits"):
        Images(path="kinds").read(Access(tmp_path))
    for colours, shape in (("rgb", [4, 6, 3]), ("grey", [4, 6])):
        table = Images(path="kinds", colours=colours).read(Access(tmp_path))  # type: ignore[arg-type]
        assert table.schema.field("image").type.shape == shape


def test_sixteen_bits_stay(tmp_path: Path) -> None:
    deep = put(tmp_path / "set" / "a.png", np.array([[0, 70], [40_000, 65_535]], np.uint16))
    table = Images(path="set").read(Access(tmp_path))
    assert (table["image"].combine_chunks().to_numpy_ndarray()[0] == deep).all()


def test_bad_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.png").write_bytes(b"x")
    for path, words in (
        ("empty", "there is no image in 'empty'"),
        ("file.png", "is a file"),
        ("none", "there is no file"),
    ):
        for act in (Images(path=path).read, Images(path=path).header):
            with pytest.raises(InputError, match=words):
                act(Access(tmp_path))


@pytest.mark.parametrize("kind", ["png", "jpg", "bmp", "gif", "tiff"])
@pytest.mark.parametrize("keep", [0, 20, 0.5])
def test_unreadable_images_are_named(tmp_path: Path, kind: str, keep: float) -> None:
    put(tmp_path / "set" / f"a.{kind}", grey(0, (64, 64)))
    put(tmp_path / "set" / f"b.{kind}", grey(1, (64, 64)))
    bad = tmp_path / "set" / f"b.{kind}"
    data = bad.read_bytes()
    bad.write_bytes(data[: int(keep if keep in (0, 20) else len(data) * keep)])
    with pytest.raises(
        InputError, match=f"image 'set/b.{kind}' can't be read: it is truncated, damaged or not an image"
    ):
        Images(path="set").read(Access(tmp_path))


def test_a_picture_that_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    put(tmp_path / "set" / "a.png", grey(0, (64, 64)))
    for limit in (3000, 1000):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(InputError, match=r"'set/a.png' is too large to be read"):
            Images(path="set").read(Access(tmp_path))


def test_batches_are_the_rows_of_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded a few at a time, with the same values, types and order."""
    for name in ("a", "b"):
        for index in range(4):
            put(tmp_path / "pets" / name / f"{index}.png", grey(index))
    access, images = Access(tmp_path), Images(path="pets")
    # Three images of 4 x 6 values, and no fourth.
    monkeypatch.setattr("evalspec.sources.images.DECODED_BYTES", 90)
    for columns in (None, ["image"], ["label", "image"], ["path"]):
        batches = list(images.batches(access, columns))
        assert pa.Table.from_batches(batches).equals(images.read(access, columns))
        assert len(batches) == (1 if columns == ["path"] else 3)
    put(tmp_path / "pets" / "b" / "3.png", grey(3, (5, 6)))
    with pytest.raises(InputError, match="several sizes"):
        list(images.batches(access))
