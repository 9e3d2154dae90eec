"""Operators of a torch model, as they are dispatched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError, NotRunError
from evalspec.language.abilities import Inspectable, OperatorTrace, Runner
from evalspec.language.parts import Access
from evalspec.runtimes.torch import LoadedTorch, Torch
from evalspec.runtimes.torch_model.inspect import family, inspect_module


def look(module: Any, *shape: int, kind: str = "float32") -> OperatorTrace:
    """What runs for a batch of ones."""
    import torch

    array = np.ones(shape, np.float32)
    tensor = torch.from_numpy(array).to(getattr(torch, kind))
    held = [*module.parameters(), *module.buffers()]
    return inspect_module(lambda tensors: module(tensors["x"]), {"x": tensor}, held, {"x": array})


def test_products_convolutions_and_elements_are_counted() -> None:
    import torch

    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(256, 10)
    ).eval()
    inside = look(net, 2, 3, 8, 8)
    convolution, product, relu = 2 * 2 * 4 * 64 * 27, 2 * 2 * 256 * 10, 2 * 4 * 64
    assert inside.operations == convolution + product + relu
    by_kind = {one.kind: one for one in inside.operators}
    assert by_kind["aten.convolution"].operations == convolution
    assert by_kind["aten.addmm"].weight_bytes == 4 * (2560 + 10)
    assert by_kind["aten.addmm"].weights == "float32"
    assert (by_kind["aten.relu"].weights, by_kind["aten.relu"].weight_bytes) == ("", 0.0)
    assert by_kind["aten.relu"].read_bytes == by_kind["aten.relu"].written_bytes == 4 * relu
    assert inside.input_bytes == 4 * 2 * 3 * 64 and inside.output_bytes == 4 * 20


def test_views_cost_nothing() -> None:
    import torch

    inside = look(torch.nn.Flatten(), 2, 3, 4)
    assert inside.operators == () and inside.operations == 0.0


def test_what_only_moves_numbers_moves_bytes() -> None:
    import torch

    class Doubled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cat([x, x])

    (one,) = look(Doubled(), 5, 2).operators
    assert (one.operations, one.read_bytes, one.written_bytes, one.computes) == (0.0, 80.0, 80.0, "")


def test_a_number_that_is_expanded_is_read_once() -> None:
    import torch

    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * torch.ones(1).expand(1000)

    inside = look(Scaled(), 1000)
    multiplied = next(one for one in inside.operators if one.kind == "aten.mul")
    assert multiplied.read_bytes == 4000 + 4


def test_layers_of_a_transformer_are_not_one_operator() -> None:
    import torch

    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    before = torch.backends.mha.get_fastpath_enabled()
    inside = look(layer, 2, 5, 16)
    # Projections in and out, two feed-forward products, scores and values of 2 heads of 8.
    products = 2 * 10 * (16 * 48 + 16 * 16 + 2 * 16 * 32) + 2 * 2 * (2 * 2 * 5 * 5 * 8)
    assert products <= inside.operations <= 1.3 * products
    assert torch.backends.mha.get_fastpath_enabled() == before


@pytest.mark.parametrize(("kind", "name"), [("bfloat16", "bfloat16"), ("float64", "float64")])
def test_the_type_that_is_computed_in(kind: str, name: str) -> None:
    import torch

    net = torch.nn.Linear(8, 4).to(getattr(torch, kind))
    inside = look(net, 2, 8, kind=kind)
    assert {one.computes for one in inside.operators if one.operations} == {name}
    assert {one.weights for one in inside.operators if one.weights} == {name}


def test_autocast_is_seen_through() -> None:
    """Weights of fp32, products in bf16."""
    import torch

    net = torch.nn.Linear(8, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = look(net, 2, 8)
    product = next(one for one in inside.operators if one.kind in ("aten.addmm", "aten.linear"))
    assert product.computes == "bfloat16"
    assert inside.flags["autocast"] is True


def test_products_of_whole_numbers() -> None:
    import torch

    class Whole(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            a = x.to(torch.int8)
            return torch._int_mm(a, a.t().contiguous())

    inside = look(Whole(), 32, 16)
    product = next(one for one in inside.operators if one.kind == "aten._int_mm")
    assert (product.computes, product.operations) == ("int8", 2 * 32 * 32 * 16)


def test_a_model_that_raises() -> None:
    import torch

    with pytest.raises(InputError, match="the model raised RuntimeError"):
        look(torch.nn.Linear(3, 4), 2, 8)


@pytest.mark.parametrize(("allowed", "expected"), [(True, "tf32"), (False, "float32")])
def test_tf32_on_a_gpu_is_not_called_float32(allowed: bool, expected: str) -> None:
    """By the flags alone: there need be no GPU."""
    import torch

    from evalspec.runtimes.torch_model.inspect import _computes

    tensor = torch.ones(2, 2)
    product, convolution = torch.ops.aten.mm.default, torch.ops.aten.convolution.default
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    try:
        products.allow_tf32, convolutions.allow_tf32 = allowed, allowed
        assert _computes(product, "mm", [tensor, tensor], [tensor], "cuda:0") == expected
        assert _computes(convolution, "convolution", [tensor, tensor], [tensor], "cuda:0") == expected
        assert _computes(product, "mm", [tensor, tensor], [tensor], "cpu") == "float32"
        assert _computes(torch.ops.aten.relu.default, "relu", [tensor], [tensor], "cuda:0") == "float32"
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def test_a_recurrent_layer_is_counted_by_its_matrices() -> None:
    import torch

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.LSTM(6, 4, batch_first=False)

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    products = 2 * 7 * 3 * (16 * 6 + 16 * 4)
    assert products <= look(Last(), 7, 3, 6).operations <= 1.5 * products


def test_an_operator_of_somebody_elses_is_named() -> None:
    import torch

    @torch.library.custom_op("evalspec_tests::twice", mutates_args=(), schema="(Tensor x) -> Tensor")
    def twice(x: Any) -> Any:
        return x * 2

    class Custom(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return twice(x)

    assert look(Custom(), 4).uncounted == ("evalspec_tests.twice",)


def test_an_exported_program_shows_its_operators(access: Access, linear_pt2: Path) -> None:
    loaded = Torch(path="linear.pt2").load(access, threads=1)
    assert isinstance(loaded, Inspectable) and isinstance(loaded, Runner)
    batch = {"input": np.ones((5, 4), np.float32)}
    inside = loaded.inspect(batch)
    assert inside.operations == 2 * 5 * 4 * 3
    assert sum(one.weight_bytes for one in inside.operators) == 4 * 15
    answer: Any = loaded.runner([batch])(3)
    assert tuple(answer.shape) == (5, 3)


def test_compiled_archives_show_none() -> None:
    place = SimpleNamespace(type="cpu")
    loaded = LoadedTorch(observed={}, input_names=(), output_names=(), run=dict, place=place, dtype=None)
    with pytest.raises(NotRunError, match="compiled code"):
        loaded.inspect({})


def test_copies_to_and_from_a_gpu_are_stages_of_their_own() -> None:
    def run(tensors: Mapping[str, Any]) -> Any:
        return tensors["x"] + 1

    loaded = LoadedTorch(
        observed={}, input_names=("x",), output_names=(), run=run, place=SimpleNamespace(type="cuda"), dtype=None
    )
    assert [name for name, _ in loaded.steps()] == ["copy_to_device", "inference", "copy_to_host"]
    import torch

    on_cpu = LoadedTorch(
        observed={}, input_names=("x",), output_names=(), run=run, place=torch.device("cpu"), dtype=None
    )
    ((name, call),) = on_cpu.steps()
    assert name == "inference"
    np.testing.assert_array_equal(call({"x": np.ones(2, np.float32)})["output"], [2.0, 2.0])


@pytest.mark.gpu
def test_on_a_gpu(access: Access, linear_pt2: Path) -> None:
    loaded = Torch(path="linear.pt2", device="cuda:0").load(access, threads=1)
    assert isinstance(loaded, LoadedTorch)
    batch = {"input": np.ones((5, 4), np.float32)}
    inside = loaded.inspect(batch)
    assert {one.place for one in inside.operators} == {"cuda:0"}
    value: Any = batch
    for _, step in loaded.steps():
        value = step(value)
    np.testing.assert_allclose(value["output"], loaded.predict(batch)["output"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("convolution", "convolution"), ("mkldnn_convolution", "convolution"), ("convert_element_type", ""),
        ("addmm", "product"), ("_int_mm", "product"), ("linear_dynamic", "product"), ("add", ""), ("relu", ""),
        ("_scaled_dot_product_flash_attention_for_cpu", "attention"), ("mkldnn_rnn_layer", "recurrent"),
    ],
)  # fmt: skip
def test_what_operators_do(kind: str, expected: str) -> None:
    assert family(kind) == expected


def test_the_layers_of_a_module_are_counted_by_what_they_do() -> None:
    import torch

    net = torch.nn.Sequential(
        torch.nn.Conv1d(4, 8, 1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3), torch.nn.Softmax(1)
    )
    inside = look(net, 2, 4, 1)
    assert [one.family for one in inside.operators if one.family] == ["convolution", "product"]
    assert inside.written == () and inside.run_us is None
