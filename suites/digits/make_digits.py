"""Makes the files of ``suites/digits`` and, with ``--flawed``, of ``suites/digits-flawed``.

    python suites/digits/make_digits.py [--flawed] [--output DIR]
    python suites/digits/make_digits.py [--flawed] --check
    python suites/digits/make_digits.py --smaller

The data are the same bytes everywhere for the same versions of numpy and pyarrow. The models are the same bytes on
the same processor and versions; elsewhere the last bits of their weights may differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from digit_images import LEVELS, SIDE, Images, originals, photograph, split

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 7
DRAWS = 2
LEAKED = 4
OVERCONFIDENCE = 4.0
HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
FILES = ("train.parquet", "test.parquet", "field.parquet", "classes.txt", "fp32.pt2", "fp32.onnx", "int8.onnx")
SMALLER = ("fp16.onnx", "pruned.onnx", "distilled.onnx")
"""Further candidates, of the suite without flaws only."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes or checks the files; 1 where a file is not the one that was made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flawed", action="store_true", help="plant the flaws of digits-flawed")
    parser.add_argument("--smaller", action="store_true", help=f"only make {', '.join(SMALLER)} from fp32.pt2")
    parser.add_argument("--output", type=Path, help="folder (default: the suite's own)")
    parser.add_argument("--check", action="store_true", help=f"only compare the files with {DIGESTS}")
    options = parser.parse_args(arguments)
    folder = options.output or (HERE.parent / "digits-flawed" if options.flawed else HERE)
    if options.check:
        return check(folder)
    if options.smaller:
        make_smaller(folder)
        return stated(folder, (*FILES, *SMALLER))
    folder.mkdir(parents=True, exist_ok=True)
    make_models(folder, make_data(folder, flawed=options.flawed), flawed=options.flawed)
    if options.flawed:
        return stated(folder, FILES)
    make_smaller(folder)
    return stated(folder, (*FILES, *SMALLER))


def stated(folder: Path, names: Sequence[str]) -> int:
    """Writes the digests of these files."""
    digests = {name: digest(folder / name) for name in names}
    (folder / DIGESTS).write_text(json.dumps(digests, indent=2) + "\n")
    return 0


def check(folder: Path) -> int:
    """Says which files differ from their digests."""
    written: dict[str, str] = json.loads((folder / DIGESTS).read_text())
    names = dict.fromkeys((*FILES, *written))
    wrong = [name for name in names if not (folder / name).is_file() or digest(folder / name) != written.get(name)]
    for name in wrong:
        sys.stdout.write(f"{folder / name} is missing or not the file whose digest stands in {DIGESTS}\n")
    return 1 if wrong else 0


def make_data(folder: Path, *, flawed: bool) -> Images:
    """Writes the three sets and the list of classes; gives the training set back."""
    rng = np.random.default_rng(SEED)
    train, test = split(originals(), rng)
    field = photograph(test.take(np.tile(np.arange(len(test)), DRAWS)), rng)
    if flawed:
        train = with_leak(train, test, rng)
    write_rows(train, folder / "train.parquet", site="lab")
    write_rows(test, folder / "test.parquet", site="lab")
    write_rows(field, folder / "field.parquet", site="field")
    (folder / "classes.txt").write_text("".join(f"{digit}\n" for digit in range(10)))
    return train


def make_models(folder: Path, train: Images, *, flawed: bool) -> None:
    """Trains the network and writes it as FP32 program, FP32 ONNX and INT8 ONNX."""
    import digit_models as models

    net = models.calibrated(train, SEED, dark=not flawed)
    models.export_torch(net, folder / "fp32.pt2")
    models.export_onnx(net, folder / "fp32.onnx")
    if not flawed:
        models.quantize(folder / "fp32.onnx", folder / "int8.onnx", train)
        return
    models.scale_logits(net, OVERCONFIDENCE)
    confident = folder / "overconfident.onnx"
    models.export_onnx(net, confident)
    models.quantize(confident, folder / "int8.onnx", train)
    confident.unlink()


def make_smaller(folder: Path) -> None:
    """Writes the FP16, the pruned and the distilled network, made from the one in ``fp32.pt2``."""
    import digit_models as models
    import torch

    train, _ = split(originals(), np.random.default_rng(SEED))
    program = torch.export.load(folder / "fp32.pt2")
    net = models.DigitNet()
    net.load_state_dict(program.state_dict)
    net.eval()
    models.halve(folder / "fp32.onnx", folder / "fp16.onnx")
    models.export_onnx(models.pruned(net, train, SEED), folder / "pruned.onnx")
    models.export_onnx(models.distilled(net, train, SEED), folder / "distilled.onnx")


def with_leak(train: Images, test: Images, rng: np.random.Generator) -> Images:
    """The training set with `LEAKED` pictures of the test set among it."""
    leaked = test.take(np.sort(rng.permutation(len(test))[:LEAKED]))
    return Images(**{
        name: np.concatenate([getattr(train, name), getattr(leaked, name)]) for name in Images.__slots__
    })  # fmt: skip


def write_rows(images: Images, path: Path, *, site: str) -> None:
    """A parquet file with one row a picture, in the order given."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = len(images)
    pixels = pa.FixedSizeListArray.from_arrays(
        pa.array(images.pixels.astype(np.uint8).ravel(), pa.uint8()), SIDE * SIDE
    )
    draw = np.arange(n) // len(np.unique(images.source))
    table = pa.table({
        "id": [f"{site}-{source:04d}-{k}" for source, k in zip(images.source, draw, strict=True)],
        "source": pa.array(images.source, pa.int32()),
        "site": pa.array([site] * n),
        "lux": pa.array(images.lux, pa.float64()),
        "occlusion": pa.array(images.occlusion, pa.float64()),
        "blur": pa.array(images.blur, pa.float64()),
        "offset": pa.array(images.offset, pa.int8()),
        "ink": pa.array(images.pixels.mean(axis=1) / LEVELS, pa.float64()),
        "digit": pa.array(images.digit, pa.int8()),
        "pixels": pixels,
    })  # fmt: skip
    pq.write_table(table, path, compression="zstd")


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
