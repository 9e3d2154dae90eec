"""The first query of a fresh process, and the ones right after it."""

from __future__ import annotations

import numpy as np

from evalspec.clocks import now_ns
from evalspec.errors import NotRunError
from evalspec.measure.probes import Context, ProbeResult
from evalspec.measure.servable import Rotation

QUERIES = 20
"""Asked after the first one."""


def probe(context: Context) -> ProbeResult:
    """Serve one query, then some more, and time each.

    Options: ``queries``: how many after the first.

    Returns:
        The fact ``first_inference_ms``; the series ``inference_ms``, the first one first.

    Raises:
        NotRunError: The model is a server that was started before.
    """
    refuse_server(context, "so how it starts can't be seen from here")
    order = Rotation(context.rows.n, 1, context.seed)
    count = 1 + int(context.options.get("queries", QUERIES))
    spent_ms = np.empty(count)
    for index in range(count):
        query = context.rows.take(order.rows(index))
        began = now_ns()
        context.rows.serve(query)
        context.rows.synchronize()
        spent_ms[index] = (now_ns() - began) / 1e6
    return ProbeResult(facts={"first_inference_ms": float(spent_ms[0])}, series={"inference_ms": spent_ms})


def refuse_server(context: Context, because: str) -> None:
    """Raise where what is asked about happens in a process that is not this one.

    Raises:
        NotRunError: The model is a server.
    """
    if context.model.served:
        raise NotRunError(f"the model is a server that runs already, {because}")
