from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from evalspec.errors import SpecError
from evalspec.language.yaml import read_text
from evalspec.loading import LoadOptions, load
from evalspec.loading.starter import start, template


def test_a_new_spec_stands_beside_its_schema_and_fits_it(tmp_path: Path) -> None:
    spec, schema, left = start(tmp_path / "new" / "folder")
    assert (spec.name, schema.name, left) == ("evalspec.yaml", "spec.v1.json", "")
    assert spec.read_text().startswith("# yaml-language-server: $schema=spec.v1.json\n")
    shown = json.loads(schema.read_text())
    assert list(Draft202012Validator(shown).iter_errors(read_text(spec.read_text(), "s").value)) == []


def test_the_template_is_right_but_for_its_files(tmp_path: Path) -> None:
    path = start(tmp_path).spec
    assert len(load(path, options=LoadOptions(files=False)).checks) == 4
    with pytest.raises(SpecError) as caught:
        load(path)
    assert {problem.message.partition("'")[0] for problem in caught.value.problems} == {"there is no file or folder "}


def test_what_is_commented_out_in_the_template_is_right_too(tmp_path: Path) -> None:
    lines = template().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("evalspec:"))
    opened = []
    for line in lines[first:]:
        inside = line.lstrip().removeprefix("# ")
        # Prose starts with a capital letter or a backtick, what can be uncommented with neither.
        is_yaml = line.lstrip().startswith("# ") and (inside.lstrip()[0].islower() or inside.lstrip()[0] == "-")
        opened.append(line.replace("# ", "", 1) if is_yaml else line)
    path = tmp_path / "s.yaml"
    path.write_text("\n".join(opened))
    spec = load(path, options=LoadOptions(files=False))
    assert [check.name for check in spec.checks] == [
        *("latency", "quality", "calibration", "slices", "contamination", "shift")
    ]
    assert (len(spec.models), len(spec.datasets), len(spec.slices), len(spec.waivers)) == (2, 3, 1, 1)


def test_nothing_is_overwritten_unless_it_is_meant(tmp_path: Path) -> None:
    start(tmp_path)
    (tmp_path / "evalspec.yaml").write_text("mine")
    (tmp_path / "spec.v1.json").unlink()
    with pytest.raises(SpecError, match=r"evalspec\.yaml: this file already exists; pass --force"):
        start(tmp_path)
    assert (tmp_path / "evalspec.yaml").read_text() == "mine"
    assert not (tmp_path / "spec.v1.json").exists()
    start(tmp_path, force=True)
    assert (tmp_path / "evalspec.yaml").read_text() == template()


def test_a_folder_that_can_t_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="can't be written"):
        start(tmp_path / "file" / "folder")
