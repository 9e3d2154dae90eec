"""ResNet-50 v1.5 (He et al. 2016; the stride in the 3 x 3 convolution, as in MLPerf), at a width of its own choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    import torch
    from torch import Tensor

BLOCKS = (3, 4, 6, 3)
EXPANSION = 4
CLASSES = 1000


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3, 1 x 1, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        wide = EXPANSION * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip
        same = stride == 1 and channels == wide
        self.shortcut: nn.Module = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
        )

    def forward(self, image: Tensor) -> Tensor:
        """Shape (n, channels, h, w) to (n, 4 width, h / stride, w / stride)."""
        added: Tensor = self.body(image) + self.shortcut(image)
        return nn.functional.relu(added)


class ResNet50(nn.Module):
    """Takes pictures of shape (n, 3, 224, 224) in FP32, computes in ``dtype``, gives FP32 logits of shape (n, 1000).

    Args:
        width: Channels of the first stage: 64 is ResNet-50, 16 is one small enough for a CPU.
        dtype: What it computes in.
    """

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        ]  # fmt: skip
        channels = width
        for stage, count in enumerate(BLOCKS):
            for block in range(count):
                narrow = width * 2**stage
                layers.append(Bottleneck(channels, narrow, 2 if stage and not block else 1))
                channels = EXPANSION * narrow
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        """Logits of each class."""
        logits: Tensor = self.head(self.features(image.to(self.dtype))).float()
        return logits
