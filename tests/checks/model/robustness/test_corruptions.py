"""Corruptions do what they say, against independent implementations, and leave types and other columns alone."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.robustness.corruptions import NEEDS, Material
from evalspec.checks.model.robustness.pictures import (
    BLUR_PIXELS,
    COVERED,
    DEGREES,
    JPEG_QUALITY,
    NOISE_SD,
    PICTURES,
    blur,
    brightness,
    contrast,
    gaussian_noise,
    jpeg,
    occlusion,
    rotation,
)
from evalspec.checks.model.robustness.sound import GAIN_DB, SIGNAL_TO_NOISE_DB, audio_noise, gain, time_shift
from evalspec.checks.model.robustness.tables import MISSING, SLIPPED, SLIPS, SWAPPED
from evalspec.checks.model.robustness.text import KEPT, ODD, TYPOS, CodePoints
from evalspec.errors import InputError


def pictures(n: int = 6, side: int = 32, channels: int = 1) -> np.ndarray:
    """Smooth pictures in 0..1, shape (n, side, side, channels)."""
    y, x = np.mgrid[:side, :side] / side
    waves = [0.5 + 0.4 * np.sin(6 * x * (i + 1) / n + c) * np.cos(5 * y + i) for i in range(n) for c in range(channels)]
    return np.moveaxis(np.array(waves).reshape(n, channels, side, side), 1, 3)


def pixels(table: pa.Table) -> np.ndarray:
    column = table["p"].combine_chunks()
    if isinstance(column.type, pa.FixedShapeTensorType):
        return np.asarray(column.to_numpy_ndarray(), dtype=np.float64)
    return np.array(column.to_pylist(), dtype=np.float64)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def material(table: pa.Table, *columns: str, **fields: object) -> Material:
    given = {"shape": None, "range": None, "seed": 5} | fields
    return Material(table, columns or tuple(table.column_names), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("severity", [1, 5])
def test_blur_is_scipys(severity: int) -> None:
    from scipy.ndimage import gaussian_filter

    given = pictures()
    sigma = BLUR_PIXELS[severity - 1]
    expected = np.stack([
        gaussian_filter(one[..., 0], sigma, mode="nearest", radius=max(1, int(np.ceil(3 * sigma)))) for one in given
    ])  # fmt: skip
    assert np.allclose(blur(given, severity, rng())[..., 0], expected, atol=1e-12)


@pytest.mark.parametrize("severity", [1, 5])
def test_rotation_is_scipys(severity: int) -> None:
    from scipy.ndimage import rotate

    given = pictures(20)
    turned = rotation(given, severity, rng())[..., 0]
    ways = (-DEGREES[severity - 1], DEGREES[severity - 1])
    plain = given[..., 0]
    both = [np.stack([rotate(one, way, order=1, mode="nearest", reshape=False) for one in plain]) for way in ways]
    off = np.array([np.abs(turned - each).mean(axis=(1, 2)) for each in both])
    assert (off.min(axis=0) < 2e-3).all()
    assert 0 < int(off.argmin(axis=0).sum()) < len(given), "all turned the same way"


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("severity", [1, 3, 5])
def test_jpeg_is_pillows(channels: int, severity: int) -> None:
    from PIL import Image

    given = np.round(pictures(3, 24, channels) * 255)
    made = jpeg(given / 255, severity, rng()) * 255
    for one, ours in zip(given.astype(np.uint8), made, strict=True):
        file = io.BytesIO()
        Image.fromarray(one[..., 0] if channels == 1 else one).save(
            file, "jpeg", quality=JPEG_QUALITY[severity - 1], subsampling=0
        )
        theirs = np.asarray(Image.open(file), dtype=np.float64).reshape(ours.shape)
        # Pillow works in whole numbers: a coefficient between two steps may go the other way.
        assert np.abs(np.clip(np.round(ours), 0, 255) - theirs).mean() < 1.5


def test_noise_light_and_contrast() -> None:
    given = np.full((200, 16, 16, 1), 0.5)
    assert gaussian_noise(given, 3, rng()).std() == pytest.approx(NOISE_SD[2], rel=0.02)
    lit = brightness(given, 2, rng())
    assert set(np.round(lit.reshape(200, -1)[:, 0], 6)) == {0.3, 0.7}
    varied = pictures()
    flat = contrast(varied, 5, rng())
    assert np.allclose(flat.mean(axis=(1, 2, 3)), varied.mean(axis=(1, 2, 3)))
    assert np.allclose(flat.std(axis=(1, 2, 3)), 0.15 * varied.std(axis=(1, 2, 3)))


def test_a_rectangle_covers_its_share() -> None:
    given = np.zeros((50, 40, 40, 1))
    covered = occlusion(given, 5, rng())
    assert np.allclose((covered == 0.5).mean(axis=(1, 2, 3)), COVERED[4], atol=0.02)
    assert len(np.unique([np.flatnonzero(one)[0] for one in covered])) > 20, "always at the same place"


@pytest.mark.parametrize("name", sorted(PICTURES))
def test_worse_with_severity_and_the_same_again(name: str) -> None:
    levels = (pictures(8, 16)[..., 0] * 255).astype(np.uint8).tolist()
    table = pa.table({"p": pa.array(levels, pa.list_(pa.list_(pa.uint8())))})

    def made(severity: int) -> np.ndarray:
        return pixels(material(table).corrupted(name, severity))

    off = [np.abs(made(severity) - pixels(table)).mean() for severity in range(1, 6)]
    assert off == sorted(off)
    assert off[0] > 0
    assert np.array_equal(made(3), made(3))


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float32(), 48), pa.list_(pa.int16()), pa.list_(pa.list_(pa.list_(pa.uint8(), 3), 4), 4),
        pa.fixed_shape_tensor(pa.float64(), (3, 4, 4)),
    ],
)  # fmt: skip
def test_pictures_keep_their_type(kind: pa.DataType) -> None:
    values = np.arange(5 * 48).reshape(5, 48) % 16
    if isinstance(kind, pa.FixedShapeTensorType):
        column: pa.Array = pa.FixedShapeTensorArray.from_numpy_ndarray(values.reshape(5, 3, 4, 4).astype(np.float64))
    else:
        nested = values.reshape(5, 4, 4, 3) if pa.types.is_nested(kind.value_type) else values
        column = pa.array(nested.tolist(), type=kind)
    table = pa.table({"p": column, "label": list(range(5))})
    made = material(table, "p", shape=(4, 4, 3), range=(0.0, 16.0)).corrupted("gaussian_noise", 5)
    assert made.schema == table.schema
    assert made["label"].equals(table["label"])
    flat = pixels(made)
    assert flat.min() >= 0
    assert flat.max() <= 16
    assert not np.array_equal(flat.reshape(5, -1), values)


def mixed(n: int = 4000) -> pa.Table:
    draw = np.random.default_rng(1)
    return pa.table({
        "whole": pa.array(draw.integers(0, 100, n), pa.int16()),
        "real": pa.array(draw.normal(10, 2, n), pa.float32()),
        "gap": pa.array([None if i % 4 == 0 else float(i) for i in range(n)]),
        "kind": draw.choice(["a", "b", "c"], n).tolist(),
        "coded": pa.array(draw.choice(["x", "y"], n).tolist()).dictionary_encode(),
        "yes": draw.random(n) < 0.5,
    })  # fmt: skip


def differing(before: pa.Table, after: pa.Table, name: str) -> float:
    return float(np.mean([a != b for a, b in zip(before[name].to_pylist(), after[name].to_pylist(), strict=True)]))


def test_missing_cells() -> None:
    made = material(mixed()).corrupted("missing", 4)
    for name in ("whole", "real", "kind", "coded", "yes"):
        assert made[name].null_count / 4000 == pytest.approx(MISSING[3], abs=0.03)
    assert made["gap"].null_count / 4000 == pytest.approx(0.25 + 0.75 * MISSING[3], abs=0.03)
    assert made.schema == mixed().schema


def test_noise_on_numbers_only() -> None:
    before = mixed()
    made = material(before).corrupted("number_noise", 3)
    assert made.schema == before.schema
    for name in ("kind", "coded", "yes"):
        assert made[name].equals(before[name])
    assert made["gap"].null_count == 1000
    shift = np.asarray(made["real"]) - np.asarray(before["real"])
    assert shift.std() == pytest.approx(0.2 * 2.0, rel=0.1)


def test_a_slipped_unit_is_in_one_column_of_a_row() -> None:
    before = pa.table({"a": np.ones(5000), "b": np.ones(5000)})
    made = material(before).corrupted("unit_slip", 5)
    a, b = np.asarray(made["a"]), np.asarray(made["b"])
    assert np.mean((a != 1) | (b != 1)) == pytest.approx(SLIPPED[4], abs=0.02)
    assert not ((a != 1) & (b != 1)).any()
    assert set(a[a != 1]) == set(SLIPS)


def test_whole_numbers_stay_in_their_range() -> None:
    before = pa.table({"a": pa.array([120] * 500, pa.int8()), "b": pa.array([2**62] * 500, pa.int64())})
    made = material(before).corrupted("unit_slip", 5)
    assert made.schema == before.schema
    assert max(made["a"].to_pylist()) == 127


def test_categories_are_swapped_for_others() -> None:
    before = mixed()
    made = material(before).corrupted("category_swap", 4)
    assert made.schema == before.schema
    for name in ("kind", "coded", "yes"):
        assert differing(before, made, name) == pytest.approx(SWAPPED[3], abs=0.03)
        assert set(made[name].to_pylist()) == set(before[name].to_pylist())
    assert made["whole"].equals(before["whole"])


WORDS = "the quick brown fox, (jumps) over lazy dogs again"
TEXT = [WORDS, "", "x", "Ünïcode 世界 stays whole", None, *[WORDS] * 300]


def texts(name: str, severity: int) -> list[str | None]:
    return material(pa.table({"t": TEXT})).corrupted(name, severity)["t"].to_pylist()  # type: ignore[no-any-return]


def test_a_typo_stays_in_its_word() -> None:
    made = texts("typos", 5)
    assert made[1] == ""
    assert made[4] is None
    words = [word for text in made[5:] for word in (text or "").split(" ")]
    given = WORDS.split(" ") * 300
    assert len(words) == len(given)
    wrong = [(old, new) for old, new in zip(given, words, strict=True) if old != new]
    # One letter doubled, or swapped with one like it, may leave a word as it was.
    assert len(wrong) / len(given) == pytest.approx(TYPOS[4], abs=0.04)
    assert all(abs(len(old) - len(new)) <= 1 for old, new in wrong)


def test_case_and_lookalikes_and_the_end() -> None:
    assert texts("case", 5)[5] == WORDS.upper()
    odd = texts("unicode", 4)
    assert all(len(new or "") == len(old or "") for old, new in zip(TEXT, odd, strict=True))
    changed = np.mean([a != b for a, b in zip("".join(TEXT[5:]), "".join(odd[5:]), strict=True)])  # type: ignore[arg-type]
    assert 0.3 * ODD[3] < changed < ODD[3]
    cut = texts("truncation", 5)
    assert cut[5] == WORDS[: int(KEPT[4] * len(WORDS))]
    assert cut[1] == ""
    assert cut[2] == "x"


def test_texts_come_back() -> None:
    given = ["a b", "", "世界 😀", " lead", "\u0000"]
    assert CodePoints.of(given).strings() == given
    assert CodePoints.of(["", ""]).strings() == ["", ""]
    assert CodePoints.of(["a b", "c"]).words().tolist() == [0, -1, 1, 2]


def test_sound() -> None:
    given = np.sin(np.linspace(0, 60, 4000))[None].repeat(40, axis=0) * 0.3
    noisy = audio_noise(given, 3, rng())
    ratio = 10 * np.log10((given**2).mean() / ((noisy - given) ** 2).mean())
    assert ratio == pytest.approx(SIGNAL_TO_NOISE_DB[2], abs=0.3)
    louder = gain(given, 1, rng())
    steps = 20 * np.log10(np.abs(louder).max(axis=1) / np.abs(given).max(axis=1))
    assert set(np.round(steps, 6)) == {-GAIN_DB[0], GAIN_DB[0]}
    moved = time_shift(given, 3, rng())
    late = moved[:, 0] == 0.0
    assert 0 < late.sum() < 40
    assert np.array_equal(moved[late][0, 400:], given[0, :3600])


def test_silence_is_in_the_middle_of_the_range() -> None:
    table = pa.table({"s": [[0.0, 0.5, -0.5, 0.0]] * 10})
    made = np.array(material(table, range=(-1.0, 1.0)).corrupted("time_shift", 5)["s"].to_pylist())
    assert {tuple(row) for row in made} == {(0.0, 0.0, 0.5, -0.5), (0.5, -0.5, 0.0, 0.0)}


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_no_column_that_fits(name: str) -> None:
    fits = {"picture": "t", "sound": "t", "text": "n", "number": "t", "category": "n", "cell": "l"}
    table = pa.table({"t": ["a b"], "n": [1.5], "l": [[1.0, 2.0]]})
    with pytest.raises(InputError, match=f"{name} changes .*, and the model reads none"):
        material(table, fits[NEEDS[name]]).corrupted(name, 1)


def test_lists_that_are_no_pictures() -> None:
    with pytest.raises(InputError, match=r"have 5 values, and their height and width are unknown"):
        material(pa.table({"p": [[1.0] * 5]})).corrupted("blur", 1)
    with pytest.raises(InputError, match=r"`shape: \[2, 3\]` does not fit"):
        material(pa.table({"p": [[1.0] * 5]}), shape=(2, 3)).corrupted("blur", 1)
    with pytest.raises(InputError, match="which is not a picture"):
        material(pa.table({"p": [[[[1.0] * 5] * 2] * 2]})).corrupted("blur", 1)


def test_equal_values_are_no_reason_to_fail() -> None:
    table = pa.table({"p": [[3.0] * 64] * 4, "n": [1.0] * 4, "c": ["a"] * 4})
    for name in ("gaussian_noise", "blur", "jpeg", "number_noise", "category_swap"):
        assert len(material(table).corrupted(name, 3)) == 4


@pytest.mark.parametrize(
    ("corruption", "column", "rows"),
    [
        ("case", ["\u043f\u0440\u0438\u0432\u0435\u0442"] * 3, 3),
        ("case", ["\u4f60\u597d"] * 3, 0),
        ("unicode", ["\u4f60\u597d"] * 3, 0),
        ("typos", ["a b c"] * 3, 0),
        ("truncation", ["a whole text"] * 3, 3),
        ("category_swap", ["red"] * 3, 0),
        ("number_noise", [1.5] * 3, 0),
        ("number_noise", [1.5, None, float("nan"), 2.5, 4.0, 5.0], 4),
        ("contrast", [[0.0] * 16] * 3, 0),
        ("contrast", [[0.0] * 16, [1.0] + [0.0] * 15], 1),
        ("missing", pa.array([None] * 3, pa.int64()), 0),
    ],
)  # fmt: skip
def test_rows_that_a_copy_changes_are_counted(corruption: str, column: object, rows: int) -> None:
    given = material(pa.table({"c": column}), range=(0.0, 1.0))
    assert given.changed(given.corrupted(corruption, 5), corruption) == rows


def test_case_in_any_script_that_has_two() -> None:
    """Also where the other case is two letters: those stay, so that a text keeps its length."""
    given = material(pa.table({"t": ["\u041c\u0438\u0440 Stra\u00dfe \u03b1"]}))
    assert given.corrupted("case", 5)["t"].to_pylist() == ["\u043c\u0418\u0420 sTRA\u00dfE \u0391"]
