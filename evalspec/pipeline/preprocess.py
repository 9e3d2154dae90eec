"""Stages between the dataset's columns and the model's inputs: their fields, their digest, their pipeline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from evalspec.errors import InputError, did_you_mean
from evalspec.evidence.words import plural
from evalspec.language.parts import Access, Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

Reference = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"),
    Field(description="Code, as `package.module:name`; it runs only under --trust."),
]
Size = Annotated[int, Field(ge=1, le=65536)]
ChannelsField = Annotated[
    Literal["first", "last"],
    Field(description="Axis of the channels of an image; images of rows x height x width have none."),
]


class Stage(Part):
    """Base of all stages. Exactly one key names the stage, the others are its options."""

    key: ClassVar[str]
    inputs: tuple[str, ...] = Field((), description="Tensors that it applies to; empty: all of them.")

    def __str__(self) -> str:
        fields = self.model_dump(mode="json", exclude_defaults=True)
        return ", ".join(
            f"{name}: {json.dumps(value) if isinstance(value, dict) else value}" for name, value in fields.items()
        )

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """One batch of one tensor, rows first.

        Raises:
            InputError: The batch has another shape or type than the stage takes.
        """
        raise NotImplementedError


class Cast(Stage):
    """Converts to a different number type."""

    key: ClassVar[str] = "cast"
    cast: Literal[
        "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "bool"
    ] = Field(description="Target type.")

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        import numpy as np

        from evalspec.pipeline.transforms import numbers

        array = numbers(array, self.key)
        if array.dtype.kind == "f" and self.cast[0] in "iu" and not np.isfinite(array).all():
            raise InputError(f"the preprocessing stage 'cast' can't make {self.cast} of NaN or infinity")
        return array.astype(self.cast, copy=False)


class Scale(Stage):
    """Multiply by a factor and add an offset; whole numbers become float32 first."""

    key: ClassVar[str] = "scale"
    scale: float = Field(description="The factor: 0.00392156862745098 maps bytes to 0..1.")
    offset: float = Field(0.0, description="Added after.")

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        from evalspec.pipeline.transforms import numbers, scale

        return scale(numbers(array, self.key), self.scale, self.offset)


class MeanStd(Part):
    """Mean to subtract and standard deviation to divide by."""

    mean: tuple[float, ...] = Field(min_length=1, description="One for all, or one per channel.")
    std: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1, description="As mean.")


class Normalize(Stage):
    """Minus the mean, divided by the standard deviation."""

    key: ClassVar[str] = "normalize"
    normalize: MeanStd
    channels: ChannelsField = "last"

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        from evalspec.pipeline.transforms import normalize, numbers

        return normalize(numbers(array, self.key), self.normalize.mean, self.normalize.std, self.channels)


class Resize(Stage):
    """Resizes images."""

    key: ClassVar[str] = "resize"
    resize: tuple[Size, Size] = Field(description="[height, width].")
    method: Literal["bilinear", "nearest"] = Field("bilinear", description="Interpolation.")
    antialias: bool = Field(True, description="Average over the step when shrinking, as Pillow does.")
    channels: ChannelsField = "last"

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        from evalspec.pipeline.transforms import numbers, resize

        return resize(numbers(array, self.key), self.resize, self.channels, self.method, antialias=self.antialias)


class CenterCrop(Stage):
    """The middle of each image."""

    key: ClassVar[str] = "center_crop"
    center_crop: tuple[Size, Size] = Field(description="[height, width].")
    channels: ChannelsField = "last"

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        from evalspec.pipeline.transforms import center_crop, numbers

        return center_crop(numbers(array, self.key), self.center_crop, self.channels)


class Layout(Stage):
    """Reorders axes: `nhwc -> nchw`; a letter only on the right is a new axis of size 1: `nhw -> nchw`."""

    key: ClassVar[str] = "layout"
    layout: Annotated[str, StringConstraints(pattern=r"^n[a-z]* *-> *n[a-z]*$")] = Field(
        description="`before -> after`, one letter an axis, rows (n) first."
    )

    @model_validator(mode="after")
    def _letters_fit(self) -> Self:
        before, after = self.letters
        if len(set(before)) != len(before) or len(set(after)) != len(after):
            raise ValueError(f"layout {self.layout!r} names an axis twice")
        lost = sorted(set(before) - set(after))
        if lost:
            raise ValueError(f"layout {self.layout!r} loses the axis {', '.join(lost)}")
        return self

    @property
    def letters(self) -> tuple[str, str]:
        """Axes before and after."""
        before, after = re.split(r" *-> *", self.layout)
        return before, after

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        from evalspec.pipeline.transforms import layout

        return layout(array, *self.letters)


class Reshape(Stage):
    """Reshapes each row: `[8, 8]` makes an image of 64 flat numbers."""

    key: ClassVar[str] = "reshape"
    reshape: tuple[Annotated[int, Field(ge=-1, le=1 << 24)], ...] = Field(
        min_length=1, max_length=8, description="Shape of a row; one -1 is inferred."
    )

    @model_validator(mode="after")
    def _one_open_size(self) -> Self:
        if self.reshape.count(-1) > 1 or 0 in self.reshape:
            raise ValueError(f"reshape {list(self.reshape)} must hold sizes of at least 1, and -1 at most once")
        return self

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        from evalspec.pipeline.transforms import reshape

        return reshape(array, self.reshape)


class Pad(Stage):
    """Filled up to a size."""

    key: ClassVar[str] = "pad"
    pad: tuple[Size, ...] = Field(min_length=1, max_length=2, description="Target size: [length] or [height, width].")
    value: float = Field(0.0, description="Fill value.")
    fill: Literal["after", "around"] = Field("after", description="Where the filling goes.")
    channels: ChannelsField = "last"

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        from evalspec.pipeline.transforms import numbers, pad

        return pad(numbers(array, self.key), self.pad, self.value, self.fill, self.channels)


class Softmax(Stage):
    """Exponentials that sum to 1."""

    key: ClassVar[str] = "softmax"
    softmax: int = Field(description="Axis, -1 is the last.")

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        from evalspec.pipeline.transforms import numbers, softmax

        if not -array.ndim < self.softmax < array.ndim or self.softmax == 0:
            raise InputError(f"the preprocessing stage 'softmax' has no axis {self.softmax} in shape {array.shape}")
        return softmax(numbers(array, self.key), self.softmax)


class PythonStage(Stage):
    """Your own code: a dict of arrays in, a dict of arrays out, rows first."""

    key: ClassVar[str] = "python"
    python: Reference


STAGE_NAMES = ("cast", "scale", "normalize", "resize", "center_crop", "layout", "reshape", "pad", "softmax", "python")


def _stage_of(value: Any) -> str | None:
    """The key that names the stage."""
    if isinstance(value, Stage):
        return value.key
    return next((str(key) for key in value if key in STAGE_NAMES), None) if isinstance(value, Mapping) else None


def _named(value: Any) -> Any:
    """The value, if a stage of ours is named in it.

    Raises:
        PydanticCustomError: None is, or more than one.
    """
    if isinstance(value, Stage):
        return value
    keys = [str(key) for key in value] if isinstance(value, Mapping) else [str(value)]
    known = [key for key in keys if key in STAGE_NAMES]
    if len(known) == 1 and isinstance(value, Mapping):
        return value
    remedy = did_you_mean(keys[0], STAGE_NAMES) if keys else None
    if len(known) > 1:
        message, remedy = (
            f"one stage per line: this one names {' and '.join(known)}",
            f"write {known[1]} as a separate stage",
        )
    elif known:
        message, remedy = f"the stage {known[0]!r} needs a value", f"write {{{known[0]}: ...}}"
    else:
        message = f"unknown preprocessing stage {keys[0]!r}" if keys else "a stage without a name"
    context = {"message": message, "choices": STAGE_NAMES, "remedy": remedy}
    raise PydanticCustomError("evalspec", "{message}", context)


AnyStage = Annotated[
    Annotated[Cast, Tag("cast")]
    | Annotated[Scale, Tag("scale")]
    | Annotated[Normalize, Tag("normalize")]
    | Annotated[Resize, Tag("resize")]
    | Annotated[CenterCrop, Tag("center_crop")]
    | Annotated[Layout, Tag("layout")]
    | Annotated[Reshape, Tag("reshape")]
    | Annotated[Pad, Tag("pad")]
    | Annotated[Softmax, Tag("softmax")]
    | Annotated[PythonStage, Tag("python")],
    Discriminator(_stage_of),
    BeforeValidator(_named),
]


class Pipeline:
    """A list of stages, ready to run.

    Args:
        stages: As the spec has them.
        access: Where code may come from.

    Raises:
        InputError: A stage runs code and may not, or its code can't be found.
    """

    def __init__(self, stages: Sequence[Stage], access: Access) -> None:
        self.stages = tuple(stages)
        self.names = stage_names(self.stages)
        self.steps: tuple[Callable[[Arrays], Arrays], ...] = tuple(self._step(stage, access) for stage in self.stages)

    @property
    def makes_tensors(self) -> bool:
        """Code of the user's decides the names of the tensors."""
        return any(isinstance(stage, PythonStage) for stage in self.stages)

    def __call__(self, arrays: Arrays) -> Arrays:
        """One batch through all stages."""
        for step in self.steps:
            arrays = step(arrays)
        return arrays

    def _step(self, stage: Stage, access: Access) -> Callable[[Arrays], Arrays]:
        if isinstance(stage, PythonStage):
            return _code_step(stage, access)

        def step(arrays: Arrays) -> Arrays:
            unknown = set(stage.inputs) - set(arrays)
            if unknown:
                raise InputError(
                    f"the preprocessing stage {stage.key!r} names the input {min(unknown)!r}", choices=sorted(arrays)
                )
            return {
                name: stage.apply(array) if not stage.inputs or name in stage.inputs else array
                for name, array in arrays.items()
            }

        return step


def _code_step(stage: PythonStage, access: Access) -> Callable[[Arrays], Arrays]:
    from evalspec.pipeline.untrusted_code import call, checked_arrays, load_reference

    function = load_reference(stage.python, access, "the preprocessing stage 'python'")

    def step(arrays: Arrays) -> Arrays:
        rows = {len(array) for array in arrays.values()}
        out = checked_arrays(call(function, stage.python, arrays), stage.python)
        for name, array in out.items():
            if len(array) not in rows:
                gave = plural(len(array), "row")
                raise InputError(f"{stage.python} returned {gave} of {name!r} for a batch of {max(rows)}")
        return out

    return step


def stage_names(stages: Sequence[Stage]) -> tuple[str, ...]:
    """A name for each stage: its key, numbered from the second of a kind on."""
    seen: dict[str, int] = {}
    names = []
    for stage in stages:
        seen[stage.key] = seen.get(stage.key, 0) + 1
        names.append(stage.key if seen[stage.key] == 1 else f"{stage.key}_{seen[stage.key]}")
    return tuple(names)


def as_stages(stages: Sequence[Any]) -> tuple[Stage, ...]:
    """Typed stages, also where a runtime of somebody else's left them as the spec has them.

    Raises:
        InputError: One is no stage.
    """
    if all(isinstance(stage, Stage) for stage in stages):
        return tuple(stages)
    try:
        return tuple(TypeAdapter(list[AnyStage]).validate_python(list(stages)))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"preprocess[{first['loc'][0]}] is not a stage: {first['msg']}") from error
