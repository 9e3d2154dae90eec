"""Preprocessing stages: their arithmetic against independent implementations, their errors, their digest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.digest import preprocess_digest
from evalspec.pipeline.preprocess import AnyStage, Pipeline, Stage, as_stages, stage_names
from evalspec.runtimes.onnx import Onnx


def stage(fields: dict[str, Any]) -> Stage:
    return as_stages([fields])[0]


def images(dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.random.default_rng(2).integers(0, 256, size=shape).astype(dtype)


@pytest.mark.parametrize("size", [(5, 7), (24, 30), (12, 9), (1, 1)])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_resize_is_what_pillow_does(size: tuple[int, int], dtype: str) -> None:
    image_module = pytest.importorskip("PIL.Image")
    batch = images(dtype, (3, 12, 15))
    got = stage({"resize": size}).apply(batch)
    mode = image_module.BILINEAR
    want = np.stack([np.asarray(image_module.fromarray(one).resize(size[::-1], mode)) for one in batch])
    assert got.dtype == batch.dtype and got.shape == (3, *size)
    # Pillow rounds bytes after each axis, so that a pixel may differ by one.
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), atol=1.0 if dtype == "uint8" else 1e-3)


@pytest.mark.parametrize("size", [(5, 7), (24, 30)])
def test_resize_without_antialias_is_what_torch_does(size: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    batch = images("float32", (2, 3, 12, 15))
    got = stage({"resize": size, "antialias": False, "channels": "first"}).apply(batch)
    want = torch.nn.functional.interpolate(
        torch.from_numpy(batch), size=size, mode="bilinear", align_corners=False
    ).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)


def test_channels_stand_where_they_are_said_to() -> None:
    batch = images("float32", (2, 12, 15, 3))
    last = stage({"resize": [6, 5]}).apply(batch)
    first = stage({"resize": [6, 5], "channels": "first"}).apply(batch.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(last, first.transpose(0, 2, 3, 1), rtol=1e-6)
    nearest = stage({"resize": [4, 5], "method": "nearest"}).apply(batch)
    np.testing.assert_array_equal(nearest, batch[:, 1::3, 1::3])


def test_cast_scale_and_normalize() -> None:
    batch = images("uint8", (4, 2, 2, 3))
    np.testing.assert_array_equal(stage({"cast": "float32"}).apply(batch), batch.astype(np.float32))
    scaled = stage({"scale": 0.5, "offset": -1.0}).apply(batch)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, batch * 0.5 - 1.0)
    assert stage({"scale": 0.5}).apply(batch.astype(np.float64)).dtype == np.float64
    mean, std = [10.0, 20.0, 30.0], [2.0, 4.0, 8.0]
    fields = {"normalize": {"mean": mean, "std": std}}
    want = (batch - np.array(mean)) / np.array(std)
    np.testing.assert_allclose(stage(fields).apply(batch), want, rtol=1e-5)
    first = stage(fields | {"channels": "first"}).apply(batch.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(first.transpose(0, 2, 3, 1), want, rtol=1e-5)
    single = stage({"normalize": {"mean": [1.0], "std": [2.0]}}).apply(batch)
    np.testing.assert_allclose(single, (batch - 1.0) / 2.0)


def test_shapes() -> None:
    flat = np.arange(2 * 12).reshape(2, 12)
    image = stage({"reshape": [3, 4]}).apply(flat)
    np.testing.assert_array_equal(image, flat.reshape(2, 3, 4))
    assert stage({"reshape": [2, -1]}).apply(flat).shape == (2, 2, 6)
    np.testing.assert_array_equal(stage({"layout": "nhw -> nchw"}).apply(image), image[:, None])
    np.testing.assert_array_equal(stage({"layout": "nhwc->nchw"}).apply(image[..., None]), image[:, None])
    np.testing.assert_array_equal(stage({"center_crop": [1, 2]}).apply(image), image[:, 1:2, 1:3])
    np.testing.assert_array_equal(
        stage({"pad": [5, 6], "fill": "around", "value": 9}).apply(image),
        np.pad(image, [(0, 0), (1, 1), (1, 1)], constant_values=9),
    )
    np.testing.assert_array_equal(stage({"pad": [14]}).apply(flat), np.pad(flat, [(0, 0), (0, 2)]))


def test_softmax_does_not_overflow() -> None:
    got = stage({"softmax": -1}).apply(np.array([[1000.0, 1000.0], [0.0, np.log(3.0)]]))
    np.testing.assert_allclose(got, [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("fields", "batch", "sentence"),
    [
        ({"cast": "float32"}, np.array(["a"], dtype=object), r"'cast' takes numbers but got text"),
        ({"cast": "int64"}, np.array([np.nan]), r"can't make int64 of NaN or infinity"),
        ({"resize": [2, 2]}, np.zeros((3, 64)), r"'resize' takes images .* got shape \(3, 64\); put \{reshape:"),
        ({"center_crop": [9, 9]}, np.zeros((1, 4, 4)), r"'center_crop' needs \[9, 9\], but images have \[4, 4\]"),
        ({"pad": [3]}, np.zeros((1, 4)), r"'pad' pads to \[3\], but rows are larger: \(4,\)"),
        ({"layout": "nhw->nwh"}, np.zeros((1, 4)), r"'layout' reads 'nhw' \(3 axes\) but got shape \(1, 4\)"),
        ({"reshape": [3]}, np.zeros((1, 4)), r"'reshape' can't make \[3\] of rows of shape \[4\]"),
        ({"softmax": 0}, np.zeros((1, 4)), r"'softmax' has no axis 0"),
        (
            {"normalize": {"mean": [1, 2], "std": [1, 1]}}, np.zeros((1, 4, 4, 3)),
            r"2 means and 2 deviations for 3 channels",
        ),
    ],
)  # fmt: skip
def test_batches_that_a_stage_can_not_take(fields: dict[str, Any], batch: NDArray[Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        stage(fields).apply(batch)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"sclae": 2}, "unknown preprocessing stage 'sclae'"),
        ("softmax", "the stage 'softmax' needs a value"),
        ({}, "a stage without a name"),
        ({"cast": "float32", "scale": 2}, "one stage per line: this one names cast and scale"),
        ({"cast": "float31"}, "'float16', 'float32'"),
        ({"scale": "big"}, "valid number"),
        ({"scale": float("inf")}, "finite"),
        ({"normalize": {"mean": [0]}}, "std"),
        ({"normalize": {"mean": [0], "std": [0]}}, "greater than 0"),
        ({"resize": [32]}, "resize"),
        ({"layout": "nhw -> nw"}, "loses the axis h"),
        ({"layout": "nhh -> nh"}, "names an axis twice"),
        ({"reshape": [-1, -1]}, "-1 at most once"),
        ({"scale": 2, "factor": 3}, "factor"),
    ],
)
def test_fields_are_checked_when_the_spec_is_read(fields: Any, sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Onnx(path="m.onnx", preprocess=(fields,))
    assert sentence in str(caught.value)
    assert caught.value.errors()[0]["loc"][0] == "preprocess"


def test_an_unknown_stage_comes_with_choices() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(AnyStage).validate_python({"sclae": 2})
    error = caught.value.errors()[0]
    assert error["type"] == "evalspec"
    assert "resize" in error["ctx"]["choices"] and error["ctx"]["remedy"] == "did you mean 'scale'?"


def test_a_list_in_order_for_the_tensors_named(access: Access) -> None:
    stages = as_stages([{"cast": "float32"}, {"scale": 2.0, "inputs": ["a"]}, {"scale": 10.0}])
    pipeline = Pipeline(stages, access)
    assert pipeline.names == ("cast", "scale", "scale_2") == stage_names(stages)
    got = pipeline({"a": np.array([1, 2]), "b": np.array([3, 4])})
    assert got["a"].tolist() == [20.0, 40.0] and got["b"].tolist() == [30.0, 40.0]
    with pytest.raises(InputError, match=r"'scale' names the input 'c' \(choices: a, b\)"):
        Pipeline(as_stages([{"scale": 1.0, "inputs": ["c"]}]), access)({"a": np.zeros(1), "b": np.zeros(1)})


def test_the_digest_is_of_what_is_done(access: Access) -> None:
    one = preprocess_digest(as_stages([{"cast": "float32"}, {"scale": 0.0625}]), access)
    same = preprocess_digest([{"cast": "float32"}, {"scale": 0.0625, "offset": 0.0, "inputs": []}], access)
    turned = preprocess_digest(as_stages([{"scale": 0.0625}, {"cast": "float32"}]), access)
    other = preprocess_digest(as_stages([{"cast": "float32"}, {"scale": 0.0626}]), access)
    assert one == same and len({one, turned, other, preprocess_digest((), access)}) == 4


def test_a_stage_reads_as_it_is_written() -> None:
    assert str(stage({"cast": "float32"})) == "cast: float32"
    assert str(stage({"scale": 2, "offset": 1})) == "scale: 2.0, offset: 1.0"
