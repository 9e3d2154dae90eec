"""A torch module on its device: served, looked into, run again and again, taken apart into stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError, NotRunError
from evalspec.pipeline.loaded import Loaded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.abilities import OperatorTrace


@dataclass(kw_only=True)
class LoadedTorch(Loaded):
    """A module on its device.

    Args:
        run: Tensors by name to whatever the module returns.
        place: The device.
        dtype: What floating inputs are converted to, or None.
        eager: As ``run``, uncompiled; None: there is only compiled code.
        held: Its parameters and buffers.
    """

    run: Callable[[Mapping[str, Any]], Any]
    place: Any
    dtype: Any
    eager: Callable[[Mapping[str, Any]], Any] | None = None
    held: tuple[Any, ...] = ()
    computes: str = ""
    """Type of the weights of a module that does not state its inputs; empty: it states them, or has none."""

    def inspect(self, inputs: Mapping[str, NDArray[Any]]) -> OperatorTrace:
        """As `evalspec.language.abilities.Inspectable.inspect`; a compiled module is seen before it is compiled."""
        from evalspec.runtimes.torch_model.inspect import inspect_module

        if self.eager is None:
            raise NotRunError("an archive with compiled code can't be inspected: its operators are not torch's")
        tensors = {name: self._tensor(array, name) for name, array in inputs.items()}
        return inspect_module(self.eager, tensors, self.held, inputs)

    def runner(self, batches: Sequence[Mapping[str, NDArray[Any]]]) -> Callable[[int], object]:
        """As `evalspec.language.abilities.Runner.runner`."""
        import torch

        ready = [{name: self._tensor(array, name) for name, array in batch.items()} for batch in batches]

        def call(index: int) -> object:
            with torch.inference_mode():
                return self.run(ready[index % len(ready)])

        return call

    def steps(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        """As `evalspec.language.abilities.Stepped.steps`: the copies to and from a GPU stand apart."""
        import torch

        def inference(tensors: Mapping[str, Any]) -> dict[str, Any]:
            with torch.inference_mode():
                return named(self.run(tensors))

        copies_in = ("copy_to_device", lambda inputs: {name: self._tensor(a, name) for name, a in inputs.items()})
        copies_out = ("copy_to_host", lambda outputs: {name: _array(value, name) for name, value in outputs.items()})
        if self.place.type != "cpu":
            return (copies_in, ("inference", inference), copies_out)
        return (("inference", self.predict),)

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One batch, without gradients; the answer is on the host when it returns."""
        import torch

        tensors = {name: self._tensor(array, name) for name, array in inputs.items()}
        try:
            with torch.inference_mode():
                outputs = named(self.run(tensors))
        except RuntimeError as error:
            raise self._of_another_type(tensors) or error from error
        return {name: _array(value, name) for name, value in outputs.items()}

    def _of_another_type(self, tensors: Mapping[str, Any]) -> InputError | None:
        """Error of an input whose type is not that of the weights; None: all have it."""
        for name, tensor in tensors.items():
            given = str(tensor.dtype).removeprefix("torch.")
            if self.computes and tensor.is_floating_point() and given != self.computes:
                return InputError(
                    f"the model's weights are {self.computes} but its input {name!r} is {given}",
                    remedy=f"add `preprocess: [{{cast: {self.computes}}}]`",
                )
        return None

    def synchronize(self) -> None:
        if self.place.type != "cpu":
            import torch

            torch.cuda.synchronize(self.place)

    def parameters(self) -> int | None:
        """Numbers in its parameters; where it has none by that name (frozen weights), in all that it holds."""
        import torch

        trained = [tensor for tensor in self.held if isinstance(tensor, torch.nn.Parameter)] or self.held
        return sum(int(tensor.numel()) for tensor in trained) or None

    def peak_device_bytes(self) -> int | None:
        """The most that torch has reserved of the GPU's memory; None on the CPU."""
        if self.place.type == "cpu":
            return None
        import torch

        return int(torch.cuda.max_memory_reserved(self.place))

    def _tensor(self, array: NDArray[Any], name: str) -> Any:
        import torch

        if array.dtype.kind not in "biuf":
            raise InputError(f"the model's input {name!r} takes numbers but got text")
        # torch warns of arrays that it may not write to, such as those that stand in the dataset's own memory.
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        dtype = self.dtype if self.dtype is not None and tensor.is_floating_point() else tensor.dtype
        # Asking torch for what is there already costs microseconds, in every query.
        return tensor if self.place.type == "cpu" and dtype == tensor.dtype else tensor.to(self.place, dtype)


def _array(value: Any, name: str) -> NDArray[Any]:
    import torch

    if not isinstance(value, torch.Tensor):
        raise InputError(f"the output {name!r} is a {type(value).__name__}, not a tensor")
    if value.requires_grad:
        value = value.detach()
    if value.dtype == torch.bfloat16:
        value = value.float()
    array: NDArray[Any] = (value if value.device.type == "cpu" else value.cpu()).numpy()
    return array


def named(outputs: Any) -> dict[str, Any]:
    """Outputs by name: a dict's by key, a single one as ``output``, several as ``output_0``, ``output_1``, ..."""
    if isinstance(outputs, Mapping):
        return {str(name): value for name, value in outputs.items()}
    if isinstance(outputs, tuple | list):
        return {f"output_{index}": value for index, value in enumerate(outputs)}
    return {"output": outputs}
