"""The list of stories is whole: each is told, or waits with a reason."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_story_is_told_or_waits() -> None:
    head, waiting = (HERE / "README.md").read_text(encoding="utf-8").split("## Waiting")
    told, waits = (
        [int(one) for one in re.findall(r"^\| F(\d+)\b", part, re.MULTILINE)] for part in (head, waiting)
    )  # fmt: skip
    assert sorted([*told, *waits]) == list(range(1, 51))
    code = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("*.py"))
    for number in told:
        assert re.search(rf'"f{number}_\w+"|def test_f{number}_', code), f"nothing tells F{number}"
    for number in waits:
        assert not re.search(rf'"f{number}_', code)
