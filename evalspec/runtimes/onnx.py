"""ONNX models, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from evalspec.errors import InputError, NotRunError
from evalspec.language.parts import Access
from evalspec.pipeline.loaded import Loaded, Tensor
from evalspec.pipeline.model_fields import FileModel, usable_cpus
from evalspec.pipeline.untrusted_code import first_line
from evalspec.runtimes.guards.observe import size_bytes
from evalspec.runtimes.onnx_model.graph import Graph, read_graph, weight_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.abilities import OperatorTrace, TensorNoise

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
ERRORS_ONLY = 3

TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int8)": "int8",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
    "tensor(bool)": "bool",
    "tensor(string)": "str",
}


class Onnx(FileModel):
    """An ONNX file. Weights beside it belong to its digest.

    Threads do not spin between queries, so that a model that waits costs nothing. The CUDA path is written against
    onnxruntime's documentation and tested with stand-ins; it has not been seen on a GPU yet.
    """

    extra_name: ClassVar[str] = "onnx"
    packages: ClassVar[tuple[str, ...]] = ("onnxruntime",)
    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)
    stateless: ClassVar[bool] = True

    kind: Literal["onnx"] = "onnx"

    def files(self, access: Access) -> tuple[Path, ...]:
        path = self.model_file(access)
        return weight_files(path, self.path, read_graph(path, self.path).external)

    def load(self, access: Access, *, threads: int | None = None) -> Loaded:
        path = self.model_file(access)
        graph = read_graph(path, self.path)
        files = weight_files(path, self.path, graph.external)
        session = _session(path, self, threads or usable_cpus())
        loaded = _loaded(session, self, graph, size_bytes(files), threads or usable_cpus())
        loaded.reopen = lambda change: _session(path, self, threads or usable_cpus(), change)
        loaded.path = path
        return loaded


def providers(device: str, precision: str | None) -> list[Any]:
    """Providers that onnxruntime is asked for.

    Operators that a GPU has no kernel for (shapes) run on the CPU, so the CPU is listed second.
    """
    if device == "cpu":
        return [CPU]
    number = int(device.partition(":")[2] or 0)
    return [(CUDA, {"device_id": number, "use_tf32": "1" if precision == "tf32" else "0"}), CPU]


def _session(path: Path, model: Onnx, threads: int, change: Callable[[Any], None] | None = None) -> Any:
    """A session; ``change`` is handed its options before it is opened."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = ERRORS_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if change is not None:
        change(options)
    if model.device != "cpu" and hasattr(onnxruntime, "preload_dlls"):
        # Finds the CUDA libraries that pip installed; without it only those on the loader's path are seen.
        onnxruntime.preload_dlls()
    try:
        session = onnxruntime.InferenceSession(
            str(path), sess_options=options, providers=providers(model.device, model.precision)
        )
    except Exception as error:
        raise InputError(f"onnxruntime can't load {model.path!r}: {first_line(error)}") from error
    got = session.get_providers()
    if model.device != "cpu" and CUDA not in got:
        raise InputError(
            f"the spec sets device {model.device!r}, but onnxruntime got {', '.join(got)}",
            remedy="install onnxruntime-gpu with the CUDA and cuDNN that it needs (pip install "
            "'onnxruntime-gpu[cuda,cudnn]') and no plain onnxruntime beside it, or set device: cpu",
        )
    return session


def _loaded(session: Any, model: Onnx, graph: Graph, size: int, threads: int) -> LoadedOnnx:
    import onnxruntime

    inputs = session.get_inputs()
    tensors = {
        one.name: Tensor(tuple(size if isinstance(size, int) else None for size in one.shape), TYPES.get(one.type))
        for one in inputs
    }
    batches = sorted({tensor.shape[0] for tensor in tensors.values() if tensor.shape and tensor.shape[0] is not None})
    if len(batches) > 1:
        raise InputError(f"the inputs of {model.path!r} have several fixed batches: {batches}")
    on_gpu = CUDA in session.get_providers()
    precision = "tf32" if on_gpu and graph.precision == "fp32" and model.precision == "tf32" else graph.precision
    outputs = tuple(one.name for one in session.get_outputs())
    return LoadedOnnx(
        observed={
            "precision": precision,
            "device": model.device if on_gpu else "cpu",
            "provider": session.get_providers()[0],
            "threads": threads,
            "framework": f"onnxruntime {onnxruntime.__version__}",
            "parameters": graph.parameters,
            "size_bytes": size,
        },
        input_names=tuple(tensors),
        output_names=outputs,
        fixed_batch=batches[0] if batches else None,
        tensors=tensors,
        session=session,
        wanted=_wanted(model, outputs),
    )


def _wanted(model: Onnx, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """Outputs to compute: those that the spec names, or all."""
    named = [
        outputs[name] if isinstance(name, int) and 0 <= name < len(outputs) else name for name in model.outputs.values()
    ]
    known = tuple(dict.fromkeys(str(name) for name in named if name in outputs))
    return known if len(known) == len(set(named)) and known else outputs


@dataclass(kw_only=True)
class LoadedOnnx(Loaded):
    """A session of onnxruntime."""

    session: Any
    wanted: tuple[str, ...]
    reopen: Callable[[Callable[[Any], None]], Any] | None = None
    """Opens the same file once more, with options changed."""
    path: Path | None = None

    def tensor_noise(self, floats: Path, shown: str, batches: Sequence[Mapping[str, NDArray[Any]]]) -> TensorNoise:
        """As `evalspec.language.abilities.ComparesTensors.tensor_noise`; on the CPU."""
        from evalspec.runtimes.onnx_model.noise import tensor_noise

        if self.path is None:
            raise NotRunError("the session was not opened from a file, so its tensors can't be read")
        return tensor_noise(self.path, floats, shown, batches)

    def inspect(self, inputs: Mapping[str, NDArray[Any]]) -> OperatorTrace:
        """As `evalspec.language.abilities.Inspectable.inspect`."""
        from evalspec.runtimes.onnx_model.inspect import inspect_session

        if self.reopen is None:
            raise NotRunError("the session can't be reopened, so its operators can't be listed")
        device = str(self.observed["device"])
        options = self.session.get_provider_options().get(CUDA, {})
        flags = {
            "tf32": options.get("use_tf32") == "1" if CUDA in self.session.get_providers() else False,
            "autocast": False,
            "cuda_graphs": options.get("enable_cuda_graph") == "1",
            "graph_optimization": "all, onnxruntime's default",
            "providers": ", ".join(self.session.get_providers()),
        }
        places = {name: "cpu" if name == CPU else device for name in self.session.get_providers()}
        return inspect_session(self.reopen, inputs, self.wanted, places, flags)

    def runner(self, batches: Sequence[Mapping[str, NDArray[Any]]]) -> Callable[[int], object]:
        """As `evalspec.language.abilities.Runner.runner`; inputs and outputs stay where the model runs."""
        import onnxruntime

        device = str(self.observed["device"])
        kind, number = ("cpu", 0) if device == "cpu" else ("cuda", int(device.partition(":")[2] or 0))
        bindings = []
        for batch in batches:
            binding = self.session.io_binding()
            for name, array in batch.items():
                binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array, kind, number))
            for name in self.wanted:
                binding.bind_output(name, kind, number)
            bindings.append(binding)
        return lambda index: self.session.run_with_iobinding(bindings[index % len(bindings)])

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One batch; the answer is on the host when it returns."""
        import numpy as np

        values = self.session.run(list(self.wanted), dict(inputs))
        for name, value in zip(self.wanted, values, strict=True):
            if not isinstance(value, np.ndarray):
                raise InputError(
                    f"the output {name!r} is a {type(value).__name__}, not a tensor",
                    remedy="export the model without ZipMap (zipmap=False)",
                )
        return dict(zip(self.wanted, values, strict=True))

    def close(self) -> None:
        """Let the session go, and its memory with it."""
        self.session = None
        self.reopen = None
