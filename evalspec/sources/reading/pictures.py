"""Pictures as arrays of one shape."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.sources.reading.arrays import array_column, array_type

if TYPE_CHECKING:
    from PIL.Image import Image

Colours = Literal["grey", "rgb"]
Opener = Callable[[], IO[bytes]]
SMALL_PIXELS = 4 * 2**20
"""Of a picture that is decoded although its head alone is asked for, so that a damaged one is known."""
DAMAGED = (
    OSError, ValueError, SyntaxError, EOFError, LookupError, TypeError, ArithmeticError, MemoryError, AttributeError,
    struct.error, zlib.error,
)  # fmt: skip
"""What pillow raises over files that are no pictures."""
DEEP = ("I;16", "I;16L", "I;16B", "I")


def from_file(path: Path) -> Opener:
    """Opens a file."""
    return lambda: path.open("rb")


def from_bytes(data: bytes) -> Opener:
    """Opens bytes."""
    return lambda: io.BytesIO(data)


def decode(
    openers: Sequence[Opener], names: Sequence[str], *, colours: Colours | None, size: tuple[int, int] | None
) -> pa.Array:
    """Pictures as a tensor column: shape (h, w) for grey, (h, w, 3) for colour, uint8 (uint16 for grey of 16 bits).

    Pixels are as stored: no turning by EXIF, transparency dropped.

    Args:
        openers: Each opens one picture's bytes.
        names: What each is called in errors.
        colours: Make them all grey or all colour; None: as they are.
        size: Height and width to resize to (bilinear); None: as they are.

    Raises:
        InputError: One can't be read, or they have several shapes.
    """
    stack: NDArray[Any] | None = None
    for index, (opener, name) in enumerate(zip(openers, names, strict=True)):
        pixels = _pixels(opener, name, colours, size)
        if stack is None:
            stack = np.empty((len(names), *pixels.shape), pixels.dtype)
        if pixels.shape != stack.shape[1:] or pixels.dtype != stack.dtype:
            raise _differ(names[0], stack[0], name, pixels)
        stack[index] = pixels
    if stack is None:
        raise InputError("there is no picture")
    return array_column(stack, "the column of images")


def pixels_of(data: bytes, name: str) -> NDArray[Any]:
    """Pixels of one picture's file, shape (h, w) for grey, (h, w, 3) for colour.

    Args:
        data: The file.
        name: What it is called in errors.

    Raises:
        InputError: It can't be read, or is too large; pillow isn't here.
    """
    try:
        return _pixels(from_bytes(data), name, None, None)
    except ImportError as error:
        raise InputError("reading pictures needs pillow", remedy="pip install 'evalspec-gate[images]'") from error


def _differ(first: str, a: NDArray[Any], name: str, b: NDArray[Any]) -> InputError:
    if a.ndim != b.ndim or a.dtype != b.dtype:
        kinds = [("grey" if one.ndim == 2 else "colour") + f" of {one.dtype.itemsize * 8} bits" for one in (a, b)]
        message = f"images have several colour modes: {first} is {kinds[0]}, {name} {kinds[1]}"
        return InputError(message, remedy="write `colours: rgb` or `colours: grey`")
    shapes = [f"{one.shape[0]} x {one.shape[1]}" for one in (a, b)]
    message = f"images have several sizes: {first} is {shapes[0]} pixels (height x width), {name} {shapes[1]}"
    return InputError(message, remedy="write `size: [height, width]` to resize them as they are read")


def _pixels(
    opener: Opener, name: str, colours: Colours | None, size: tuple[int, int] | None, *, head: bool = False
) -> NDArray[Any]:
    """A picture's pixels; with ``head`` of a large one only their shape and type are right."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # A picture of suspicious size is refused rather than warned of; a damaged EXIF block takes nothing from it.
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with opener() as stream, Image.open(stream) as picture:
                if not head or picture.width * picture.height <= SMALL_PIXELS:
                    picture.load()
                return (_of_size if head else _converted)(picture, colours, size)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(f"image {name} is too large to be read: {error}") from error
    except DAMAGED as error:
        raise InputError(f"image {name} can't be read: it is truncated, damaged or not an image") from error


def _of_size(picture: Image, colours: Colours | None, size: tuple[int, int] | None) -> NDArray[Any]:
    from PIL import Image as Images

    one = _converted(Images.new(picture.mode, (1, 1)), colours, None)[0, 0]
    height, width = size or (picture.height, picture.width)
    return np.broadcast_to(one, (height, width, *one.shape))


def type_of(opener: Opener, name: str, *, colours: Colours | None, size: tuple[int, int] | None) -> pa.DataType:
    """The type of the column that `decode` makes, from the head of one picture: small files may hold large ones.

    Raises:
        InputError: It can't be read, or is too large.
    """
    pixels = _pixels(opener, name, colours, size, head=True)
    return array_type(pixels.dtype, pixels.shape, name)


def _converted(picture: Image, colours: Colours | None, size: tuple[int, int] | None) -> NDArray[Any]:
    deep = picture.mode in DEEP and colours is None
    if not deep:
        is_grey = picture.mode in ("L", "1", "LA", *DEEP)
        picture = picture.convert("L" if colours == "grey" or (colours is None and is_grey) else "RGB")
    if size is not None:
        from PIL.Image import Resampling

        picture = picture.resize((size[1], size[0]), Resampling.BILINEAR)
    pixels = np.asarray(picture)
    return pixels.astype(np.uint16) if deep else pixels
