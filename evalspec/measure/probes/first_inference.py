"""The first query of a fresh process, and the ones right after it."""

from __future__ import annotations

import numpy as np

from evalspec.clocks import now_ns
from evalspec.errors import NotRunError
from evalspec.evidence.frozen import Cell
from evalspec.measure.probes import Context, ProbeResult
from evalspec.measure.servable import Rotation, streamed_by

QUERIES = 20
"""Asked after the first one."""


def probe(context: Context) -> ProbeResult:
    """Serve one query, then some more, and time each.

    Options: ``queries``: how many after the first.

    Returns:
        The facts ``first_inference_ms`` and, of a model that streams its answers, ``first_token_ms``; the
        series ``inference_ms``, the first one first.

    Raises:
        NotRunError: The model is a server that was started before.
    """
    refuse_server(context, "so how it starts can't be seen from here")
    order = Rotation(context.rows.n, 1, context.seed)
    count = 1 + int(context.options.get("queries", QUERIES))
    spent_ms = np.empty(count)
    facts: dict[str, Cell] = {}
    streamed = streamed_by(context.rows)
    for index in range(count):
        query = context.rows.take(order.rows(index))
        began = now_ns()
        outputs = context.rows.serve(query)
        context.rows.synchronize()
        spent_ms[index] = (now_ns() - began) / 1e6
        if index == 0 and streamed is not None and (pieces := streamed(outputs).piece_ns):
            facts["first_token_ms"] = (pieces[0] - began) / 1e6
    facts["first_inference_ms"] = float(spent_ms[0])
    return ProbeResult(facts=facts, series={"inference_ms": spent_ms})


def refuse_server(context: Context, because: str) -> None:
    """Raise where what is asked about happens in a process that is not this one.

    Raises:
        NotRunError: The model is a server.
    """
    if context.model.served:
        raise NotRunError(f"the model is a server that runs already, {because}")
