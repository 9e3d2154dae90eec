"""``evalspec verify``."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import AllowOutside, Json, echo, echo_json

NOT_ALL = 3
"""Nothing differs, but something could not be made again here, or another version words it otherwise."""


def command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    spec_folder: Annotated[
        Path | None,
        typer.Option(
            "--spec-folder",
            metavar="DIR",
            exists=True,
            file_okay=False,
            resolve_path=True,
            help="Folder of the spec, if it or the run was moved; the data are read from there.",
        ),
    ] = None,
    allow_outside: AllowOutside = False,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample", metavar="SHARE", help="Check this share of the parts of answers to large datasets: 5 %."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Of the parts that --sample chooses; default: a new one, which is printed."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute a run from its raw evidence, compare it with record, pages and journal, and report differences."""
    from evalspec.records.answer_parts import PartSample
    from evalspec.records.verify import verify
    from evalspec.running.folders import folder_of

    chosen = None if sample is None else PartSample(_share(sample), secrets.randbits(32) if seed is None else seed)
    found = verify(folder_of(folder), spec_folder=spec_folder, allow_outside=allow_outside, sample=chosen)
    if as_json:
        echo_json({"differs": list(found.differs), "same": list(found.same), "not_recomputed": list(found.skipped),
                   "otherwise": list(found.otherwise), "versions": found.versions,
                   "seed": None if chosen is None else chosen.seed})  # fmt: skip
    else:
        if found.versions is not None:
            echo(f"another version: {found.versions}")
        kinds = (
            ("differs", found.differs), ("recomputed differently", found.otherwise), ("not recomputed", found.skipped),
            ("same", found.same),
        )  # fmt: skip
        for kind, lines in kinds:
            for line in lines:
                echo(f"{kind}: {line}")
    raise typer.Exit(1 if found.differs else NOT_ALL if found.skipped or found.otherwise else 0)


def _share(text: str) -> float:
    """A share of 0 to 100 %, as a number.

    Raises:
        SpecError: It is none.
    """
    from evalspec.errors import Problem, SpecError
    from evalspec.language.units import parse_quantity

    share = parse_quantity(text.replace("%", " %"), "fraction")
    if not 0.0 < share <= 1.0:
        raise SpecError(Problem(f"--sample {text!r} is not a share", remedy="write more than 0 and up to 100 %: 5 %"))
    return share
