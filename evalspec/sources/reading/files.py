"""Finding a dataset's files, and saying in one sentence why one can't be read."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evalspec.errors import InputError
from evalspec.language.bounded import check_zip
from evalspec.language.parts import Access
from evalspec.language.places import GLOB
from evalspec.sources.reading.objects import DataFile, ObjectFile, head_of, size_of

MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"PAR1", "a parquet file", "parquet"),
    (b"ARROW1", "an Arrow file", "arrow"),
    (b"FEA1", "a feather file of version 1", ""),
    (b"\x93NUMPY", "a single numpy array (.npy)", ""),
    (b"\x1f\x8b", "a gzip file", ""),
    (b"\x89PNG", "a PNG image", "images"),
    (b"\xff\xd8\xff", "a JPEG image", "images"),
    (b"\x89HDF", "an HDF5 file", ""),
    (b"%PDF", "a PDF", ""),
    (b"SQLite format 3", "an SQLite database", ""),
    (b"\x80\x04\x95", "a pickle", ""),
    (b"\x80\x05\x95", "a pickle", ""),
)
MOST_FILES = 2_000_000
"""Of one dataset, all that lie in its folder counted."""
MOST_OTHERS, MOST_OTHERS_EACH = 200_000, 10
"""Files of other kinds in a dataset's folder, in all and for each of its own: beyond both it is some other folder."""
COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".lz4", ".br"})


def shown(access: Access, path: DataFile) -> str:
    """The path as it is printed: relative to the spec's folder where it lies in it; of an object its URL."""
    if isinstance(path, ObjectFile):
        return repr(path.url)
    folder = access.folder.resolve()
    return repr(path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path))


def one_file(access: Access, relative: str, kind: str) -> Path:
    """The file behind a path, which must be there and not be empty.

    Raises:
        InputError: It isn't there, is a folder, or holds nothing.
    """
    path = access.path(relative)
    if path.is_dir():
        raise InputError(f"{relative!r} is a folder; kind {kind} reads one file")
    return _not_empty(access, path)


def many_files(access: Access, relative: str, kind: str, suffixes: tuple[str, ...]) -> tuple[Path, ...]:
    """The files behind a path: itself, all in a folder that end in one of ``suffixes``, or what a glob matches.

    Returns:
        Paths in the order of their names, so that row order doesn't depend on the file system.

    Raises:
        InputError: There is none, or one of them is empty, lies outside the spec's folder, or is there twice.
    """
    return tuple(inside_files(access, relative, kind, suffixes))


def inside_files(access: Access, relative: str, kind: str, suffixes: tuple[str, ...]) -> dict[Path, str]:
    """As `many_files`, and of each its path from the folder, or from the part of a glob that is none.

    Raises:
        InputError: As `many_files`.
    """
    if GLOB & set(relative) and not (access.folder / relative).exists():
        root, paths = _matches(access, relative)
    else:
        root = access.path(relative)
        if not root.is_dir():
            return {_not_empty(access, root): root.name}
        fitting = below(root, relative, lambda file: file.suffix.lower() in suffixes)
        paths = [file for file in fitting if not _hidden(file, root)]
    files = sorted({file for file in paths if file.is_file()}, key=lambda file: file.as_posix())
    if not files:
        raise InputError(
            f"there is no {kind} file in {relative!r}", remedy=f"file names must end in {' or '.join(suffixes)}"
        )
    found: dict[Path, str] = {}
    seen: dict[tuple[int, int], Path] = {}
    for file in files:
        path = _not_empty(access, access.path(str(file)))
        status = path.stat()
        other = seen.setdefault((status.st_dev, status.st_ino), file)
        if other is not file:
            raise InputError(
                f"{shown(access, other)} and {shown(access, file)} are one file, so its rows would count twice",
                remedy="remove the link, or name the files by a pattern that matches one of the two",
            )
        found[path] = file.relative_to(root).as_posix()
    return found


def _matches(access: Access, relative: str) -> tuple[Path, list[Path]]:
    """The folder before the first part that is a pattern, and the files that match."""
    parts = Path(relative).parts
    first = next(index for index, part in enumerate(parts) if GLOB & set(part))
    rest = parts[first:]
    wrong = next((part for part in rest if "**" in part and part != "**"), None)
    if wrong is not None or rest.count("**") > 1:
        message = f"the glob {relative!r} is not supported: ** must be a whole path component and may occur only once"
        raise InputError(message, remedy="write such as data/**/*.parquet")
    root = access.path(str(Path(*parts[:first])) if first else ".")
    if "**" in rest:
        at = rest.index("**")
        folders = root.glob(str(Path(*rest[:at]))) if at else iter((root,))
        tail = str(Path(*rest[at + 1 :])) if rest[at + 1 :] else None
        files = (file for folder in folders for file in below(folder, relative, lambda file: file.match(tail or "/")))
    else:
        files = root.glob(str(Path(*rest)))
    return root, [file for file in bounded(files, relative) if not _hidden(file, root)]


def below(folder: Path, relative: str, fits: Callable[[Path], bool]) -> Iterator[Path]:
    """Files at any depth that fit.

    Args:
        folder: Below which they lie.
        relative: As the spec names them.
        fits: Of a path relative to the folder.

    Raises:
        InputError: There are too many, or hardly any of very many fits: the folder is another one.
    """
    fitting, others = 0, 0
    for above, _, names in os.walk(folder):
        inside = Path(above).relative_to(folder)
        for name in names:
            if fits(inside / name):
                fitting += 1
                yield folder / inside / name
            else:
                others += 1
        if fitting > MOST_FILES:
            raise _too_many(relative)
        if others > MOST_OTHERS and others > MOST_OTHERS_EACH * fitting:
            sentence = f"{relative!r} holds more than {MOST_OTHERS:,} other files"
            raise InputError(sentence, remedy="give the folder of the dataset, or its files")


def bounded(files: Iterator[Path], relative: str) -> Iterator[Path]:
    """The same, as long as they are no more than can be held.

    Raises:
        InputError: There are more.
    """
    for number, file in enumerate(files):
        if number == MOST_FILES:
            raise _too_many(relative)
        yield file


def _too_many(relative: str) -> InputError:
    return InputError(f"{relative!r} holds more than {MOST_FILES:,} files", remedy="put the rows into fewer files")


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


def _not_empty(access: Access, path: Path) -> Path:
    if size_of(path) == 0:
        raise InputError(f"{shown(access, path)} is empty (0 bytes)")
    return path


def check_format(access: Access, path: DataFile, kind: str, *, text: bool = False) -> None:
    """Refuse a file that begins as one of another format.

    Args:
        access: Where we may look.
        path: The file.
        kind: The kind it is meant to be.
        text: It must be text, so it has no zero byte among its first 4,096.

    Raises:
        InputError: It is something else; names the kind that reads it.
    """
    if isinstance(path, ObjectFile) and kind == "parquet" and path.read(max(0, path.size - 4), path.size) == b"PAR1":
        # Its end is read anyway, its beginning would be another request.
        return
    with reading(access, path, kind):
        head = head_of(path, 4096)
    if path.suffix.lower() in COMPRESSED:
        return
    for magic, what, other in MAGIC:
        if head.startswith(magic) and other != kind:
            remedy = f"write `kind: {other}`" if other else None
            raise InputError(f"{shown(access, path)} is not a {kind} file: it is {what}", remedy=remedy)
    if head.startswith(b"PK\x03\x04") and kind != "npz":
        what, remedy = _archive(path)
        raise InputError(f"{shown(access, path)} is not a {kind} file: it is {what}", remedy=remedy)
    if text and b"\x00" in head:
        raise InputError(f"{shown(access, path)} is not a {kind} file: it is not text in UTF-8")


def _archive(path: DataFile) -> tuple[str, str | None]:
    """Kind of a zip archive, by what lies in it, and advice on what to do with it."""
    import zipfile

    if isinstance(path, ObjectFile):
        return "a zip archive", None
    try:
        check_zip(path, repr(path.name))
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return "a damaged zip archive", None
    if "schema.json" in names:
        return "a skops model", "put it under `models:`, as `kind: sklearn`"
    if any(name.endswith(".npy") for name in names):
        return "an npz archive", "write `kind: npz`"
    if any(name.endswith(("/data.pkl", "/archive_format", "/.format_version")) for name in names):
        return "a torch file", "put it under `models:`, as `kind: torch`"
    if "[Content_Types].xml" in names:
        return "an office document, such as a workbook", "export its sheet as csv"
    return "a zip archive", "unpack it, and give the file inside"


@contextmanager
def reading(access: Access, path: DataFile, kind: str) -> Iterator[None]:
    """Turn what a reader raises over a file into one sentence.

    Raises:
        InputError: Anything was wrong with the file.
    """
    try:
        yield
    except _unreadable() as error:
        raise InputError(f"{shown(access, path)} can't be read as {kind}: {_reason(error)}") from error


def _unreadable() -> tuple[type[Exception], ...]:
    """Exceptions of pyarrow's, numpy's and zipfile's readers over a file's content; asked for when one is raised.

    Errors of Python itself are among it: readers of other people's making raise them over content they did not expect.
    """
    import pyarrow as pa

    return (
        pa.ArrowException, OSError, EOFError, MemoryError, ValueError, TypeError, LookupError, AttributeError,
        ArithmeticError, RecursionError, struct.error,
    )  # fmt: skip


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "it needs more memory than available"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM):
        return "permission denied"
    text = str(error).strip().splitlines()
    first = text[0].rstrip(".") if text else type(error).__name__
    return f"it is truncated, damaged or in a different format ({first[:200]})"
