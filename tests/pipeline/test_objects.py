"""Objects on their way to another process: what is written is what is read, or a sentence says why not."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.pipeline.objects import read_object, searched, write_object


class Locked:
    """An estimator that holds a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def predict(self, rows: Any) -> Any:
        return rows


def rule(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"label": inputs["x"] > 0}


def test_what_a_module_holds_is_named_and_a_lambda_is_held(tmp_path: Path) -> None:
    assert read_object(tmp_path / write_object(rule, tmp_path, "rule"), searched()) is rule
    limit = 3.0
    read: Any = read_object(tmp_path / write_object(lambda x: x > limit, tmp_path, "closed"), ())
    assert read(np.array([1.0, 5.0])).tolist() == [False, True]


@pytest.mark.parametrize("model", [lambda x: x, functools.partial(lambda x, y: x, 1)], ids=["lambda", "partial"])
def test_without_cloudpickle_it_is_refused(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(
        InputError, match=r"a lambda is defined in a function, .*or pip install 'evalspec-gate\[memory\]'"
    ):
        write_object(model, tmp_path, "model")
    assert write_object(rule, tmp_path, "rule") == "rule.pkl"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Locked(), "of type Locked can't be sent to a separate process: cannot pickle '_thread.lock' object"),
        (5, "an object of type int is not a model: it can't be called, and has no predict"),
        ("model.pkl", "an object of type str is not a model"),
    ],
)
def test_what_can_t_be_handed_over(value: object, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        write_object(value, tmp_path, "model")


def test_what_can_t_be_made_again(tmp_path: Path) -> None:
    (tmp_path / "gone.pkl").write_bytes(b"cno_such_module_here\nthing\n.")
    with pytest.raises(InputError, match=r"can't be recreated .*: ModuleNotFoundError"):
        read_object(tmp_path / "gone.pkl", ())


NET = """
import sys, torch
from pathlib import Path
from evalspec.pipeline.objects import write_object
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.layer(x)
torch.manual_seed(0)
print(write_object(Net(), Path(sys.argv[1]), "net"))
"""


@pytest.mark.proof
def test_a_class_of_a_script_has_one_digest_in_every_process(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    digests = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", NET, str(tmp_path / name)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "net.pt\n"
        digests.add(hashlib.sha256((tmp_path / name / "net.pt").read_bytes()).hexdigest())
    assert len(digests) == 1
    read: Any = read_object(tmp_path / "one" / "net.pt", ())
    assert json.dumps([list(one.shape) for one in read.parameters()]) == "[[2, 2], [2]]"
