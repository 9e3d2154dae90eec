"""Operators of a model under onnxruntime: profiled runs of one batch, as it is served and as it is written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.clocks import now_ns
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.frozen import Cells
from evalspec.language.abilities import Operator, OperatorTrace
from evalspec.pipeline.untrusted_code import first_line
from evalspec.runtimes.onnx_model.profile import UNCOUNTED, read_profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLAIN, SERVED = "plain", "served"
RUNS = {PLAIN: 1, SERVED: 2}
"""The last one is kept: the first makes room and chooses kernels, which takes time that later ones don't."""


def inspect_session(
    open_session: Callable[[Callable[[Any], None]], Any],
    inputs: Mapping[str, NDArray[Any]],
    wanted: tuple[str, ...],
    places: Mapping[str, str],
    flags: Cells,
) -> OperatorTrace:
    """Operators as they are served, operations as the file has them.

    Fused kernels and kernels on padded layouts do other numbers of operations than the model is made of, so these are
    counted in a run without optimization. Weights are not packed beforehand in either, since the profile would not
    show their shapes.

    Args:
        open_session: Opens the model as it is served; is handed what changes the session's options.
        inputs: One batch.
        wanted: Outputs to compute.
        places: Name of a provider: the device that it stands for.
        flags: What the session was opened with.

    Raises:
        InputError: The model refuses the batch.
        NotRunError: onnxruntime gives no profile.
    """
    served, outputs, run_us = _profiled(open_session, inputs, wanted, places, SERVED)
    plain, _, _ = _profiled(open_session, inputs, wanted, places, PLAIN)
    return OperatorTrace(
        operators=served,
        operations=sum(one.operations for one in plain),
        input_bytes=float(sum(array.nbytes for array in inputs.values())),
        output_bytes=float(sum(getattr(value, "nbytes", 0) for value in outputs)),
        flags=flags,
        uncounted=tuple(sorted({one.kind for one in plain if one.kind in UNCOUNTED})),
        how="shapes in onnxruntime's profile, operations without optimization",
        written=plain,
        run_us=run_us,
    )


def _profiled(
    open_session: Callable[[Callable[[Any], None]], Any],
    inputs: Mapping[str, NDArray[Any]],
    wanted: tuple[str, ...],
    places: Mapping[str, str],
    how: str,
) -> tuple[tuple[Operator, ...], list[Any], float]:
    """Operators of the last run, its outputs, and its time in microseconds, copies to the host included."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:

        def change(options: Any) -> None:
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(folder) / how)
            options.add_session_config_entry("session.disable_prepacking", "1")
            if how == PLAIN:
                options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

        session = open_session(change)
        try:
            for _ in range(RUNS[how]):
                began = now_ns()
                outputs = session.run(list(wanted), dict(inputs))
                run_us = (now_ns() - began) / 1e3
        except Exception as error:
            raise InputError(f"onnxruntime can't run the batch: {first_line(error)}") from error
        profile = session.end_profiling()
        if not profile:
            raise NotRunError("this onnxruntime writes no profile, so its operators can't be listed")
        return read_profile(Path(profile), places), list(outputs), run_us
