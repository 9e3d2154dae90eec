"""evalspec: one spec, one command, one verdict.

From Python, in a notebook or a test::

    import evalspec

    run = evalspec.run("evalspec.yaml", models={"candidate": model}, datasets={"test": frame})
    assert run.ready, run

Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalspec.version import __version__

if TYPE_CHECKING:
    from evalspec.evidence.record import Record
    from evalspec.evidence.verdict import Verdict
    from evalspec.front_door import Allow, load, plan, read, render, run, validate
    from evalspec.outcome import RequirementResult, Run
    from evalspec.verdict.decide import decide

__all__ = [
    "Allow",
    "Record",
    "RequirementResult",
    "Run",
    "Verdict",
    "__version__",
    "decide",
    "load",
    "plan",
    "read",
    "render",
    "run",
    "validate",
]

_PLACES = {
    "Allow": "evalspec.front_door",
    "Record": "evalspec.evidence.record",
    "RequirementResult": "evalspec.outcome",
    "Run": "evalspec.outcome",
    "Verdict": "evalspec.evidence.verdict",
    "decide": "evalspec.verdict.decide",
    "load": "evalspec.front_door",
    "plan": "evalspec.front_door",
    "read": "evalspec.front_door",
    "render": "evalspec.front_door",
    "run": "evalspec.front_door",
    "validate": "evalspec.front_door",
}


def __getattr__(name: str) -> object:
    """A name of the front door, imported when it is first used (PEP 562).

    Raises:
        AttributeError: There is no such name.
    """
    if name not in _PLACES:
        raise AttributeError(f"module 'evalspec' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
