"""Stories of a whole release: what each dimension shows by itself, and what they show together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.language.inputs import Samples, Schedule
from tests.checks.planting import confident
from tests.fakes import samples
from tests.stories.planting import clock
from tests.stories.telling import COLOURS, Colour, Planted, Story, Tale, Told, ends, told

pytestmark = pytest.mark.proof

ROWS = np.arange(4000)
CLASSES = ["scrap", "sound"]


def batches(model: str, schedule: Schedule) -> list[Samples]:
    """An accelerator that leads the table."""
    draw = np.random.default_rng(3)
    ms = 0.5 + 0.01 * schedule.batch
    count = int(1500.0 / ms)
    return [
        samples(ms * draw.gamma(900.0, 1 / 900.0, count), process=process, model=model, batch=schedule.batch)
        for process in range(schedule.processes)
    ]


def tell(folder: Path, bad: bool) -> Tale:
    """Parts are sorted under the lamps of a hall; the test set was taken in a studio, where INT8 is as good as FP32."""
    tale = Tale(folder, "factory")
    lux = np.where((0 if bad else 6) > ROWS % 10, 120.0, 1500.0)
    said = confident(ROWS % 2, ROWS % 100 >= 3, 2, 0.96)
    columns = {"lux": lux, "said": pa.FixedSizeListArray.from_arrays(said.ravel(), 2)}
    tale.rows("parts", {**columns, "label": np.array(CLASSES)[ROWS % 2]}, label="label")
    tale.echo("candidate", {"probabilities": "said"}, classes=CLASSES, precision="fp32")
    hall = {"name": "hall", "where": "lux < 300", "share": "60 %", "min_n": 500}
    tale.ask("system", "throughput", "f7_throughput", "throughput >= 1000 samples/s", dataset="parts",
             batch_sizes=[1, 32], planted=Planted(batches))  # fmt: skip
    tale.ask("model", "quality", "f7_quality", "accuracy >= 95 %", dataset="parts", show_examples=False)
    tale.ask("data", "coverage", "f7_coverage", "missing_conditions == 0", "representation_gap(hall) <= 10 pp",
             dataset="parts", conditions=[hall])  # fmt: skip
    as_a_release(tale, bad)
    claimed(tale, bad, said)
    return tale


PROFILE = """
profile: 1
name: release
about: What a release needs, where a benchmark needs a score.
order: [latency, throughput, quality, coverage]
mandatory:
  - {name: tail, any_of: [latency, load], metrics: [latency_p99], why: People wait for the slow answers.}
  - {check: quality, why: It has to be right.}
  - {name: production_data, any_of: [coverage, shift], why: The hall is not the studio.}
  - {states: rollback, why: Somebody has to say when to go back.}
"""


def as_a_release(tale: Tale, bad: bool) -> None:
    """A benchmark of research is used as a gate: nobody asked for the tail, and nobody said when to go back."""
    (tale.folder / "release.yaml").write_text(PROFILE)
    tale.more["profile"] = "release.yaml"
    if bad:
        return
    tale.more["rollback"] = [{"when": "accuracy < 93 %", "for": "10 min"}]
    tale.ask("system", "latency", "f27_latency", "latency_p99 <= 20 ms", dataset="parts", caching_audit=False,
             planted=clock({"candidate": 4.0}))  # fmt: skip


def claimed(tale: Tale, bad: bool, said: np.ndarray) -> None:
    """A data sheet's number stands for a chip that nobody has; in the twin it was measured, and says what it is of."""
    conditions: dict[str, object] = {
        "model": "f36_chip",
        "precision": "int4",
        "batch": "max",
        "boundary": "accelerator_only",
    }
    if bad:
        tale.answers("f36_chip", "parts", said, CLASSES)
    else:
        conditions |= {"precision": "int8", "batch": 32, "boundary": "end_to_end", "device": "cpu"}
        conditions |= {"duration": "10 min", "workload": "parts", "quality": "97 %", "power_limit": "4 W"}
        tale.echo("f36_chip", {"probabilities": "said"}, classes=CLASSES, precision="int8")
    tale.ask("system", "throughput", "f36_throughput", "throughput >= 1000 samples/s", model="f36_chip",
             dataset="parts", batch_sizes=[32], planted=None if bad else Planted(batches))  # fmt: skip
    tale.more["claims"] = [{"metric": "throughput", "value": "40000 samples/s", "by": "vendor",
                            "source": "data sheet p. 4", "conditions": conditions}]  # fmt: skip


CASCADE = Story(
    "F7: a factory floor that is in no test picture",
    red={"f7_coverage/missing_conditions": "FAIL", "f7_coverage/representation_gap(hall)": "FAIL",
         "f7_quality/accuracy": "INVALID"},
    says={"f7_quality/accuracy": ("on the same data", "f7_coverage/missing_conditions")},
    shows={"f7_coverage": ("hall",)},
    page=("The data fail: what was measured on them does not show how the model will perform in production.",),
)  # fmt: skip
CLAIMED = Story(
    "F36: a number of a data sheet",
    red={"f36_throughput/throughput": "NOT_RUN"},
    says={"f36_throughput/throughput": ("nothing can be timed",)},
    page=("40000 samples/s", "data sheet p. 4", "device, duration, workload, quality, power limit"),
)  # fmt: skip
STORIES = (CASCADE, CLAIMED)


@pytest.fixture
def run(colour: Colour, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return told(tmp_path_factory, "factory", colour, tell)


@pytest.mark.parametrize("colour", COLOURS)
def test_the_verdict(colour: Colour, run: Told) -> None:
    ends(run, colour)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_story(story: Story, colour: Colour, run: Told) -> None:
    story.holds(run, colour)


@pytest.mark.parametrize("colour", COLOURS)
def test_f27_a_benchmark_as_a_gate(colour: Colour, run: Told) -> None:
    """What a release needs and nobody asked for is NOT_RUN and blocks, each with its reason."""
    missing = {
        one["name"]: one["status"]
        for one in run.record["verdict"]["decisions"]
        if one["name"].startswith("profile/") and one["blocking"] and one["status"] != "PASS"
    }
    assert missing == ({"profile/tail": "NOT_RUN", "profile/rollback": "NOT_RUN"} if colour == "red" else {})
    assert ("people wait for the slow answers; add it, or set it aside" in run.page) == (colour == "red")


@pytest.mark.parametrize("colour", COLOURS)
def test_f7_the_three_dimensions_stand_side_by_side(colour: Colour, run: Told) -> None:
    """The table names the one that broke."""
    assert f"Data {'FAIL' if colour == 'red' else 'PASS'}" in run.page
