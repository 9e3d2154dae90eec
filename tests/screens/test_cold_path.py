"""What decides a slow first query to a server: a kill and a start where its answers are streamed, else nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evalspec.screens.evidence import Evidence
from evalspec.screens.system.cold_path import look
from tests.screens.runs import planned, with_suggestion

SERVED = """
evalspec: 1
name: served
models:
  candidate:
    {kind: http, url: "http://127.0.0.1:8000", protocol: openai, model_name: m, start: [serve], inputs: {q: q},
     prompt: {user: "{q}"}, generate: {max_tokens: 4}}
datasets:
  test: {kind: parquet, path: test.parquet}
system:
  - {check: latency, dataset: test, require: [latency_p90 <= 100 ms]}
"""


class Seen:
    """Of three processes that took 9 s for their first query each."""

    def __init__(self, plan: Any, streams: object, asks: tuple[str, ...]) -> None:
        self.checks = tuple(one.check for one in plan.checks)
        self._model = plan.spec.models["candidate"]
        self._streams, self._asks = streams, asks

    def asks(self, metric: str, **_: object) -> bool:
        return metric in self._asks

    def samples(self, check: str) -> list[Any]:
        return [SimpleNamespace(model="candidate", details={"warmup_first_ms": 9e3}, streams=self._streams)] * 3

    def model(self, name: str) -> object:
        return self._model

    def requirement(self, dimension: str, check: str, require: str, fields: dict[str, object]) -> str:
        listed = "".join(f", {name}: {value}" for name, value in fields.items())
        return f"{dimension}: [{{check: {check}{listed}, require: [{require}]}}]"

    def suspicion(self, subject: str, sentence: str, suggestion: str) -> tuple[str, str]:
        return sentence, suggestion


@pytest.mark.parametrize("streams", [object(), None])
def test_what_is_suggested_can_be_decided(streams: object, tmp_path: Path) -> None:
    seen = Seen(planned(tmp_path, SERVED), streams, ())
    ((sentence, suggestion),) = cast(Any, look(cast(Evidence, seen)).suspicions)
    assert "takes 9 s" in sentence
    if streams is None:
        assert suggestion == "" and "no requirement here can see" in sentence
    else:
        checks = planned(tmp_path, with_suggestion(SERVED, suggestion)).checks
        assert [(one.check.check, one.check.requirements[0].metric) for one in checks][1:] == [
            ("recovery", "first_token")
        ]


def test_who_requires_it_is_told_nothing(tmp_path: Path) -> None:
    assert look(cast(Evidence, Seen(planned(tmp_path, SERVED), object(), ("first_token",)))).suspicions == ()
