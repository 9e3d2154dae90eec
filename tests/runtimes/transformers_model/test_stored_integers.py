"""Weights stored as integers with scales: the same answers as of the floats that they stand for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.runtimes.transformers import Transformers
from tests.causal_models import altered, language_models, rounded

STEPS = 127


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_models(tmp_path_factory)


def stored(folder: Path, out: Path) -> Path:
    """A copy whose matrices are integers of 8 bits with a scale a row."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, out)
    kept: dict[str, Any] = {}
    for name, weight in load_file(out / "model.safetensors").items():
        if weight.ndim < 2:
            kept[name] = weight.contiguous()
            continue
        step = weight.abs().amax(dim=1) / STEPS
        kept[name] = (weight / step[:, None]).round().char().contiguous()
        kept[f"{name}_scale"] = step.contiguous()
    save_file(kept, out / "model.safetensors", metadata={"format": "pt"})
    return out


def shares(folder: Path, name: str) -> tuple[Any, dict[str, Any]]:
    asked = {"path": name, "api": "completions", "prompt": {"user": "{question}"},
             "options": {"column": "choices", "show": "none", "score": "sum"}}  # fmt: skip
    loaded = Transformers.model_validate(asked).load(Access(folder), threads=1)
    given = loaded.predict({"question": np.array(["A list is", "The operator"], dtype=object),
                            "choices": np.array([["mutable", "x"], ["and", "or not"]], dtype=object)})  # fmt: skip
    return given["probabilities"], dict(loaded.observed)


def test_integers_are_the_weights_that_they_stand_for(models: Path, tmp_path: Path) -> None:
    stored(models / "fp32", tmp_path / "integers")
    altered(models / "fp32", tmp_path / "floats", rounded(STEPS))
    (ours, observed), (theirs, _) = shares(tmp_path, "integers"), shares(tmp_path, "floats")
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert (observed["precision"], observed["weights_stored"]) == ("fp32", "int8")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("floats", "integers")]
    assert sizes[0] > 3.5 * sizes[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda kept: kept.pop("model.layers.0.mlp.up_proj.weight_scale"), "has no .*up_proj.weight_scale"),
        (lambda kept: kept.pop("model.norm.weight"), "lack model.norm.weight"),
        (lambda kept: kept.update(another=kept["model.norm.weight"].clone()), "hold another"),
    ],
)
def test_weights_that_do_not_fit_are_said(change: Any, words: str, models: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = stored(models / "fp32", tmp_path / "integers") / "model.safetensors"
    kept = load_file(path)
    change(kept)
    save_file(kept, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match=words):
        shares(tmp_path, "integers")
