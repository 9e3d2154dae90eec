"""State in the files of a checkpoint, by name; nothing in them is run."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from evalspec.errors import InputError
from evalspec.evidence.words import and_list

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

READ = ("npz", "npy", "safetensors", "json", "text", "files of torch.save with tensors and plain values")
REMEDY = "save it as one of these; one that holds no state is named in `round_trip: {may_change: [...]}`"
ZIP, NPY, PICKLE = b"PK\x03\x04", b"\x93NUMPY", b"\x80"
END, LAST_RECORD = b"PK\x05\x06", 22
"""How the last record of an archive begins, and its bytes."""
TORCH_SUFFIXES = frozenset({".pt", ".pth", ".ckpt", ".bin", ".tar"})
MOST_HEADER = 10**8
"""Bytes of the header of a safetensors file at the most; eight letters, read as a number, are more."""
MOST_TEXT = 2**20
"""Bytes of a file that is read as text at the most: more is no note beside a checkpoint."""
PIECE = 2**22
EMPTY = "empty"
"""Type of a dictionary without entries."""
NOTHING = frozenset({EMPTY, "NoneType"})


@dataclass(frozen=True, slots=True)
class StateValue:
    """One tensor or plain value of a checkpoint.

    Args:
        type: Of its elements, or of the value.
        shape: Of a tensor; empty: it is one value.
        digest: Of what it holds.
    """

    type: str
    shape: tuple[int, ...]
    digest: str

    @property
    def is_empty(self) -> bool:
        """True for None, and for what has no elements."""
        return self.type in NOTHING or 0 in self.shape


def read_state(path: Path, name: str) -> dict[str, StateValue]:
    """All that a file of a checkpoint holds, by name.

    A file says by what it begins with how it is read; its name says little, since many are renamed when they are whole.

    Args:
        path: The file.
        name: Of it, for people.

    Raises:
        InputError: It is empty or torn, or can't be read without running code.
    """
    try:
        with path.open("rb") as file:
            start = file.read(16)
        if not start:
            raise InputError(f"{name} is empty")
        return _read(path, name, start)
    except OSError as error:
        raise InputError(f"{name} can't be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise InputError(f"{name} can't be read: there is too little memory for it, or it is torn") from error
    except InputError:
        raise
    except Exception as error:
        # Readers of archives and of arrays have a dozen types for what is torn.
        raise InputError(f"{name} is torn: {error}") from error


def is_whole(path: Path, name: str) -> bool:
    """True if a file can be read, or ends as its format does though what it holds is not read.

    Args:
        path: The file.
        name: Of it, for people.
    """
    try:
        read_state(path, name)
    except InputError:
        return zipfile.is_zipfile(path) or _is_whole_pickle(path)
    return True


def _is_whole_pickle(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(1)
            file.seek(-1, os.SEEK_END)
            return start == PICKLE and file.read(1) == pickle.STOP
    except OSError:
        return False


def _read(path: Path, name: str, start: bytes) -> dict[str, StateValue]:
    if start.startswith(ZIP):
        return _zip(path, name)
    if start.startswith(NPY):
        return _npy(path, name)
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= MOST_HEADER:
        return _safetensors(path, name)
    if start.startswith(PICKLE) and path.suffix in TORCH_SUFFIXES:
        return _torch(path, name)
    return _text(path, name)


def _zip(path: Path, name: str) -> dict[str, StateValue]:
    """Archive of numpy or of torch."""
    try:
        with zipfile.ZipFile(path) as packed:
            members = packed.namelist()
            first = min((one.header_offset for one in packed.infolist()), default=0)
    except zipfile.BadZipFile as error:
        raise InputError(f"{name} is torn: the archive is not complete") from error
    if first or not _ends_as_archive(path):
        raise _unreadable(name, "holds more than one archive")
    if any(one.rpartition("/")[2] == "data.pkl" for one in members):
        return _torch(path, name)
    if not members or not all(one.endswith(".npy") for one in members):
        raise _unreadable(name, "is an archive of other files")
    return _npz(path, name)


def _ends_as_archive(path: Path) -> bool:
    """True if nothing comes after an archive: whoever reads it sees nothing of that."""
    with path.open("rb") as file:
        file.seek(-LAST_RECORD, os.SEEK_END)
        return file.read(len(END)) == END


def _npz(path: Path, name: str) -> dict[str, StateValue]:
    import numpy as np

    found = {}
    with np.load(path, allow_pickle=False) as kept:
        for key in kept.files:
            try:
                found[key] = _array(kept[key])
            except ValueError as error:
                raise _unreadable(name, f"holds pickled objects as {key!r}, which are not read") from error
    return found


def _npy(path: Path, name: str) -> dict[str, StateValue]:
    import tokenize

    import numpy as np

    arrays = []
    try:
        with path.open("rb") as file:
            # Several may have been saved one after the other.
            while file.peek(1):
                arrays.append(_array(np.lib.format.read_array(file, allow_pickle=False)))
    except (ValueError, EOFError, tokenize.TokenError) as error:
        raise _unreadable(name, "is torn, or holds pickled objects, which are not read") from error
    return {"": arrays[0]} if len(arrays) == 1 else {str(place): one for place, one in enumerate(arrays)}


def _array(values: NDArray[Any]) -> StateValue:
    import numpy as np

    # Neither the order of bytes in a number nor that of a matrix's elements is state.
    plain = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
    kind = {"U": "str", "S": "bytes"}.get(plain.dtype.kind)
    if kind is not None:
        # The length of the longest text is no state.
        return StateValue(kind, values.shape, _digest(repr(plain.tolist()).encode()))
    return StateValue(str(plain.dtype), values.shape, _digest(plain.tobytes()))


def _safetensors(path: Path, name: str) -> dict[str, StateValue]:
    """Its header says where each tensor lies."""
    torn = InputError(f"{name} is torn: the safetensors file is not complete")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise torn
        try:
            header = json.loads(file.read(length))
            found = {f"__metadata__.{key}": _plain(value) for key, value in header.pop("__metadata__", {}).items()}
            for key, one in header.items():
                begin, end = one["data_offsets"]
                if not 0 <= begin <= end <= size - 8 - length:
                    raise torn
                file.seek(8 + length + begin)
                found[key] = StateValue(str(one["dtype"]), tuple(one["shape"]), _digest_of(file, end - begin))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise torn from error
    if size > 8 + length + max((one["data_offsets"][1] for one in header.values()), default=0):
        raise _unreadable(name, "holds more than its tensors")
    return found


def _torch(path: Path, name: str) -> dict[str, StateValue]:
    try:
        import torch
    except ImportError as error:
        message = f"{name} is a file of torch.save, and the package torch is not installed"
        raise InputError(message, remedy="pip install 'evalspec-gate[torch]'") from error
    try:
        with torch.serialization.safe_globals(_numpy_parts()):
            objects = _objects(path)
            if objects:
                raise _unreadable(name, f"holds {and_list(objects)}, which can't be read without running code")
            # Of an archive it is known that nothing comes after it.
            loaded = _only(path, name) if not zipfile.is_zipfile(path) else _loaded(path)
        return _by_name(loaded)
    except InputError:
        raise
    except Exception as error:
        # Torch has a dozen types for what is torn or no tensor.
        raise _unreadable(
            name, "is torn, or holds objects beside tensors and plain values, which are not unpickled"
        ) from error


def _loaded(file: Path | BinaryIO) -> object:
    import torch

    return torch.load(file, map_location="cpu", weights_only=True)


def _only(path: Path, name: str) -> object:
    """The one object of a file of before archives."""
    # Without a buffer it is known how much of it was read.
    with path.open("rb", buffering=0) as file:
        loaded = _loaded(file)
        if file.read(1):
            raise _unreadable(name, "holds more than one object")
    return loaded


def _objects(path: Path) -> list[str]:
    """Kinds of what a file of torch holds beside tensors and plain values, as far as its format tells."""
    import torch

    if not zipfile.is_zipfile(path):
        return []
    return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))


def _numpy_parts() -> list[Any]:
    """Parts that torch makes numpy's arrays from, such as the state of its generator; none runs code of the file."""
    import _codecs

    import numpy as np
    from numpy._core import multiarray

    kinds = {type(np.dtype(letter)) for letter in np.typecodes["All"] if letter != "O"}
    made = [multiarray._reconstruct, multiarray.scalar]
    # Before numpy 2 their module had another name.
    older = [(one, f"numpy.core.multiarray.{one.__name__}") for one in made]
    return [*made, *older, np.ndarray, np.dtype, _codecs.encode, *kinds]


def _text(path: Path, name: str) -> dict[str, StateValue]:
    """JSON by its keys; other text as one value."""
    if path.stat().st_size > MOST_TEXT and path.suffix != ".json":
        raise _unreadable(name, "can't be read without running code")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(name, "can't be read without running code") from error
    try:
        return _by_name(json.loads(text))
    except RecursionError as error:
        raise _unreadable(name, "is nested too deeply") from error
    except ValueError as error:
        if path.suffix == ".json":
            raise InputError(f"{name} is torn: the JSON is not complete") from error
        return {"": _plain(text)}


def _by_name(value: Any) -> dict[str, StateValue]:
    """Each tensor and plain value by its path."""
    held: dict[str, list[StateValue]] = {}
    places: dict[tuple[Any, ...], set[str]] = {}
    for name, leaf in _leaves(value, ""):
        held.setdefault(name, []).append(_leaf(leaf))
        place = _place(leaf)
        if place is not None:
            places.setdefault(place, set()).add(name)
    found = {name: one[0] if len(one) == 1 else _together(one) for name, one in held.items()}
    for names in places.values():
        first, *others = sorted(names)
        for name in others:
            # A layer that is tied to another goes other ways once it is a copy.
            found[name] = replace(found[name], type=f"{found[name].type}, one with {first}")
    return found


def _together(values: Sequence[StateValue]) -> StateValue:
    """Values of one path, as of `a.b` beside `b` in `a`: none of them may hide another."""
    told = sorted((one.digest, one.type, one.shape) for one in values)
    return StateValue("values of one name", (len(values),), _digest(repr(told).encode()))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, object]]:
    """Tensors and plain values with their paths; lists of plain values, such as a generator's state, are one."""
    if isinstance(value, Mapping) and value:
        pairs = [(str(key), one) for key, one in value.items()]
    elif isinstance(value, list | tuple) and not all(map(_is_plain, value)):
        pairs = [(str(number), one) for number, one in enumerate(value)]
    else:
        yield name, value
        return
    for key, one in pairs:
        yield from _leaves(one, f"{name}.{key}" if name else key)


def _leaf(value: object) -> StateValue:
    if isinstance(value, Mapping):
        return StateValue(EMPTY, (), "")
    if isinstance(value, set):
        # Their order is chance.
        return replace(_together([_leaf(one) for one in value]), type="set")
    return _plain(value) if _is_plain(value) or isinstance(value, list | tuple) else _tensor(value)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | bytes | bytearray | int | float | complex)


def _plain(value: Any) -> StateValue:
    # Text, so that NaN is like NaN.
    shape = (len(value),) if isinstance(value, list | tuple) else ()
    kind = "list" if shape else type(value).__name__
    return StateValue(kind, shape, _digest(repr(list(value) if shape else value).encode()))


def _tensor(value: object) -> StateValue:
    import numpy as np
    import torch

    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(value))
    if not isinstance(value, torch.Tensor):
        # Types and devices of torch, and little else: they tell all of themselves.
        return StateValue(type(value).__name__, (), _digest(repr(value).encode()))
    return StateValue(str(value.dtype).removeprefix("torch."), tuple(value.shape), _digest(_bytes(value)))


def _place(value: object) -> tuple[Any, ...] | None:
    """Where the numbers of a tensor lie, so that it is seen which are one; None: it is no tensor of several."""
    if _is_plain(value) or isinstance(value, Mapping | list | tuple | set):
        return None
    import torch

    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.numel() < 2:
        return None
    return value.data_ptr(), value.dtype, value.shape, value.stride()


def _bytes(tensor: torch.Tensor) -> bytes:
    import torch

    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.is_quantized:
        # Its scale is no number of it.
        return _bytes(plain.int_repr()) + _bytes(plain.dequantize())
    dense = plain.to_dense() if plain.layout != torch.strided else plain
    flat = dense.contiguous().reshape(-1)
    return b"" if not flat.numel() else flat.view(torch.uint8).numpy().tobytes()


def _unreadable(name: str, why: str) -> InputError:
    return InputError(f"{name} {why}", choices=READ, remedy=REMEDY)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of(file: BinaryIO, length: int) -> str:
    digest = hashlib.sha256()
    for _ in range(math.ceil(length / PIECE)):
        piece = file.read(min(PIECE, length))
        length -= len(piece)
        digest.update(piece)
    return digest.hexdigest()
