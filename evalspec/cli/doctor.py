"""``evalspec doctor``."""

from __future__ import annotations

import typer

from evalspec.cli._output import Json, echo, echo_json


def command(as_json: Json = False) -> None:
    """Show what this machine can measure: runtimes that load, providers, clocks, counters, limits."""
    from evalspec.running.doctor import examine

    findings = examine()
    if as_json:
        echo_json([{"what": one.what, "state": one.state, "detail": one.detail} for one in findings])
    else:
        for one in findings:
            echo(f"{one.state:<8} {one.what}: {one.detail}")
    raise typer.Exit(4 if any(one.state == "broken" for one in findings) else 0)
