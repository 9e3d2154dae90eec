"""Pictures that are the same to the eye: what is found and how often, what is not."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from scipy.fft import dctn

from evalspec.errors import InputError
from evalspec.stats.sets.perceptual import (
    FURTHEST,
    PictureSearch,
    Signatures,
    correlations,
    cut_correlations,
    dct_hashes,
    shrunk,
    signed,
)

Change = Callable[[Image.Image], Image.Image]
SIMILARITY = 0.95


def signatures(pictures: np.ndarray, span: float) -> Signatures:
    return signed(shrunk(pictures), span)


def scenes(n: int, seed: int = 0, side: int = 96) -> np.ndarray:
    """Pictures with the spectrum of photographs, in colour, shape (n, side, side, 3)."""
    rng = np.random.default_rng(seed)
    waves = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side))
    waves[0, 0] = 1.0
    layers = np.fft.ifft2(np.fft.fft2(rng.normal(size=(n, 4, side, side))) / waves**1.2).real
    layers /= layers.std(axis=(2, 3), keepdims=True)
    colours = layers[:, :1] + 0.5 * layers[:, 1:]
    return np.moveaxis(np.clip(128 + 45 * colours, 0, 255).astype(np.uint8), 1, 3)


def changed(pictures: np.ndarray, change: Change) -> np.ndarray:
    return np.stack([np.asarray(change(Image.fromarray(one))) for one in pictures])


def jpeg(quality: int) -> Change:
    def encode(picture: Image.Image) -> Image.Image:
        data = io.BytesIO()
        picture.save(data, "JPEG", quality=quality)
        return Image.open(data)

    return encode


def sized(factor: float) -> Change:
    return lambda one: one.resize((round(one.width * factor), round(one.height * factor)), Image.Resampling.BICUBIC)


def cut(left: float, top: float, right: float, bottom: float) -> Change:
    def crop(one: Image.Image) -> Image.Image:
        w, h = one.size
        return one.crop((round(w * left), round(h * top), round(w * (1 - right)), round(h * (1 - bottom))))

    return crop


def found(changes: Change, n: int = 60) -> float:
    """Share of pictures that are found after a change, and none of them in the place of another."""
    pictures = scenes(n)
    search = PictureSearch(signatures(changed(pictures, changes), 255.0), SIMILARITY)
    search.add(signatures(pictures, 255.0))
    hit = search.train_row >= 0
    assert (search.train_row[hit] == np.flatnonzero(hit)).all()
    return float(hit.mean())


@pytest.mark.parametrize(
    "change",
    [jpeg(90), jpeg(50), jpeg(20), sized(0.5), sized(1.7), lambda one: one.convert("L"),
     lambda one: ImageEnhance.Brightness(one).enhance(1.15), lambda one: ImageEnhance.Contrast(one).enhance(0.7)],
    ids=["jpeg 90", "jpeg 50", "jpeg 20", "half", "larger", "grey", "brighter", "less contrast"],
)  # fmt: skip
def test_the_same_picture_is_found(change: Change) -> None:
    assert found(change) == 1.0


@pytest.mark.parametrize(
    ("change", "least"),
    [(cut(0.02, 0.02, 0.02, 0.02), 0.9), (cut(0, 0, 0.04, 0.04), 0.85), (cut(0.05, 0.05, 0.05, 0.05), 0.7),
     (cut(0.1, 0.1, 0.1, 0.1), 0.0)],
    ids=["2 %", "corner", "5 %", "10 %"],
)  # fmt: skip
def test_most_small_crops_are_found(change: Change, least: float) -> None:
    assert found(change) >= least


@pytest.mark.parametrize(
    "change",
    [lambda one: one.transpose(Image.Transpose.FLIP_LEFT_RIGHT), lambda one: one.transpose(Image.Transpose.ROTATE_90)],
    ids=["mirrored", "turned"],
)
def test_mirrored_and_turned_pictures_are_not(change: Change) -> None:
    assert found(change) == 0.0


def test_other_pictures_are_not() -> None:
    search = PictureSearch(signatures(scenes(100, seed=1, side=48), 255.0), SIMILARITY)
    search.add(signatures(scenes(300, seed=2, side=48), 255.0))
    assert (search.train_row == -1).all() and np.isnan(search.closeness).all()


def test_photographs_cut_from_one_place_and_from_others() -> None:
    """Real ones: tiles of scikit-learn's two photographs, encoded again; no tile is found in another's place."""
    from sklearn.datasets import load_sample_images

    tiles = np.stack(
        [
            photo[y : y + 96, x : x + 96]
            for photo in load_sample_images().images
            for y in range(0, 384, 96)
            for x in range(0, 576, 96)
        ]
    )
    clean = signatures(tiles, 255.0)
    search = PictureSearch(signatures(changed(tiles, jpeg(60)), 255.0), SIMILARITY)
    search.add(clean)
    shows = ~clean.flat
    assert shows.sum() >= 40
    assert (search.train_row[shows] == np.flatnonzero(shows)).mean() >= 0.95
    among = PictureSearch(clean, SIMILARITY)
    among.add(clean, same=True)
    assert (among.train_row == -1).all()


def test_hashes_are_those_of_the_textbook() -> None:
    """ImageHash's `phash` on 32 x 32 greys: scipy's DCT, the lowest 8 x 8, above their median."""
    greys = np.random.default_rng(3).normal(128, 40, (50, 32, 32)).astype(np.float32)
    waves = np.stack([dctn(one.astype(np.float64), type=2)[:8, :8] for one in greys])
    bits = waves > np.median(waves, axis=(1, 2), keepdims=True)
    ours = np.unpackbits(dct_hashes(greys)[:, None].view(np.uint8), axis=1).reshape(50, 8, 8)
    np.testing.assert_array_equal(ours, bits)


def test_every_pair_within_the_distance_is_looked_at() -> None:
    """However the pictures come: in one portion, or one by one, or with others in between."""
    pictures = scenes(40)
    ours = signatures(changed(pictures[::2], jpeg(40)), 255.0)
    whole, single = PictureSearch(ours, SIMILARITY), PictureSearch(ours, SIMILARITY)
    whole.add(signatures(pictures, 255.0))
    for row in range(40):
        single.add(signatures(pictures[row : row + 1], 255.0), row)
    assert whole.train_row.tolist() == list(range(0, 40, 2)) == single.train_row.tolist()
    np.testing.assert_allclose(whole.closeness, single.closeness)
    distances = np.bitwise_count(ours.hashes ^ signatures(pictures[::2], 255.0).hashes)
    assert (distances <= FURTHEST).all()


def test_the_closest_of_several_is_kept() -> None:
    pictures = scenes(3)
    search = PictureSearch(signatures(pictures[:1], 255.0), SIMILARITY)
    search.add(signatures(changed(pictures[:1], jpeg(10)), 255.0), 5)
    search.add(signatures(pictures, 255.0), 100)
    search.add(signatures(changed(pictures[:1], jpeg(20)), 255.0), 200)
    assert search.train_row.tolist() == [100]
    assert search.closeness[0] == pytest.approx(1.0)


def test_pictures_of_one_tone_are_left_out() -> None:
    """Blank scans look alike and are not copies of each other."""
    rng = np.random.default_rng(0)
    blank = np.clip(rng.normal(240, 2, (30, 64, 64)), 0, 255).astype(np.uint8)
    ours = signatures(blank, 255.0)
    assert ours.flat.all()
    search = PictureSearch(ours, SIMILARITY)
    search.add(ours)
    assert (search.train_row == -1).all()


def test_small_versions_are_means_of_areas() -> None:
    pictures = np.random.default_rng(1).integers(0, 256, (4, 96, 64)).astype(np.uint8)
    small = signatures(pictures, 255.0).small
    means = pictures.reshape(4, 32, 3, 32, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(small[:, 0], means, rtol=1e-5)
    odd = np.random.default_rng(2).random((1, 50, 41))
    assert signatures(odd, 1.0).small.mean() == pytest.approx(odd.mean(), rel=1e-5)


def test_values_that_are_not_finite_and_shapes_that_are_no_pictures() -> None:
    pictures = np.random.default_rng(1).random((2, 40, 40))
    pictures[0, 3, 3] = np.nan
    assert signatures(pictures, 1.0).flat.tolist() == [True, False]
    for shape in ((2, 31, 40), (2, 40, 40, 2), (2, 40)):
        with pytest.raises(InputError, match="no perceptual hash"):
            signatures(np.zeros(shape), 1.0)


def test_correlations_of_pairs() -> None:
    small = np.random.default_rng(1).random((3, 3, 32, 32)).astype(np.float32)
    expected = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(small, small[[1, 2, 0]], strict=True)]
    np.testing.assert_allclose(correlations(small, small[[1, 2, 0]]), expected, atol=1e-6)
    np.testing.assert_allclose(correlations(small, 20 + 0.5 * small), 1.0)
    assert (cut_correlations(small, small[[1, 2, 0]]) >= correlations(small, small[[1, 2, 0]])).all()
    assert correlations(np.ones((1, 1, 32, 32), np.float32), small[:1]).tolist() == [0.0]
