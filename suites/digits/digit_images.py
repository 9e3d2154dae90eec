"""The images of the digits suite: who goes into which set, and what the field camera does to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = 8
LEVELS = 16
TEST_PER_DIGIT = 85
TWIN_DISTANCE = 10.0
TWIN_COSINE = 0.985
LAMP_LUX = 250.0
DARK_LUX = 100.0
DIMMEST_LUX = 40.0
BRIGHTEST_LUX = 800.0


@dataclass(frozen=True, slots=True)
class Images:
    """Pictures with what is known of each.

    Args:
        pixels: shape (n, 64), whole grey levels 0..16.
        digit: shape (n,), what is written.
        source: shape (n,), row of the picture in scikit-learn's set.
        lux: shape (n,), light on the scene; below `LAMP_LUX` the picture is darker in proportion.
        occlusion: shape (n,), share of the frame that something covers, 0..1.
        blur: shape (n,), standard deviation of the blur, in pixels; 0: none.
        offset: shape (n,), larger of the displacements to the side and upwards, in pixels.
    """

    pixels: NDArray[np.float64]
    digit: NDArray[np.int64]
    source: NDArray[np.int64]
    lux: NDArray[np.float64]
    occlusion: NDArray[np.float64]
    blur: NDArray[np.float64]
    offset: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.digit)

    def take(self, rows: NDArray[np.int64]) -> Images:
        """These rows, in this order."""
        return Images(**{name: getattr(self, name)[rows] for name in self.__slots__})


def originals() -> Images:
    """All 1,797 pictures of scikit-learn's digits, as they are: under the lamp, nothing in the way."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    n = len(digits.target)
    return Images(
        pixels=digits.data.astype(np.float64),
        digit=digits.target.astype(np.int64),
        source=np.arange(n, dtype=np.int64),
        lux=np.full(n, 500.0),
        occlusion=np.zeros(n),
        blur=np.zeros(n),
        offset=np.zeros(n, dtype=np.int64),
    )


def have_twins(pixels: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows that nearly repeat another row.

    Args:
        pixels: shape (n, 64).

    Returns:
        shape (n,): True where another row lies within `TWIN_DISTANCE` or has a cosine above `TWIN_COSINE`.
    """
    squares = (pixels**2).sum(axis=1)
    products = pixels @ pixels.T
    distance = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0))
    cosine = products / np.sqrt(np.outer(squares, squares))
    twins = (distance < TWIN_DISTANCE) | (cosine > TWIN_COSINE)
    np.fill_diagonal(twins, False)
    return np.asarray(twins.any(axis=1))


def split(images: Images, rng: np.random.Generator) -> tuple[Images, Images]:
    """Train and test: `TEST_PER_DIGIT` of each digit are drawn for the test, the rest trains.

    Pictures with a near twin all train: a twin in the test would be half known.
    """
    single = np.flatnonzero(~have_twins(images.pixels))
    order = rng.permutation(single)
    test = np.sort(np.concatenate([order[images.digit[order] == digit][:TEST_PER_DIGIT] for digit in range(10)]))
    train = np.setdiff1d(np.arange(len(images)), test)
    return images.take(train), images.take(test)


def photograph(images: Images, rng: np.random.Generator, *, dark: bool = True) -> Images:
    """The same pictures through the field camera: displaced, blurred, covered, dim and noisy, each to its own degree.

    Args:
        images: Clean pictures.
        rng: Draws the conditions and the noise.
        dark: Some scenes have less than `DARK_LUX`; otherwise the lamp is always strong enough.

    Returns:
        As many rows in the same order, in whole grey levels, with the conditions that were drawn.
    """
    n = len(images)
    frames = images.pixels.reshape(n, SIDE, SIDE)
    step = rng.integers(-1, 2, size=(n, 2)) * (rng.random((n, 1)) < 0.3)
    frames = _displaced(frames, step)
    sigma = np.where(rng.random(n) < 0.25, rng.uniform(0.4, 0.8, n), 0.0)
    frames = _blurred(frames, sigma)
    frames, occlusion = _covered(frames, rng)
    lux = np.exp(rng.uniform(np.log(LAMP_LUX), np.log(BRIGHTEST_LUX), n))
    if dark:
        dim = rng.random(n) < 0.35
        lux = np.where(dim, np.exp(rng.uniform(np.log(DIMMEST_LUX), np.log(DARK_LUX), n)), lux)
    gain = np.minimum(lux / LAMP_LUX, 1.0)
    noise = rng.normal(0.0, rng.uniform(0.2, 0.9, n)[:, None, None], frames.shape)
    frames = np.clip(np.rint(frames * gain[:, None, None] + noise), 0, LEVELS)
    return Images(
        pixels=frames.reshape(n, SIDE * SIDE),
        digit=images.digit,
        source=images.source,
        lux=lux.round(1).astype(np.float64),
        occlusion=occlusion,
        blur=sigma.round(2).astype(np.float64),
        offset=np.abs(step).max(axis=1),
    )


def _displaced(frames: NDArray[np.float64], step: NDArray[np.int64]) -> NDArray[np.float64]:
    """Moved by at most one pixel each way; what comes in at the edge is black."""
    padded = np.pad(frames, ((0, 0), (1, 1), (1, 1)))
    along = np.arange(SIDE)
    rows = along[None, :] + 1 - step[:, :1]
    columns = along[None, :] + 1 - step[:, 1:]
    return np.asarray(padded[np.arange(len(frames))[:, None, None], rows[:, :, None], columns[:, None, :]])


def _blurred(frames: NDArray[np.float64], sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """A Gaussian over the nearest neighbours, of its own width for each picture; 0 leaves it as it is."""
    side = np.exp(-0.5 / np.maximum(sigma, 1e-9) ** 2)
    middle = (1 / (1 + 2 * side))[:, None, None]
    side = side[:, None, None] * middle
    padded = np.pad(frames, ((0, 0), (1, 1), (0, 0)))
    frames = middle * padded[:, 1:-1] + side * (padded[:, :-2] + padded[:, 2:])
    padded = np.pad(frames, ((0, 0), (0, 0), (1, 1)))
    return np.asarray(middle * padded[:, :, 1:-1] + side * (padded[:, :, :-2] + padded[:, :, 2:]))


def _covered(frames: NDArray[np.float64], rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A black rectangle somewhere in a third of the pictures, and the share of the frame it covers."""
    n = len(frames)
    size = rng.integers(2, 5, size=(n, 2)) * (rng.random((n, 1)) < 0.35)
    corner = rng.integers(0, SIDE + 1 - size)
    along = np.arange(SIDE)[None, :]
    inside = (along[:, None, :] >= corner[:, :, None]) & (along[:, None, :] < (corner + size)[:, :, None])
    cover = inside[:, 0, :, None] & inside[:, 1, None, :]
    return np.where(cover, 0.0, frames), np.round(cover.mean(axis=(1, 2)), 4)
