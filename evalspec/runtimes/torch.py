"""torch models: exported programs, and weights with the code that makes their module."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import InputError
from evalspec.evidence.frozen import Cell
from evalspec.language.parts import Access
from evalspec.pipeline.loaded import Loaded, Tensor
from evalspec.pipeline.model_fields import FileModel, usable_cpus
from evalspec.pipeline.preprocess import Reference
from evalspec.pipeline.untrusted_code import first_line, load_reference, source_file, weights_only
from evalspec.runtimes.guards.observe import precision_of
from evalspec.runtimes.torch_model.content import refuse_content
from evalspec.runtimes.torch_model.loaded import LoadedTorch, named

WEIGHT_AXES = 2
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class Torch(FileModel):
    """An exported program (``.pt2``), or a state dict with a ``factory`` that makes the module.

    A plain exported program needs no trust. A factory, an archive with compiled code and anything that would have to
    be unpickled do. A single output is called ``output``, several ``output_0``, ``output_1``, ..., a dict's by key.

    The CUDA path is written against torch's documentation and tested with stand-ins; it has not been seen on a GPU yet.
    """

    extra_name: ClassVar[str] = "torch"
    packages: ClassVar[tuple[str, ...]] = ("torch",)

    kind: Literal["torch"] = "torch"
    factory: Reference | None = Field(
        None, description="Builds the module for a state dict: `package.module:function`, only under --trust."
    )
    dtype: Literal["fp32", "fp16", "bf16"] | None = Field(
        None, description="Convert the factory's module and its inputs; an exported program has its own."
    )
    compile: bool = Field(False, description="Run through torch.compile; compilation happens during the warm-up.")

    @model_validator(mode="after")
    def _dtype_needs_a_factory(self) -> Self:
        if self.dtype is not None and self.factory is None:
            raise ValueError("`dtype` needs `factory`: an exported program computes in the types it was exported with")
        if self.factory is not None and self.path.endswith(".pt2"):
            raise ValueError("`factory` needs a state dict: an exported program (.pt2) is a module already")
        return self

    def runs_code(self) -> tuple[str, ...]:
        """The stages that are code, and the factory."""
        return (*super().runs_code(), *((f"the factory {self.factory}",) if self.factory is not None else ()))

    def may_hide_code(self, access: Access) -> str | None:
        """Compiled code or pickled constants in an exported program."""
        if self.factory is not None:
            return None
        from evalspec.runtimes.torch_model.archive import hidden_code

        return hidden_code(self._file(access), self.path)

    def files(self, access: Access) -> tuple[Path, ...]:
        """A factory's source belongs to the artifact."""
        found = (self._file(access),)
        return (*found, source_file(self.factory, access)) if self.factory is not None else found

    def _file(self, access: Access) -> Path:
        path = self.model_file(access)
        refuse_content(path, self.path, self.factory)
        if self.factory is None and path.suffix != ".pt2":
            raise InputError(
                f"{self.path!r} is not an exported program (.pt2)",
                remedy="save one with torch.export.save, or name the `factory:` that makes the state dict's module",
            )
        return path

    def load(self, access: Access, *, threads: int | None = None) -> Loaded:
        path = self._file(access)
        threads = threads or usable_cpus()
        # torch reads it at every load; without it, loading falls back to unpickling anything.
        with weights_only(on=not access.trust):
            import torch

            from evalspec.runtimes.torch_model.archive import inspect_archive

            torch.set_num_threads(threads)
            place = device_of(self.device)
            _set_tf32(self.device, self.precision == "tf32")
            if self.factory is not None:
                return _from_factory(self, path, access, place, threads)
            archive = inspect_archive(path, self.path, access)
            if archive.compiled:
                return _compiled(self, path, threads)
            return _exported(self, path, place, threads)


def _stamp(path: Path) -> tuple[int, int, int]:
    """Facts of a file that change when somebody writes to it."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def device_of(name: str) -> Any:
    """The torch device of this name.

    Raises:
        InputError: This torch has no CUDA, there is no GPU, or not so many.
    """
    import torch

    if name == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = "was built without CUDA" if torch.version.cuda is None else "finds no usable GPU"
        raise InputError(
            f"the spec sets device {name!r}, but this torch ({torch.__version__}) {built}",
            remedy="install torch's CUDA build and NVIDIA's driver, or set device: cpu",
        )
    device = torch.device(name)
    count = torch.cuda.device_count()
    if (device.index or 0) >= count:
        raise InputError(
            f"the spec sets device {name!r}, but there are {count} GPUs", choices=[f"cuda:{i}" for i in range(count)]
        )
    return device


def _set_tf32(device: str, on: bool) -> None:
    if device == "cpu":
        return
    import torch

    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def observed_of(
    tensors: Sequence[Any], *, device: str, precision: str | None, threads: int, compiled: bool = False
) -> dict[str, Cell]:
    """Facts about a model that runs, from its parameters and buffers.

    Args:
        tensors: Of torch.
        device: As the spec names it.
        precision: As the spec states it: tf32 leaves no trace in a tensor.
        threads: That it may use.
        compiled: It was compiled.
    """
    import torch

    counts: dict[str, int] = {}
    for tensor in tensors:
        if tensor.dim() >= WEIGHT_AXES:
            name = str(tensor.dtype).removeprefix("torch.")
            counts[name] = counts.get(name, 0) + tensor.numel()
    seen = precision_of(counts)
    if seen == "fp32" and device != "cpu" and precision == "tf32":
        seen = "tf32"
    return {
        "precision": seen,
        "device": device,
        "threads": threads,
        "framework": f"torch {torch.__version__}",
        "parameters": sum(tensor.numel() for tensor in tensors),
        "compiled": compiled,
    }


def _observed(model: Torch, tensors: Sequence[Any], threads: int) -> dict[str, Cell]:
    return observed_of(tensors, device=model.device, precision=model.precision, threads=threads, compiled=model.compile)


def _exported(model: Torch, path: Path, place: Any, threads: int) -> LoadedTorch:
    """An exported program as a callable.

    Raises:
        InputError: It can't be loaded, or takes something else than tensors.
    """
    import torch
    from torch.utils import _pytree as pytree

    try:
        program = torch.export.load(path)
        if place.type != "cpu":
            from torch.export.passes import move_to_device_pass

            program = move_to_device_pass(program, place)
        module = program.module()
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{model.path!r} holds a pickle with more than weights, which can run code when it is loaded",
            remedy="pass --trust if you know where it comes from",
        ) from error
    except Exception as error:
        raise InputError(f"torch can't load {model.path!r}: {type(error).__name__}: {first_line(error)}") from error
    nodes = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    names = tuple(str(name) for name in program.graph_signature.user_inputs)
    other = [name for name in names if not isinstance(nodes.get(name), torch.Tensor)]
    if other:
        raise InputError(f"{model.path!r} takes {other[0]!r}, which is not a tensor", remedy="export it without")
    tensors = {name: _tensor(nodes[name]) for name in names}
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec

    def run(arrays: Mapping[str, Any]) -> Any:
        args, kwargs = pytree.tree_unflatten([arrays[name] for name in names], in_spec)
        return ready(*args, **kwargs)

    def eager(arrays: Mapping[str, Any]) -> Any:
        args, kwargs = pytree.tree_unflatten([arrays[name] for name in names], in_spec)
        return module(*args, **kwargs)

    ready = torch.compile(module) if model.compile else module
    held = [value for value in (*program.state_dict.values(), *program.constants.values()) if torch.is_tensor(value)]
    outputs = pytree.tree_unflatten(list(range(out_spec.num_leaves)), out_spec)
    return LoadedTorch(
        observed=_observed(model, held, threads),
        input_names=names,
        output_names=tuple(named(outputs)),
        fixed_batch=_fixed_batch(model, tensors),
        tensors=tensors,
        run=run,
        place=place,
        dtype=None,
        eager=eager,
        held=tuple(held),
    )


def _tensor(value: Any) -> Tensor:
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    name = str(value.dtype).removeprefix("torch.")
    return Tensor(shape, None if name == "bfloat16" else name)


def _fixed_batch(model: Torch, tensors: Mapping[str, Tensor]) -> int | None:
    batches = sorted({tensor.shape[0] for tensor in tensors.values() if tensor.shape and tensor.shape[0] is not None})
    if len(batches) > 1:
        raise InputError(
            f"the inputs of {model.path!r} have several fixed batches: {batches}",
            remedy="export it with a dynamic first size",
        )
    return batches[0] if batches else None


def _compiled(model: Torch, path: Path, threads: int) -> LoadedTorch:
    """An archive compiled ahead of time, under trust."""
    import torch

    if not model.inputs:
        raise InputError(
            f"{model.path!r} is compiled and does not name its inputs",
            remedy="name them in the order in which it takes them: inputs: {x: column}",
        )
    try:
        package = torch._inductor.aoti_load_package(str(path))
    except Exception as error:
        raise InputError(f"torch can't load {model.path!r}: {type(error).__name__}: {first_line(error)}") from error
    names = tuple(model.inputs)
    return LoadedTorch(
        observed=_observed(model, (), threads) | {"compiled": True, "parameters": None},
        input_names=names,
        output_names=(),
        run=lambda arrays: package(*(arrays[name] for name in names)),
        place=device_of(model.device),
        dtype=None,
    )


def _from_factory(model: Torch, path: Path, access: Access, place: Any, threads: int) -> LoadedTorch:
    """A module made by code that the spec names, with the file's weights.

    Raises:
        InputError: Not trusted, no module, or weights that do not fit it.
    """
    import torch

    before = _stamp(path)
    factory = load_reference(model.factory or "", access, "the model's factory")
    module = factory if isinstance(factory, torch.nn.Module) else factory()
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"{model.factory} made a {type(module).__name__}, not a torch.nn.Module")
    if _stamp(path) != before:
        raise InputError(
            f"{model.path!r} was overwritten while {model.factory} was imported, so the weights have changed",
            remedy='put the training code under `if __name__ == "__main__":`, or move the class into its own module, '
            "and restore the weights",
        )
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        module.load_state_dict(state.get("state_dict", state))
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise InputError(f"{model.path!r} is not a state dict for {model.factory}: {said}") from error
    dtype = getattr(torch, DTYPES[model.dtype]) if model.dtype is not None else None
    return loaded_module(
        module, place, dtype, compiled=model.compile, observed=lambda held: _observed(model, held, threads)
    )


def loaded_module(
    module: Any, place: Any, dtype: Any, *, compiled: bool, observed: Callable[[Sequence[Any]], dict[str, Cell]]
) -> LoadedTorch:
    """A module, ready to be asked; its inputs are the parameters of its ``forward`` without a default.

    Args:
        module: A ``torch.nn.Module``, which is put into evaluation mode.
        place: The torch device that it runs on.
        dtype: The torch type that it and its inputs are converted to; None: they stay as they are.
        compiled: It is compiled first.
        observed: Facts about it, from its parameters and buffers.
    """
    import inspect

    import torch

    module = module.eval().to(device=place, dtype=dtype)
    held = (*module.parameters(), *module.buffers())
    names = tuple(
        name
        for name, parameter in inspect.signature(module.forward).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )
    ready = torch.compile(module) if compiled else module
    return LoadedTorch(
        observed=observed(held),
        computes=next(
            (str(one.dtype).removeprefix("torch.") for one in module.parameters() if one.is_floating_point()), ""
        ),
        input_names=names,
        output_names=(),
        run=lambda arrays: ready(**arrays),
        place=place,
        dtype=dtype,
        eager=lambda arrays: module(**arrays),
        held=held,
    )
