"""`precision`: number types, places and flags of everything that runs for one batch."""

from __future__ import annotations

import numpy as np

from evalspec.errors import NotRunError
from evalspec.language.abilities import Inspectable
from evalspec.measure.probes import Context, ProbeResult
from evalspec.measure.servable import Rotation


def probe(context: Context) -> ProbeResult:
    """Run one batch and say of each operator where it ran and in which number types.

    Options: ``batch``.

    Returns:
        Texts, one entry for each operator: ``names``, ``kinds``, ``places``, ``providers``, ``computes``, ``weights``,
        ``activations``; ``written_kinds`` and ``written_families`` of the operators of the model as it is written.
        Series ``operations`` and ``weight_bytes``, shape (operators,); ``took_us``, the same, where a time was
        measured.

    Raises:
        NotRunError: The model's operators can't be seen.
    """
    loaded = context.loaded
    if not isinstance(loaded, Inspectable):
        raise NotRunError(f"the operators of kind {context.model.kind!r} can't be seen")
    batch = loaded.fixed_batch or int(context.options["batch"])
    rows = Rotation(context.rows.n, batch, context.seed).rows(0)
    inside = loaded.inspect(context.tensors(rows))
    operators, written = inside.operators, inside.written or inside.operators
    took = [one.took_us for one in operators if one.took_us is not None]
    return ProbeResult(
        facts={
            "batch": batch,
            "device_observed": loaded.observed.get("device"),
            "precision_observed": loaded.observed.get("precision"),
            "framework": loaded.observed.get("framework"),
            "counted_by": inside.how,
            "run_us": inside.run_us,
            **{f"flag_{name}": value for name, value in inside.flags.items()},
        },
        series={
            "operations": np.array([one.operations for one in operators], dtype=np.float64),
            "weight_bytes": np.array([one.weight_bytes for one in operators], dtype=np.float64),
            **({"took_us": np.array(took, dtype=np.float64)} if len(took) == len(operators) else {}),
        },
        texts={
            "names": tuple(one.name for one in operators),
            "kinds": tuple(one.kind for one in operators),
            "places": tuple(one.place for one in operators),
            "providers": tuple(one.provider for one in operators),
            "computes": tuple(one.computes for one in operators),
            "weights": tuple(one.weights for one in operators),
            "activations": tuple(one.activations for one in operators),
            "written_kinds": tuple(one.kind for one in written),
            "written_families": tuple(one.family for one in written),
        },
    )
