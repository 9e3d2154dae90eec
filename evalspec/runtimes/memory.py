"""Models that the calling program had in memory: estimators, torch modules, and what can be called."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from evalspec.language.parts import Access
from evalspec.pipeline.loaded import Loaded
from evalspec.pipeline.model_fields import RuntimeModel, usable_cpus
from evalspec.pipeline.objects import is_estimator, is_module, read_object


class MemoryModel(RuntimeModel):
    """A model of the calling program: ``evalspec.run(spec, models={"candidate": model})``. No file is read.

    An estimator of scikit-learn (or what is made like one), a torch module, or a callable that takes a dict of arrays
    and returns one. `evalspec.run` writes kind and path itself; an entry of the spec has the other fields, such as
    `inputs`, `outputs` and `classes`.
    """

    in_memory: ClassVar[bool] = True

    kind: Literal["memory"] = "memory"
    path: str = Field("", description="Set by `evalspec.run`: the copy in the run's folder.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The copy that was handed over."""
        return (access.handed_over(self.path),)

    def load(self, access: Access, *, threads: int | None = None) -> Loaded:
        (path,) = self.files(access)
        return self.ready(read_object(path, access.searched), threads or usable_cpus())

    def ready(self, value: Any, threads: int) -> Loaded:
        """An object, ready to be asked.

        Args:
            value: An estimator, a torch module or what can be called.
            threads: That it may use.

        Raises:
            InputError: It lacks a method that the spec names.
        """
        if is_module(value):
            return self._module(value, threads)
        if is_estimator(value):
            from evalspec.runtimes.sklearn import loaded_estimator

            return loaded_estimator(value, self.outputs, threads)
        from evalspec.runtimes.python import LoadedPython

        return LoadedPython(
            observed={"framework": "python", "threads": threads},
            input_names=(),
            output_names=(),
            function=value,
            reference=getattr(value, "__qualname__", type(value).__name__),
        )

    def _module(self, module: Any, threads: int) -> Loaded:
        import torch

        from evalspec.runtimes.torch import device_of, loaded_module, observed_of

        torch.set_num_threads(threads)
        floating = {one.dtype for one in module.parameters() if one.is_floating_point()}
        return loaded_module(
            module,
            device_of(self.device),
            # Frames hold doubles, and a module computes in one type: rows are converted to it.
            floating.pop() if len(floating) == 1 else None,
            compiled=False,
            observed=lambda held: observed_of(held, device=self.device, precision=self.precision, threads=threads),
        )
