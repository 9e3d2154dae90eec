"""Makes the files of ``suites/resnet50``: networks of MLPerf's shapes with random weights, and random pictures.

    python suites/resnet50/make_resnet50.py [--width 16] [--pictures 64] [--output DIR]

They are too large to be kept with the code (100 MB at full width), so they are made where they are measured. Random
weights time like trained ones; what the network answers means nothing, and no requirement of the suite is about it.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from resnet import CLASSES, ResNet50

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 50
HERE = Path(__file__).resolve().parent
FULL, SMALL = 64, 16
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ONNX = ("fp32", "fp16")
"""ONNX Runtime has no BF16 convolution on the CPU and few on CUDA."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--width", type=int, default=SMALL, help=f"{FULL}: ResNet-50; {SMALL}: small (default)")
    parser.add_argument("--pictures", type=int, default=64, help="rows of the data set")
    parser.add_argument("--output", type=Path, default=HERE / "made", help="folder")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    make_pictures(options.output / "pictures.npz", options.pictures)
    for name, dtype in PRECISIONS.items():
        net = network(options.width, dtype)
        export_torch(net, options.output / f"{name}.pt2")
        if name in ONNX:
            export_onnx(net, options.output / f"{name}.onnx")
    (options.output / "classes.txt").write_text("".join(f"{index}\n" for index in range(CLASSES)))
    return 0


def make_pictures(path: Path, count: int) -> None:
    """Random pictures, shape (count, 3, 224, 224), values 0..255, and random labels."""
    rng = np.random.default_rng(SEED)
    pictures = rng.integers(0, 256, (count, 3, 224, 224), dtype=np.uint8)
    np.savez(path, picture=pictures, label=rng.integers(0, CLASSES, count))


def network(width: int, dtype: torch.dtype) -> ResNet50:
    """The same random weights in every precision."""
    torch.manual_seed(SEED)
    return ResNet50(width, dtype).eval().to(dtype)


def export_torch(net: ResNet50, path: Path) -> None:
    """An exported program that takes any batch."""
    program = torch.export.export(
        net, (torch.zeros(2, 3, 224, 224),), dynamic_shapes={"image": {0: torch.export.Dim("n")}}
    )
    for node in program.graph.nodes:
        # Stack traces hold the paths of the machine that exported it.
        node.meta.pop("stack_trace", None)
    torch.export.save(program, path)


def export_onnx(net: ResNet50, path: Path) -> None:
    """One ONNX file that takes any batch; input ``image``, output ``logits``."""
    with warnings.catch_warnings():
        # The exporter that needs no further package and writes one file calls itself deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            net, (torch.zeros(2, 3, 224, 224),), str(path), dynamo=False, opset_version=17,
            input_names=["image"], output_names=["logits"], dynamic_axes={"image": {0: "n"}, "logits": {0: "n"}},
        )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
