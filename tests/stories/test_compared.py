"""Stories of two runs: what may not be set side by side, what else changed, and how often it was tried."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.running import environment
from tests.shared import shared_folder
from tests.stories.planting import clock
from tests.stories.telling import Tale, command


def pictures(folder: Path, side: int) -> Tale:
    """A model for pictures of so many pixels a side."""
    tale = Tale(folder, "pictures")
    draw = np.random.default_rng(side)
    pixels = pa.FixedSizeListArray.from_arrays(draw.integers(0, 255, 600 * side * side).astype(np.uint8), side * side)
    tale.rows("test", {"pixels": pixels})
    scaled = {"preprocess": [{"scale": 1.0}]} if side == 28 else {}
    tale.echo("candidate", {"x": "pixels"}, **scaled)
    tale.ask("system", "latency", "f44_latency", "latency_p50 <= 10 ms", dataset="test", caching_audit=False,
             queries=2000, planted=clock({"candidate": 4.0}))  # fmt: skip
    return tale


def tell(folder: Path) -> None:
    """The same twice; then other pictures, other preprocessing and another package."""
    asked: dict[str, str] = {}
    now = environment.capture
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, side in (("first", 8), ("again", 8), ("other", 28)):
            if name == "other":
                patch.setattr(environment, "capture", lambda *arguments: _upgraded(now(*arguments)))
            done = pictures(folder, side).run(output=None)
            asked[name] = str((folder / "reports" / "pictures" / "latest").resolve().relative_to(folder))
            assert done.exit_code == 0, done.output
    (folder / "runs.json").write_text(json.dumps(asked))


def _upgraded(found: environment.Environment) -> environment.Environment:
    return found.model_copy(update={"packages": {**found.packages, "numpy": "99.0"}})


@pytest.fixture
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = shared_folder(tmp_path_factory, "compared", tell)
    return {name: folder / path for name, path in json.loads((folder / "runs.json").read_text()).items()}


def verdict(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "record.json").read_text())["verdict"]
    return found


@pytest.mark.proof
def test_f14_tried_until_it_was_green(runs: dict[str, Path]) -> None:
    """What was tried before stands beside READY, and takes the confidence from it; of a first run nothing is told."""
    tried, first = verdict(runs["again"]), verdict(runs["first"])
    assert tried["word"] == first["word"] == "READY"
    (line,) = [line for line in tried["weakened"] if "before on this test set" in line]
    assert "1 time" in line and "10 %" in line
    assert line[1:] in (runs["again"] / "report.html").read_text()
    assert not [line for line in first["weakened"] if "before on this test set" in line]


@pytest.mark.proof
def test_f44_pictures_of_another_size_are_not_compared(runs: dict[str, Path]) -> None:
    """The field in which they differ is named, and the same pictures are compared."""
    refused = command("compare", str(runs["first"]), str(runs["other"]))
    assert refused.exit_code == 2
    assert "not comparable   f44_latency/latency_p50" in refused.output and "dataset: test" in refused.output
    same = command("compare", str(runs["first"]), str(runs["again"]))
    assert same.exit_code == 0
    assert "no change shown  f44_latency/latency_p50" in same.output and "not comparable" not in same.output


@pytest.mark.proof
def test_f45_what_else_changed_is_listed(runs: dict[str, Path]) -> None:
    """Rows, preprocessing and packages; of the same run again none of them."""
    other = command("compare", str(runs["first"]), str(runs["other"])).output
    assert "package numpy: " in other and "then 99.0" in other
    assert "dataset test: " in other and "stages: model, then scale, model" in other
    assert re.search(r"model candidate preprocess: absent, then scale \([0-9a-f]{8}\)", other)
    same = command("compare", str(runs["first"]), str(runs["again"])).output
    assert not any(what in same for what in ("package ", "dataset test: ", "preprocess"))
