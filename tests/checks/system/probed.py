"""What probes might have found, made of plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from evalspec.errors import NotRunError
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from evalspec.runtimes.onnx_model.profile import family as onnx_family
from evalspec.runtimes.torch_model.inspect import family as torch_family

Maker = Callable[[str, str, Mapping[str, Cell]], list[Probe]]


def stages(
    stage_ms: Mapping[str, float],
    *,
    whole_ms: float | None = None,
    processes: int = 5,
    queries: int | None = None,
    slow: float = 0.0,
) -> Maker:
    """Processes that served queries by stages.

    Args:
        stage_ms: Stage: its time; varies by 2 % over processes and 5 % over queries.
        whole_ms: Of the undivided query; default: all stages one after the other.
        processes: How many there are.
        queries: In each; default: as asked for.
        slow: Share of queries that were put off the processor for 100 ms.
    """
    rng = np.random.default_rng(4)

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        assert probe == "stages"
        count = int(str(options["queries"])) if queries is None else queries
        made = []
        for process in range(processes):
            series = {}
            for name, ms in {**stage_ms, "": sum(stage_ms.values()) if whole_ms is None else whole_ms}.items():
                took = ms * np.exp(0.02 * rng.standard_normal()) * rng.gamma(400.0, 1 / 400.0, count)
                took = took + 100.0 * (rng.random(count) < slow)
                series[f"stage_ns:{name}" if name else "end_to_end_ns"] = 1e6 * took
            facts: dict[str, Cell] = {"queries": count, "batch": 1, "timer_overhead_ns": 50.0}
            made.append(Probe("stages", model, process, facts, series, {"stages": tuple(stage_ms)}))
        return made

    return make


def roofline(
    *,
    operations: float = 1e9,
    weight_bytes: float = 4e6,
    activation_bytes: float = 4e6,
    fraction: float = 0.5,
    on_calls: float | None = 0.0,
    gemm: float | None = 1e11,
    near: float = 5e10,
    processes: int = 5,
    calls: int | None = None,
    noise: float = 0.02,
) -> Maker:
    """Processes that measured a model under a known roof.

    Args:
        operations: Of a batch.
        weight_bytes: Of a batch.
        activation_bytes: Of a batch.
        fraction: Of the roof that is reached.
        on_calls: Share of a call that does not grow with the batch; None: the batch is fixed.
        gemm: Ceiling of the arithmetic; None: the device has no such product.
        near: Ceiling of copies.
        processes: How many there are.
        calls: In each; default: as asked for.
        noise: Variation over processes.
    """
    rng = np.random.default_rng(8)
    moved = weight_bytes + activation_bytes
    least = max(operations / (gemm or 1e11), moved / near, 1e-6)

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        assert probe == "roofline"
        count = int(str(options["calls"])) if calls is None else calls
        made = []
        for process in range(processes):
            warm = least / fraction * np.exp(noise * rng.standard_normal())
            grows = None if on_calls is None else warm * (1 - on_calls) - (weight_bytes / near if on_calls else 0.0)
            facts: dict[str, Cell] = {
                "operations": operations, "executed_operations": operations, "weight_bytes": weight_bytes,
                "input_bytes": 0.0, "output_bytes": 0.0, "activation_bytes": activation_bytes, "calls": count,
                "warm_s": warm if count else None, "warm_wall_s": warm, "cold_s": 1.5 * warm,
                "larger_batch_s": None if grows is None else warm + 3 * grows, "larger_batch_factor": 4,
                "gemm_per_s": gemm, "gemm_median_per_s": gemm, "gemm_spread": 0.01, "gemm_what": "fp32 GEMM 512",
                "near_per_s": near, "near_median_per_s": near, "near_spread": 0.02, "near_what": "copy of 4 MiB",
                "memory_per_s": near / 4, "memory_median_per_s": near / 4, "memory_spread": 0.1,
                "memory_what": "copy of 128 MiB", "batch": 32, "compute_precision": "fp32",
                "engine": "torch 2.13 on cpu", "clock": "wall clock", "counted_by": "by hand", "uncounted": "",
                "flag_tf32": False,
            }  # fmt: skip
            series = {
                "kind_count": np.array([2.0, 1.0]), "kind_operations": np.array([operations, 0.0]),
                "kind_bytes": np.array([moved, 0.0]),
            }  # fmt: skip
            made.append(Probe("roofline", model, process, facts, series, {"kinds": ("MatMul", "Reshape")}))
        return made

    return make


Row = tuple[str, str, str, str, str, str, float]
"""Name, kind, place, computes, weights, activations, operations."""


def precision(rows: Sequence[Row], **facts: Cell) -> Maker:
    """A process in which these operators ran."""

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        assert probe == "precision"
        names = ("names", "kinds", "places", "computes", "weights", "activations")
        columns = list(zip(*rows, strict=True)) if rows else [()] * 7
        texts = {name: tuple(str(value) for value in columns[place]) for place, name in enumerate(names)}
        series = {
            "operations": np.array(columns[6], dtype=np.float64),
            "weight_bytes": np.array([10.0 if weights else 0.0 for weights in columns[4]]),
        }
        texts["written_kinds"] = texts["kinds"]
        texts["written_families"] = tuple(_family(kind) for kind in texts["kinds"])
        found = {"batch": 1, "device_observed": "cpu", "precision_observed": "fp32", "counted_by": "by hand", **facts}
        return [Probe("precision", model, 0, found, series, texts)]

    return make


def _family(kind: str) -> str:
    _, dot, name = kind.partition(".")
    return torch_family(name) if dot else onnx_family(kind)


def operators_of(models: Mapping[str, Sequence[Row]], **facts: Cell) -> Maker:
    """A process of each model in which its operators ran; of a model that isn't there none can be seen."""

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        if model not in models:
            raise NotRunError(f"the operators of {model} can't be seen")
        framework = "torch 2" if any("." in row[1] for row in models[model]) else "onnxruntime 1"
        return precision(models[model], **{"framework": framework, **facts})(probe, model, options)

    return make
