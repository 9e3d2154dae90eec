"""How much memory a process needs to serve batches of a size."""

from __future__ import annotations

import sys
from pathlib import Path

from evalspec.evidence.frozen import Cell
from evalspec.language.abilities import Counted, OnDevice
from evalspec.measure.probes import Context, ProbeResult
from evalspec.measure.probes.first_inference import refuse_server
from evalspec.measure.servable import Rotation

QUERIES = 20
SELF = Path("/proc/self")


def probe(context: Context) -> ProbeResult:
    """Serve batches, and ask the kernel and the framework for the most that was in use.

    Options: ``batch``: items of a query; ``queries``: how many.

    Returns:
        Facts ``resident_before_mib`` (model and rows in memory), ``peak_host_mib`` (of the whole life of the process),
        ``peak_before_mib`` (until the rows were there), ``peak_serving_mib`` (since), ``peak_framework_mib`` (of the
        device's memory) and ``parameters``; None where nobody tells.

    Raises:
        NotRunError: The model is a server, whose memory is not this process's.
    """
    refuse_server(context, "so its memory can't be seen from here")
    batch = int(context.options["batch"])
    before = _status("VmHWM")
    resident = _status("VmRSS")
    again = _forget_peak()
    order = Rotation(context.rows.n, batch, context.seed)
    for index in range(int(context.options.get("queries", QUERIES))):
        context.rows.serve(context.rows.take(order.rows(index)))
    context.rows.synchronize()
    last = _status("VmHWM")
    peaks = [peak for peak in (before, last) if peak is not None]
    facts: dict[str, Cell] = {
        "resident_before_mib": resident,
        "peak_before_mib": before,
        "peak_serving_mib": last if again else None,
        "peak_host_mib": max(peaks, default=None),
        "parameters": context.loaded.parameters() if isinstance(context.loaded, Counted) else None,
        "peak_framework_mib": _framework(context.loaded),
    }
    return ProbeResult(facts=facts)


def _framework(loaded: object) -> float | None:
    held = loaded.peak_device_bytes() if isinstance(loaded, OnDevice) else None
    return None if held is None else held / 2**20


def _status(name: str) -> float | None:
    """A line of /proc/self/status in MiB; None where there is none (not Linux)."""
    try:
        lines = (SELF / "status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return _from_rusage() if name == "VmHWM" else None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), None)


def _from_rusage() -> float | None:
    """The same on macOS, where ``ru_maxrss`` is in bytes; None elsewhere, where it is in other units or missing."""
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return None


def _forget_peak() -> bool:
    """Let the kernel count the largest resident size anew, where it may."""
    try:
        (SELF / "clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True
