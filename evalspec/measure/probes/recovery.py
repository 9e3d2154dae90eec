"""Kill the server of a model under load, start it again, and count what was lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.errors import NotRunError
from evalspec.language.abilities import KillPlan, Recoverable
from evalspec.measure.probes import Context, ProbeResult


def probe(context: Context) -> ProbeResult:
    """Facts and series of all kills, one after the other, as the options ask: those of a `KillPlan` but for the seed.

    Raises:
        NotRunError: The model is no server that can be started.
    """
    if not isinstance(context.loaded, Recoverable):
        raise NotRunError("only a served model (kind: http) can be killed and started")
    options = {**context.options, "log": Path(context.options["log"])}
    kill = KillPlan(**options, seed=context.seed)
    kills = context.loaded.recover(context.rows, kill, context.access, context.progress)
    count = [len(one.due_s) for one in kills]
    lags = [one.lag_p99_ms for one in kills]
    known = [lag for lag in lags if lag is not None]
    return ProbeResult(
        facts={"repeats": len(kills), "lag_p99_ms": max(known) if len(known) == len(lags) else None},
        series={
            "healthy_s": np.array([np.nan if one.healthy_s is None else one.healthy_s for one in kills]),
            "first_token_s": np.array([np.nan if one.first_token_s is None else one.first_token_s for one in kills]),
            "repeat": np.repeat(np.arange(len(kills), dtype=np.float64), count),
            "due_s": np.concatenate([one.due_s for one in kills]),
            "end_s": np.concatenate([one.end_s for one in kills]),
            "outcome": np.concatenate([one.outcome for one in kills]).astype(np.float64),
        },
    )
