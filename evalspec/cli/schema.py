"""``evalspec schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import Json, echo, echo_json, echo_text
from evalspec.errors import Problem, SpecError


def command(
    record: Annotated[
        bool, typer.Option("--record", help="The schema of record.json instead of that of a spec.")
    ] = False,
    monitoring: Annotated[bool, typer.Option("--monitoring", help="The schema of monitoring.json.")] = False,
    model_card: Annotated[
        bool, typer.Option("--model-card", help="The schema of what `report --model-card` prints.")
    ] = False,
    attestation: Annotated[
        bool, typer.Option("--attestation", help="The schema of what `report --attestation` prints.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Write it to this file.")] = None,
    plugins: Annotated[
        bool, typer.Option("--plugins/--no-plugins", help="Include the checks and kinds of installed extensions.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Print the JSON Schema with which an editor completes a spec."""
    from evalspec.language.registry import discover
    from evalspec.loading import schema

    kinds = {
        "--record": (record, schema.record_schema),
        "--monitoring": (monitoring, schema.monitoring_schema),
        "--model-card": (model_card, schema.model_card_schema),
        "--attestation": (attestation, schema.attestation_schema),
    }
    asked = [option for option, (wanted, _) in kinds.items() if wanted]
    if len(asked) > 1:
        raise SpecError(Problem(f"{' and '.join(asked)} are different schemas", remedy="name one"))
    text = schema.dump(kinds[asked[0]][1]() if asked else schema.spec_schema(discover(plugins=plugins)))
    if output is None:
        echo_text(text)
        return
    schema.save(text, output)
    if as_json:
        echo_json({"schema": str(output)})
    else:
        echo(f"wrote {output}")
