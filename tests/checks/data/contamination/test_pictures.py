from __future__ import annotations

import base64
import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from evalspec.checks.data.contamination.picture_columns import holds_pictures
from evalspec.checks.data.contamination.pictures import PictureDetector
from evalspec.errors import InputError
from evalspec.sources.reading.arrays import array_column
from evalspec.tables.comparable import is_picture
from tests.checks.data.asking import asked, looked
from tests.stats.sets.test_perceptual import changed, jpeg, scenes, sized


def table(pictures: np.ndarray) -> pa.Table:
    return pa.table({"image": array_column(pictures, "pictures")})


def detector(train: np.ndarray, test: np.ndarray, batch: int = 7) -> PictureDetector:
    made = PictureDetector(asked(table(test), ["image"]), "image", 0.95)
    looked(made, table(train), batch)
    return made


def test_pictures_encoded_again_are_found_and_shown_side_by_side() -> None:
    train, test = scenes(20, 1, 64), scenes(12, 2, 64)
    test[:10] = changed(train[5:15], jpeg(50))
    made = detector(train, test)
    (level,) = made.levels()
    assert level.metric == "near_duplicates"
    assert level.train_row["train"].tolist() == [*range(5, 15), -1, -1]
    assert (level.closeness["train"][:10] > 0.95).all() and np.isnan(level.closeness["train"][10:]).all()
    pairs = made.pairs()
    assert [(pair.test_row, pair.train_row) for pair in pairs] == [(row, row + 5) for row in range(8)]
    for pair in pairs:
        assert pair.train.title == f"train, row {pair.train_row}"
        assert base64.b64decode(pair.test.image or "")[1:4] == base64.b64decode(pair.train.image or "")[1:4] == b"PNG"
        assert pair.test.fields["correlation"] == pair.train.fields["correlation"]


@pytest.mark.parametrize("form", ["float", "channels first", "grey", "larger"])
def test_pictures_of_another_form_are_compared(form: str) -> None:
    train = scenes(10, 1, 64)
    test = changed(train, jpeg(80))
    other = {
        "float": test.astype(np.float32) / 255.0,
        "channels first": np.ascontiguousarray(np.moveaxis(test, 3, 1)),
        "grey": test.mean(axis=3).astype(np.uint8),
        "larger": changed(test, sized(1.5)),
    }[form]
    assert detector(train, other).levels()[0].rows.all()


def test_the_chance_level_is_that_of_the_test_pictures_among_themselves() -> None:
    pictures = scenes(10, 1, 64)
    made = detector(scenes(4, 3, 64), np.concatenate([pictures, changed(pictures[:2], jpeg(60))]))
    assert made.chance == pytest.approx(4 / 12)
    assert not made.levels()[0].rows.any()
    assert "33.3 % of the test pictures look like another" in made.levels()[0].method
    assert "33.3 % of the pictures of test look like a different one of test: if these are not" in made.notes[0]
    assert "raise `picture_similarity:` (here 0.95)" in made.notes[0]


def test_blank_and_missing_pictures_are_counted() -> None:
    pictures = scenes(5, 1, 64)
    pictures[2] = 240
    made = detector(pictures, pictures)
    assert made.levels()[0].rows.tolist() == [True, True, False, True, True]
    assert made.notes == ("1 pictures of test are missing or of one tone: only exact copies are found.",)
    image = table(pictures).column("image").combine_chunks()
    gap = pa.table({"image": image.take(pa.array([0, None, 1]))})
    lost = PictureDetector(asked(gap, ["image"]), "image", 0.95)
    looked(lost, gap)
    assert lost.levels()[0].rows.tolist() == [True, False, True]


def test_what_is_a_picture() -> None:
    def tensor(*shape: int, kind: pa.DataType | None = None) -> pa.DataType:
        return pa.fixed_shape_tensor(kind or pa.uint8(), shape)

    assert all(is_picture(one) for one in (tensor(32, 32), tensor(32, 40, 3), tensor(3, 64, 64), tensor(40, 40, 1)))
    assert is_picture(tensor(64, 64, kind=pa.float32()))
    others = [tensor(31, 40), tensor(40, 40, 2), tensor(40, 40, 40, 3), tensor(64), pa.list_(pa.uint8(), 4096)]
    assert not any(is_picture(one) for one in (*others, pa.string(), tensor(40, 40, kind=pa.bool_())))


def files(pictures: list[np.ndarray], kind: str, quality: int = 90) -> list[bytes]:
    found = []
    for one in pictures:
        data = io.BytesIO()
        Image.fromarray(one).save(data, kind, quality=quality)
        found.append(data.getvalue())
    return found


@pytest.mark.parametrize("packed", [False, True], ids=["bytes", "struct"])
def test_files_in_bytes_are_pictures_of_any_size(packed: bool) -> None:
    """As Hugging Face writes them to parquet, beside a training set of decoded arrays."""
    train, test = scenes(12, 1, 64), scenes(8, 2, 64)
    mixed = [changed(train[i : i + 1], sized(1 + i / 4))[0] for i in range(5)]
    mixed[4] = mixed[4].mean(axis=2).astype(np.uint8)
    data: list[bytes | None] = [*files([*mixed, *test[5:]], "jpeg"), None]
    column = pa.array([{"bytes": one, "path": None} for one in data]) if packed else pa.array(data)
    rows = pa.table({"image": column})
    assert holds_pictures(rows.column("image"))
    made = PictureDetector(asked(rows, ["image"]), "image", 0.95)
    looked(made, table(train), 5)
    assert made.levels()[0].train_row["train"].tolist() == [0, 1, 2, 3, 4, -1, -1, -1, -1]
    first = made.pairs()[0]
    assert first.test.image and first.train.image and "image" not in first.test.fields
    back = PictureDetector(asked(table(train), ["image"]), "image", 0.95)
    looked(back, rows)
    assert np.flatnonzero(back.levels()[0].rows).tolist() == [0, 1, 2, 3, 4]


def test_bytes_that_are_no_picture_are_none_or_refused() -> None:
    assert not holds_pictures(pa.chunked_array([[b"plain bytes", None]]))
    assert not holds_pictures(pa.chunked_array([pa.array([None], pa.binary())]))
    broken = files([scenes(1, 1, 64)[0]], "png")[0][:200]
    rows = pa.table({"image": [broken]})
    assert holds_pictures(rows.column("image"))
    with pytest.raises(InputError, match="truncated, damaged or not an image"):
        PictureDetector(asked(rows, ["image"]), "image", 0.95)
