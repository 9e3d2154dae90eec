"""Small models, as the tests of the runtimes have them."""

from __future__ import annotations

from tests.small_models import access, linear_onnx, linear_pt2, made, once

__all__ = ["access", "linear_onnx", "linear_pt2", "made", "once"]
