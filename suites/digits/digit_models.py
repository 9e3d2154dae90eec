"""The network of the digits suite: training, temperature, and the three files that it is shipped as."""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from digit_images import LEVELS, SIDE, Images, photograph
from torch import Tensor, nn

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCHS = 160
VIEWS = 120
HELD_OUT = 120
BATCH = 128
CONVOLUTIONS = (0, 3, 7)
NARROW = (14, 18, 26)
"""Channels that pruning leaves."""
SMALL = (8, 12, 20)
"""Channels of the distilled network."""
AGAIN = 60


class DigitNet(nn.Module):
    """Three convolutions and a linear layer; takes shape (n, 64) in 0..1, gives logits of shape (n, 10).

    Args:
        widths: Channels of the convolutions.
    """

    def __init__(self, widths: tuple[int, int, int] = (24, 32, 48)) -> None:
        super().__init__()
        a, b, c = widths
        self.features = nn.Sequential(
            nn.Conv2d(1, a, 3, padding=1, bias=False), nn.BatchNorm2d(a), nn.ReLU(),
            nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(b, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(c * 4, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Logits of each digit."""
        frames = image.reshape(-1, 1, SIDE, SIDE)
        logits: Tensor = self.head(self.features(frames).flatten(1))
        return logits


def calibrated(images: Images, seed: int, *, dark: bool = True) -> DigitNet:
    """A trained network whose logits carry the temperature of pictures that it was not trained on.

    Args:
        images: Clean pictures; `HELD_OUT` of them only set the temperature.
        seed: Of everything that is drawn.
        dark: Dark scenes are seen in training. The temperature is set in every light all the same.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    net = train(images.take(order[HELD_OUT:]), seed, dark=dark)
    views = images.take(np.tile(order[:HELD_OUT], VIEWS // 3))
    scale_logits(net, 1 / temperature(net, photograph(views, rng)))
    return net


def train(
    images: Images, seed: int, *, dark: bool = True, net: DigitNet | None = None, epochs: int = EPOCHS,
    teacher: DigitNet | None = None,
) -> DigitNet:  # fmt: skip
    """A network trained on views of these images through the field camera, and on the images themselves.

    Args:
        images: Clean pictures.
        seed: Of the initial weights, the views and their order.
        dark: The views include dark scenes.
        net: What to begin with; default: a fresh one.
        epochs: How often every picture is seen.
        teacher: Its probabilities are learned, in place of the labels.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net = net or DigitNet()
    views = [images.pixels] + [photograph(images, rng, dark=dark).pixels for _ in range(VIEWS)]
    stock = torch.from_numpy(np.stack(views).astype(np.float32) / LEVELS)
    truth = torch.from_numpy(images.digit)
    steps = epochs * -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    net.train()
    for _ in range(epochs):
        for rows in np.array_split(rng.permutation(len(images)), -(-len(images) // BATCH)):
            view = rng.integers(0, len(views), len(rows))
            optimizer.zero_grad()
            seen = stock[view, rows]
            if teacher is None:
                loss = nn.functional.cross_entropy(net(seen), truth[rows], label_smoothing=0.05)
            else:
                with torch.no_grad():
                    wanted = teacher(seen).softmax(dim=1)
                loss = nn.functional.cross_entropy(net(seen), wanted)
            loss.backward()  # type: ignore[no-untyped-call]  # torch has none for it
            optimizer.step()
            schedule.step()
    return net.eval()


def pruned(net: DigitNet, images: Images, seed: int) -> DigitNet:
    """The network without the channels whose weights are smallest, trained a little more."""
    kept = [_strongest(net.features[at], width) for at, width in zip(CONVOLUTIONS, NARROW, strict=True)]
    small = DigitNet(NARROW)
    before: NDArray[np.int64] = np.arange(1)
    with torch.no_grad():
        for at, rows in zip(CONVOLUTIONS, kept, strict=True):
            small.features[at].weight.copy_(net.features[at].weight[rows][:, before])  # type: ignore[operator, index, union-attr]
            for name in ("weight", "bias", "running_mean", "running_var"):
                getattr(small.features[at + 1], name).copy_(getattr(net.features[at + 1], name)[rows])
            before = rows
        columns = (before[:, None] * 4 + np.arange(4)).ravel()
        small.head.weight.copy_(net.head.weight[:, columns])
        small.head.bias.copy_(net.head.bias)
    return train(images, seed, net=small, epochs=AGAIN)


def distilled(net: DigitNet, images: Images, seed: int) -> DigitNet:
    """A small network that has learned the probabilities of the large one."""
    torch.manual_seed(seed)
    return train(images, seed, net=DigitNet(SMALL), epochs=AGAIN, teacher=net)


def _strongest(layer: nn.Module, width: int) -> NDArray[np.int64]:
    weights: NDArray[np.float32] = layer.weight.detach().numpy()  # type: ignore[union-attr, operator]
    order = np.argsort(-np.abs(weights).sum(axis=(1, 2, 3)), kind="stable")
    return np.sort(order[:width])


def logits_of(net: DigitNet, images: Images) -> NDArray[np.float64]:
    """Logits, shape (n, 10)."""
    with torch.no_grad():
        logits: NDArray[np.float64] = net(_tensor(images)).numpy().astype(np.float64)
    return logits


def temperature(net: DigitNet, images: Images) -> float:
    """The temperature that makes the logits most likely on pictures the network has not seen."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logits = logits_of(net, images)
    rows = np.arange(len(images))
    best = minimize_scalar(
        lambda log_t: -log_softmax(logits / np.exp(log_t), axis=1)[rows, images.digit].mean(),
        bounds=(-3, 3),
        method="bounded",
    )
    return float(np.exp(best.x))


def scale_logits(net: DigitNet, factor: float) -> None:
    """Multiplies the logits, inside the last layer."""
    with torch.no_grad():
        net.head.weight.mul_(factor)
        net.head.bias.mul_(factor)


def export_torch(net: DigitNet, path: Path) -> None:
    """An exported program (``.pt2``) that takes any batch."""
    program = torch.export.export(
        net, (torch.zeros(2, SIDE * SIDE),), dynamic_shapes={"image": {0: torch.export.Dim("n")}}
    )
    for node in program.graph.nodes:
        # Stack traces hold the paths of the machine that exported it.
        node.meta.pop("stack_trace", None)
    torch.export.save(program, path)


def export_onnx(net: DigitNet, path: Path) -> None:
    """One ONNX file in FP32 that takes any batch; input ``image``, output ``y``."""
    with warnings.catch_warnings():
        # The exporter that needs no further package and writes one file calls itself deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            net, (torch.zeros(2, SIDE * SIDE),), str(path), dynamo=False, opset_version=17,
            input_names=["image"], output_names=["y"], dynamic_axes={"image": {0: "n"}, "y": {0: "n"}},
        )  # fmt: skip


def halve(fp32: Path, fp16: Path) -> None:
    """An ONNX file in FP16; it takes and gives FP32."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(fp32), keep_io_types=True), fp16)


def quantize(fp32: Path, int8: Path, images: Images) -> None:
    """Static INT8 quantization of an ONNX file: QDQ, per channel, ranges from these images."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self.batches = iter(np.array_split(_tensor(images).numpy(), 8))

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"image": batch}

    with TemporaryDirectory() as folder:
        ready = str(Path(folder) / "ready.onnx")
        quant_pre_process(str(fp32), ready, skip_symbolic_shape=True)
        quantize_static(
            ready, str(int8), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        )  # fmt: skip


def _tensor(images: Images) -> Tensor:
    return torch.from_numpy(images.pixels.astype(np.float32) / LEVELS)
