"""Weights that are integers with a scale for each row, multiplied as integers.

The form is ``int-quantized`` of compressed-tensors, as llm-compressor writes and vLLM reads it: ``NAME.weight`` is
int8, ``NAME.weight_scale`` a float for each row. What a layer is given is rounded to 8 bits by token, while it runs;
products are summed as 32-bit integers. transformers reads this form with a further package, and computes it in floats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError
from evalspec.runtimes.transformers_model.folder import CONFIG, read_json

if TYPE_CHECKING:
    import torch

FORM, METHOD, SAID = "int-quantized", "compressed-tensors", "quantization_config"
SCALE = "_scale"
BITS = (8, 4)
MOST = 127
"""Largest integer of what a layer is given."""
LEAST = 1e-12
EXACT_TERMS = 1024
"""Products of two such integers whose sum is below 2^24 in any order, so that 32-bit floats hold it exactly."""
REMEDY = "store weights by row (channel) and inputs by token (dynamic), both symmetric; or a float model"


@dataclass(frozen=True, slots=True)
class IntegerForm:
    """How weights are stored.

    Args:
        bits: Of each weight.
    """

    bits: int

    @property
    def precision(self) -> str:
        """Name of the number type."""
        return f"int{self.bits}"


def integer_form(folder: Path, shown: str) -> IntegerForm | None:
    """The form of a folder's weights; None: they are floats, or transformers knows what they are.

    Args:
        folder: With the model.
        shown: How sentences call it.

    Raises:
        InputError: They are integers of a kind that is not computed here.
    """
    said = read_json(folder / CONFIG).get(SAID)
    if not isinstance(said, dict) or (said.get("quant_method"), said.get("format")) != (METHOD, FORM):
        return None
    groups = said.get("config_groups")
    group = next(iter(groups.values())) if isinstance(groups, dict) and len(groups) == 1 else {}
    weights, inputs = (_mapping(group, name) for name in ("weights", "input_activations"))
    wrong = [
        f"{name} {key}: {json.dumps(part.get(key))}"
        for name, part, key, allowed in (
            ("weights", weights, "num_bits", BITS),
            ("weights", weights, "type", ("int",)),
            ("weights", weights, "strategy", ("channel",)),
            ("weights", weights, "symmetric", (True,)),
            ("input_activations", inputs, "num_bits", (8,)),
            ("input_activations", inputs, "type", ("int",)),
            ("input_activations", inputs, "strategy", ("token",)),
            ("input_activations", inputs, "symmetric", (True,)),
            ("input_activations", inputs, "dynamic", (True,)),
        )
        if part.get(key) not in allowed
    ]
    if wrong:
        raise InputError(f"{shown!r} has integer weights that are not computed here: {'; '.join(wrong)}", remedy=REMEDY)
    return IntegerForm(int(weights["num_bits"]))


def _mapping(group: Any, name: str) -> Mapping[str, Any]:
    value = group.get(name) if isinstance(group, dict) else None
    return value if isinstance(value, dict) else {}


def load_integers(weights: Sequence[Path], module: torch.nn.Module, form: IntegerForm, shown: str) -> None:
    """Put stored weights into a module, whose layers then multiply integers.

    Args:
        weights: Its files of weights.
        module: Of this configuration, with any weights.
        form: How they are stored.
        shown: How sentences call it.

    Raises:
        InputError: Weights are missing, belong to another model, or are no integers of so many bits.
    """
    import torch
    from safetensors.torch import load_file

    stored: dict[str, torch.Tensor] = {}
    for path in weights:
        if path.suffix == ".safetensors":
            stored |= load_file(path)
    whole = [name for name, tensor in stored.items() if tensor.dtype == torch.int8]
    if not whole:
        raise InputError(f"{shown!r} says that its weights are {FORM}, and none is an integer", remedy=REMEDY)
    for name in whole:
        layer = name.removesuffix(".weight")
        scale = stored.pop(f"{name}{SCALE}", None)
        pair = _checked(name, stored.pop(name), scale, form, shown)
        _put(module, layer, pair, stored.pop(f"{layer}.bias", None), shown)
    missing, unexpected = module.load_state_dict(stored, strict=False)
    lost = [name for name in missing if name not in _given_elsewhere(module, whole)]
    if lost or unexpected:
        what = f"lack {lost[0]}" if lost else f"hold {unexpected[0]}, which the model does not have"
        raise InputError(f"the weights of {shown!r} {what}", remedy="save them from this model, under its own names")
    module.tie_weights()  # type: ignore[operator]


def _checked(
    name: str, weight: torch.Tensor, scale: torch.Tensor | None, form: IntegerForm, shown: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight and its scales, one for each row."""
    if scale is None or scale.numel() != weight.shape[0]:
        raise InputError(
            f"{shown!r} stores {name} as integers and has no {name}{SCALE} for each of its rows, so their scale is "
            "unknown", remedy="store a scale for each row next to it",
        )  # fmt: skip
    most = 2 ** (form.bits - 1)
    if int(weight.max()) >= most or int(weight.min()) < -most:
        raise InputError(f"{shown!r} says that weights have {form.bits} bits, and {name} holds integers of more")
    return weight, scale.float().reshape(-1)


def _put(
    module: torch.nn.Module,
    layer: str,
    stored: tuple[torch.Tensor, torch.Tensor],
    bias: torch.Tensor | None,
    shown: str,
) -> None:
    """An integer layer in place of the one with floats."""
    import torch

    parent, _, name = layer.rpartition(".")
    try:
        place = module.get_submodule(parent)
        there = getattr(place, name)
    except AttributeError:
        there = None
    weight, scale = stored
    if not isinstance(there, torch.nn.Linear) or there.weight.shape != weight.shape:
        raise InputError(
            f"the weights of {shown!r} hold {layer} as integers of shape {tuple(weight.shape)}, and the model has no "
            "such layer", remedy="save them from this model, under its own names",
        )  # fmt: skip
    if (there.bias is None) != (bias is None):
        raise InputError(f"the weights of {shown!r} lack {layer}.bias, or the model has none")
    setattr(place, name, integer_layer(weight, scale, bias))


def _given_elsewhere(module: torch.nn.Module, whole: Sequence[str]) -> set[str]:
    """Names that need no tensor of their own: integers, and what is tied to others."""
    tied = getattr(module, "all_tied_weights_keys", None) or getattr(module, "_tied_weights_keys", None) or ()
    return {*tied, *(f"{name}{end}" for name in whole for end in ("", SCALE)),
            *(f"{name.removesuffix('.weight')}.bias" for name in whole)}  # fmt: skip


def integer_layer(weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> torch.nn.Module:
    """A layer whose weights stay integers.

    Args:
        weight: shape (m, k), int8.
        scale: shape (m,).
        bias: shape (m,); None: there is none.
    """
    import torch

    class IntegerLinear(torch.nn.Module):
        """Rounds what it is given to 8 bits by token, and sums products as 32-bit integers."""

        weight_scale: torch.Tensor
        bias: torch.Tensor | None

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight, requires_grad=False)
            self.register_buffer("weight_scale", scale)
            self.register_buffer("bias", None if bias is None else bias.float())

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            """The products of its rows, shape (..., m)."""
            rows = given.reshape(-1, given.shape[-1]).float()
            step = rows.abs().amax(dim=1, keepdim=True).clamp(min=LEAST) / MOST
            whole = (rows / step).round().to(torch.int8)
            made = integer_products(whole, self.weight).float() * step * self.weight_scale
            if self.bias is not None:
                made = made + self.bias
            return made.to(given.dtype).reshape(*given.shape[:-1], -1)

    return IntegerLinear()


def integer_products(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Sums of products of integers, exactly.

    Args:
        rows: shape (n, k), int8, from -127 to 127.
        weight: shape (m, k), int8.

    Returns:
        shape (n, m), int32.
    """
    import torch

    # Of a column, torch can't tell rows from columns: on some processors its product of integers is another one.
    if torch.cpu._is_vnni_supported() and rows.shape[1] > 1:
        at_once: torch.Tensor = torch._int_mm(rows, weight.t())
        return at_once
    # Without such instructions torch takes one product after the other, twenty to thirty times as long as in floats.
    made = torch.zeros(len(rows), len(weight), dtype=torch.int32)
    for first in range(0, rows.shape[1], EXACT_TERMS):
        terms = slice(first, first + EXACT_TERMS)
        made += (rows[:, terms].float() @ weight[:, terms].float().t()).to(torch.int32)
    return made
