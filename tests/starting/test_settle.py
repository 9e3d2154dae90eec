from __future__ import annotations

from pathlib import Path

import pytest

from evalspec.errors import SpecError
from evalspec.loading import LoadOptions
from evalspec.starting.settle import settle
from tests.starting.files import frame, write_onnx

TEXT = """\
evalspec: 1
name: x
models:
  candidate: {kind: onnx, path: model.onnx, outputs: {logits: scores}, classes: [fraud, paid]}
datasets:
  test: {kind: csv, path: test.csv, label: outcome, cluster: patient}
  traffic: {kind: csv, path: traffic.csv}
model:
  - check: quality
    dataset: test
    require:
      - accuracy >= 90 %
      - accuracy >= baseline - 1 pp
      - recall(refund) >= 50 %
data:
  - check: shift
    reference: test
    current: traffic
    warn:
      - shift <= 0.1
"""


def test_what_can_t_be_stays_as_a_comment_with_one_reason(tmp_path: Path) -> None:
    write_onnx(tmp_path)
    frame().to_csv(tmp_path / "test.csv", index=False)
    text, spec = settle(TEXT, tmp_path / "s.yaml", LoadOptions())
    assert [check.name for check in spec.checks] == ["quality"]
    assert [one.sentence for one in spec.model[0].require] == ["accuracy >= 90 %"]
    assert "  # Left out of test: `cluster: patient`, since test has no column 'patient'.\n" in text
    assert "      # Left out: unknown model 'baseline'.\n      # - accuracy >= baseline - 1 pp\n" in text
    assert "      # Left out: candidate has no class 'refund'.\n" in text
    assert "  # Left out: unknown dataset 'traffic'.\n  # - check: shift\n  #   reference: test\n" in text
    assert "\n# data:\n" in text


def test_what_is_no_entry_is_raised(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="name"):
        settle(TEXT.replace("name: x", "name: X Y"), tmp_path / "s.yaml", LoadOptions())
