"""Two checks that claim the same of the same answers: what is planted turns both red."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalspec.language.yaml_text import write
from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.running.options import default_limits
from evalspec.selftest.selftest import selftest
from tests.running.small import go
from tests.selftest.holding import Silent
from tests.stories.defects import write_case
from tests.stories.defects_held_out import churn

pytestmark = pytest.mark.proof


def test_a_loss_against_the_baseline_is_red_in_both_checks(tmp_path: Path) -> None:
    case = churn("shares")
    del case.spec["data"]
    require = ["accuracy >= baseline - 8 pp"]
    case.spec["model"] = [
        {"check": "quality", "dataset": "test", "require": require},
        {"check": "quality", "id": "again", "dataset": "test", "require": require},
    ]
    write_case(case, tmp_path)
    (tmp_path / "evalspec.yaml").write_text(write(case.spec))
    record, _ = go(tmp_path / "evalspec.yaml", tmp_path / "run")
    assert record.same
    planned = plan(load(tmp_path / "evalspec.yaml", options=LoadOptions(trust=True)))
    access = planned.spec.access(trust=True, allow_outside=False, hub=False, hosts=frozenset(), env=frozenset())
    found = {one.name: one for one in selftest(planned, tmp_path / "run", access, default_limits(None, None), Silent())}
    first, second = "quality/accuracy vs baseline", "again/accuracy vs baseline"
    for one, other in ((first, second), (second, first)):
        assert (found[one].answer, found[one].implied_by) == ("implied", (other,))
