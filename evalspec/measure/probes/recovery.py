"""Kill the server of a model under load, start it again, and count what was lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.errors import NotRunError
from evalspec.language.recovery import Kill, Recoverable
from evalspec.measure.probes import Context, Found


def probe(context: Context) -> Found:
    """Facts and series of all kills, one after the other.

    Options are the fields of `evalspec.language.recovery.Kill` but for the seed.

    Raises:
        NotRunError: The model is no server that can be started.
    """
    if not isinstance(context.loaded, Recoverable):
        raise NotRunError("only a served model (kind: http) can be killed and started")
    options = context.options
    kill = Kill(
        repeats=int(options["repeats"] or 1),
        rate_qps=float(options["rate_qps"] or 0.0),
        kill_after_s=float(options["kill_after_s"] or 0.0),
        within_s=float(options["within_s"] or 0.0),
        settle_s=float(options["settle_s"] or 0.0),
        timeout_s=float(options["timeout_s"] or 0.0),
        connections=int(options["connections"] or 1),
        seed=context.seed,
        pid=int(options["pid"] or 0),
        log=Path(str(options["log"])),
    )
    found = context.loaded.recover(context.rows, kill, context.access, context.progress)
    count = [len(one.due_s) for one in found]
    return Found(
        facts={"repeats": len(found), "lag_p99_ms": max(one.lag_p99_ms for one in found)},
        series={
            "healthy_s": np.array([np.nan if one.healthy_s is None else one.healthy_s for one in found]),
            "repeat": np.repeat(np.arange(len(found), dtype=np.float64), count),
            "due_s": np.concatenate([one.due_s for one in found]),
            "end_s": np.concatenate([one.end_s for one in found]),
            "outcome": np.concatenate([one.outcome for one in found]).astype(np.float64),
        },
    )
