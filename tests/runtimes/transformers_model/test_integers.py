"""Weights that are integers: the same answers as of the floats that they stand for, and nothing that is half known."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.runtimes.transformers import Transformers
from evalspec.runtimes.transformers_model.integers import integer_layer, integer_products
from tests.causal_models import altered, hardly_trained, language_models, rounded

UP = "model.layers.0.mlp.up_proj.weight"
FORM: dict[str, Any] = {
    "quant_method": "compressed-tensors", "format": "int-quantized", "ignore": ["lm_head"],
    "config_groups": {"group_0": {
        "targets": ["Linear"],
        "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False},
        "input_activations": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True},
    }},
}  # fmt: skip


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hardly_trained(tmp_path_factory)


def stored(folder: Path, out: Path, change: Callable[[dict[str, Any]], object] = dict, **form: Any) -> Path:
    """A copy whose layers are integers of 8 bits with a scale for each row."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, out)
    kept: dict[str, Any] = {}
    for name, weight in load_file(out / "model.safetensors").items():
        if weight.ndim < 2 or "embed" in name:
            kept[name] = weight.contiguous()
            continue
        kept[f"{name}_scale"] = (weight.abs().amax(dim=1, keepdim=True) / 127).contiguous()
        kept[name] = (weight / kept[f"{name}_scale"]).round().char().contiguous()
    change(kept)
    save_file(kept, out / "model.safetensors", metadata={"format": "pt"})
    told = json.loads((out / "config.json").read_text())
    said = json.loads(json.dumps(FORM))
    for part, value in form.items():
        said["config_groups"]["group_0"][part] |= value
    (out / "config.json").write_text(json.dumps(told | {"quantization_config": said}))
    return out


def shares(folder: Path, name: str, **asked: Any) -> tuple[Any, dict[str, Any]]:
    loaded = Transformers.model_validate({
        "path": name, "api": "completions", "prompt": {"user": "{question}"},
        "options": {"column": "choices", "show": "none", "score": "sum"}, **asked,
    }).load(Access(folder), threads=1)  # fmt: skip
    given = loaded.predict({"question": np.array(["A list is", "The operator"], dtype=object),
                            "choices": np.array([["mutable", "x"], ["and", "or not"]], dtype=object)})  # fmt: skip
    return given["probabilities"], dict(loaded.observed)


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_multiplies_integers(bias: bool) -> None:
    """The same sums by numpy, in 64-bit integers."""
    draw = np.random.default_rng(3)
    weight = draw.integers(-127, 128, (24, 40)).astype(np.int8)
    scale, added = draw.random(24).astype(np.float32), draw.normal(size=24).astype(np.float32)
    given = draw.normal(size=(2, 3, 40)).astype(np.float32)
    given[0, 0] = 0.0
    layer = integer_layer(torch.from_numpy(weight), torch.from_numpy(scale), torch.from_numpy(added) if bias else None)
    made = layer(torch.from_numpy(given)).numpy()
    step = np.maximum(np.abs(given).max(axis=-1, keepdims=True), 1e-12) / 127
    sums = np.rint(given / step).astype(np.int64) @ weight.T.astype(np.int64)
    np.testing.assert_allclose(made, sums * step * scale + (added if bias else 0.0), rtol=1e-5, atol=1e-5)
    assert np.isfinite(made).all()


@pytest.mark.parametrize("vnni", [False, True])
@pytest.mark.parametrize("terms", [1, 1024, 1025, 5000])
def test_products_are_exact_with_and_without_instructions_for_them(
    terms: int, vnni: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: vnni)
    rows, weight = (np.random.default_rng(terms).integers(-127, 128, (n, terms), np.int8) for n in (17, 8))
    # All of one sign, as large as they get.
    rows[0], weight[0], weight[1] = 127, -128, 127
    made = integer_products(torch.from_numpy(rows), torch.from_numpy(weight))
    assert made.dtype == torch.int32
    assert (made.numpy() == rows.astype(np.int64) @ weight.T.astype(np.int64)).all()


def test_integers_are_the_weights_that_they_stand_for(models: Path, tmp_path: Path) -> None:
    stored(models / "fp32", tmp_path / "integers")
    altered(models / "fp32", tmp_path / "floats", rounded(127))
    (ours, observed), (theirs, floats) = shares(tmp_path, "integers"), shares(tmp_path, "floats")
    # Inputs of layers are rounded, too.
    np.testing.assert_allclose(np.log(ours), np.log(theirs), atol=0.1)
    assert (ours != theirs).any()
    # A sixth of the weights of so small a model are those of letters, and stay floats.
    assert (observed["precision"], observed["bits_of_weights"], floats["precision"]) == ("mixed", 8, "fp32")
    assert observed["parameters"] == floats["parameters"] and "products" not in floats


@pytest.mark.proof
def test_likelihoods_are_those_of_the_integers(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    models = language_models(tmp_path_factory)
    """A scale that is twice too large changes them: nothing is read past."""

    def doubled(kept: dict[str, Any]) -> None:
        kept[f"{UP}_scale"] *= 2

    stored(models / "fp32", tmp_path / "right")
    stored(models / "fp32", tmp_path / "wrong", doubled)
    right, wrong = shares(tmp_path, "right")[0], shares(tmp_path, "wrong")[0]
    assert np.abs(np.log(right / wrong)).max() > 0.2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda kept: kept.pop(f"{UP}_scale"), f"has no {UP}_scale for each of its rows"),
        (lambda kept: kept.update({f"{UP}_scale": kept[f"{UP}_scale"][:3].clone()}), f"has no {UP}_scale for each"),
        (lambda kept: kept.pop(UP), "hold model.layers.0.mlp.up_proj.weight_scale, which the model does not have|lack"),
        (lambda kept: kept.pop("model.norm.weight"), "lack model.norm.weight"),
        (lambda kept: kept.update(another=kept["model.norm.weight"].clone()), (
            "hold another, which the model does not have"
        )),
        (lambda kept: kept.update({UP: kept[UP][:, :8].clone()}), "hold model.layers.0.mlp.up_proj as integers"),
        (lambda kept: kept.update({UP.replace("up_proj", "in_proj"): kept[UP].clone(),
                                   UP.replace("up_proj", "in_proj") + "_scale": kept[f"{UP}_scale"].clone()}),
         "hold model.layers.0.mlp.in_proj as integers"),
        (lambda kept: kept.update({"model.layers.0.mlp.up_proj.bias": kept["model.norm.weight"].clone()}), "bias"),
        (lambda kept: [kept.update({name: one.float()}) for name, one in kept.items()], "none is an integer"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_said(change: Any, words: str, models: Path, tmp_path: Path) -> None:
    stored(models / "fp32", tmp_path / "integers", change)
    with pytest.raises(InputError, match=words):
        shares(tmp_path, "integers")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"weights": {"strategy": "group"}}, 'weights strategy: "group"'),
        ({"weights": {"symmetric": False}}, "weights symmetric: false"),
        ({"weights": {"num_bits": 4}}, "weights have 4 bits, and .* holds integers of more"),
        ({"input_activations": {"dynamic": False}}, "input_activations dynamic: false"),
        ({"input_activations": {"num_bits": 4}}, "input_activations num_bits: 4"),
    ],
)
def test_other_forms_of_integers_are_refused(form: dict[str, Any], words: str, models: Path, tmp_path: Path) -> None:
    stored(models / "fp32", tmp_path / "integers", **form)
    with pytest.raises(InputError, match=words):
        shares(tmp_path, "integers")


def test_another_device_is_refused(models: Path, tmp_path: Path) -> None:
    stored(models / "fp32", tmp_path / "integers")
    with pytest.raises(InputError, match="multiplied on the CPU only"):
        shares(tmp_path, "integers", device="cuda:0")
