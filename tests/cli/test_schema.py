from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.language.registry import discover
from evalspec.loading.schema import dump, record_schema, spec_schema


def test_the_schema_is_printed() -> None:
    found = CliRunner().invoke(app, ["schema", "--no-plugins"])
    assert found.exit_code == 0
    assert found.stdout == dump(spec_schema(discover(plugins=False)))
    assert CliRunner().invoke(app, ["schema", "--record"]).stdout == dump(record_schema())


def test_the_schema_is_written(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    assert CliRunner().invoke(app, ["schema", "--output", str(path)]).exit_code == 0
    assert json.loads(path.read_text())["$id"] == "spec.v1.json"
    found = CliRunner().invoke(app, ["schema", "--output", str(tmp_path / "none" / "s.json")])
    assert found.exit_code == 2
    assert "can't be written: No such file or directory" in found.stderr


def test_one_schema_at_a_time() -> None:
    found = CliRunner().invoke(app, ["schema", "--model-card"])
    assert (found.exit_code, json.loads(found.stdout)["$id"]) == (0, "model_card.v1.json")
    found = CliRunner().invoke(app, ["schema", "--attestation"])
    assert (found.exit_code, json.loads(found.stdout)["$id"]) == (0, "attestation.v1.json")
    both = CliRunner().invoke(app, ["schema", "--record", "--model-card"])
    assert both.exit_code == 2 and "--record and --model-card are different schemas; name one" in both.stderr
