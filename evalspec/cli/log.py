"""``evalspec log``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import Json, echo, echo_json


def command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    uri: Annotated[
        str,
        typer.Option("--uri", metavar="URI", help="Tracking URI (default: MLFLOW_TRACKING_URI, else mlflow.db here)."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Log a run to MLflow: values with bounds, verdict, statuses, report and record."""
    from evalspec.records.mlflow_log import DEFAULT_URI, log_to_mlflow
    from evalspec.records.outputs import read_decided
    from evalspec.running.folders import folder_of

    folder = folder_of(folder)
    place = log_to_mlflow(read_decided(folder), folder, uri or os.environ.get("MLFLOW_TRACKING_URI", "") or DEFAULT_URI)
    if as_json:
        echo_json({"uri": place.uri, "experiment": place.experiment, "run": place.run})
    else:
        echo(f"mlflow: run {place.run} of experiment {place.experiment} in {place.uri}")
