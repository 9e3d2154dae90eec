"""`stages` of a server: writing the request, the wait, reading the answer, and what the server says of the wait."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.measure import listening
from evalspec.measure.probes import ProbeResult
from evalspec.measure.probes.stages import probe
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.rows import RemoteRows
from tests.measure.probes.contexts import context
from tests.runtimes.servers import Answer, Request, answer, linear, read_rows, serving
from tests.runtimes.test_http import OIP, PLAIN

OPTIONS = {"queries": 20, "batch": 2, "warmup": 3, "warmup_s": 0.0}
X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
JSON = PLAIN | {"request": {"instances": {"each": {"features": "{x}"}}}}


def probed(
    handle: Callable[[Request], Answer], folder: Path, fields: dict[str, Any] = OIP, **options: Any
) -> ProbeResult:
    """What a process finds that asks this server."""
    with serving(handle) as server:
        made = context(Http.model_validate(fields | {"url": server.url}), folder, X, OPTIONS | options)
        try:
            return probe(made)
        finally:
            made.rows.loaded.close()  # type: ignore[attr-defined]  # it is a RemoteRows


def telling(header: str) -> Callable[[Request], Answer]:
    """A server that says this in every answer."""

    def handle(request: Request) -> Answer:
        whole = linear(request)
        return whole.replace(b"\r\n", f"\r\nServer-Timing: {header}\r\n".encode(), 1)

    return handle


class Counting:
    """A server with statistics: each request waits 1 us, and is computed for 5.

    Args:
        others: Requests of somebody else for each of ours.
        late: So many times the counters are read before a request is in them.
    """

    def __init__(self, others: int = 0, late: int = 0) -> None:
        self.others = others
        self.late = late
        self.count = 0
        self.unread = 0
        self.lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        with self.lock:
            if request.path.endswith("/infer"):
                self.count += 1 + self.others
                self.unread = self.late
            elif request.path.endswith("/stats"):
                self.unread -= 1
                return answer(200, {"model_stats": [self.statistics(self.count - (self.unread >= 0))]})
        return linear(request)

    @staticmethod
    def statistics(count: int) -> dict[str, Any]:
        ns = {"success": 8000, "queue": 1000, "compute_input": 500, "compute_infer": 5000, "compute_output": 500}
        return {"inference_stats": {name: {"count": count, "ns": str(count * each)} for name, each in ns.items()}}


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (OIP, ("serialize", "server", "parse")),
        (OIP | {"binary": True}, ("serialize", "server", "parse")),
        (OIP | {"preprocess": [{"cast": "float32"}, {"scale": 2.0}, {"scale": 0.5}]},
         ("cast", "scale", "scale_2", "serialize", "server", "parse")),
    ],
)  # fmt: skip
def test_each_query_is_written_sent_and_read(fields: dict[str, Any], names: tuple[str, ...], tmp_path: Path) -> None:
    found = probed(linear, tmp_path, fields)
    assert found.texts == {"stages": names, "waits": ("server",)}
    assert all(len(found.series[f"stage_ns:{name}"]) == 20 for name in names)
    assert all(found.series[f"stage_ns:{name}"].min() > 0 for name in names)
    assert "told_by" not in found.facts


def plain(request: Request) -> Answer:
    """Sums of rows, in the plain JSON of ``PLAIN``."""
    rows = json.loads(request.body)["instances"] if request.body else []
    return answer(200, {"predictions": [{"sum": sum(row["features"])} for row in rows]})


def test_plain_json_is_written_too(tmp_path: Path) -> None:
    assert probed(plain, tmp_path, JSON).texts["stages"] == ("serialize", "server", "parse")


@pytest.mark.parametrize("fields", [OIP, OIP | {"binary": True}, JSON])
def test_both_ways_write_every_request_anew(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the undivided query holds what its stages hold."""
    written: list[int] = []
    whole = RemoteRows._query

    def counted(rows: RemoteRows, ready: Any) -> Any:
        written.append(1)
        return whole(rows, ready)

    monkeypatch.setattr(RemoteRows, "_query", counted)
    asked: list[bytes] = []

    def handle(request: Request) -> Answer:
        if request.body:
            asked.append(request.body)
        return plain(request) if fields is JSON else linear(request)

    probed(handle, tmp_path, fields)
    assert len(written) == len(asked) == 2 * (20 + 3)
    # The same queries both ways, A B B A.
    first, second, third, fourth = (asked[6 + start : 16 + start] for start in (0, 10, 20, 30))
    assert first == second and third == fourth and first != third
    assert len({*first, *third}) == 15, "30 rows, two a query: rotated before one comes again"


def test_stage_by_stage_it_comes_to_the_same_answers(tmp_path: Path) -> None:
    with serving() as server:
        model = Http.model_validate(OIP | {"url": server.url, "preprocess": [{"scale": 3.0}, {"cast": "float32"}]})
        rows: Any = context(model, tmp_path, X, OPTIONS).rows
        index = np.arange(5)
        value: Any = rows.raw(index)
        for _, step in rows.steps():
            value = step(value)
        np.testing.assert_array_equal(value, rows.answers(rows.serve(rows.take(index))))
        np.testing.assert_allclose(value, 3.0 * X[:5].sum(axis=1), rtol=1e-4)
        rows.loaded.close()


def test_what_answers_tell_is_kept_query_by_query(tmp_path: Path) -> None:
    asked = iter(range(10_000))

    def handle(request: Request) -> Answer:
        return telling(f"queue;dur=0.0{next(asked) % 10}, infer;dur=0.2, total;dur=1")(request)

    found = probed(handle, tmp_path)
    assert found.facts["told_by"] == "answers" and found.texts["told"] == ("queue", "infer")
    assert len(found.series["told_ns:queue"]) == 20 and len(set(found.series["told_ns:queue"].tolist())) > 3
    np.testing.assert_allclose(found.series["told_ns:infer"], 0.2e6)
    np.testing.assert_allclose(found.series["told_total_ns"], 1e6)
    np.testing.assert_array_equal(found.series["told_wait_ns"], found.series["stage_ns:server"])
    np.testing.assert_array_equal(found.series["told_requests_sent"], np.ones(20))


def test_a_name_that_an_answer_leaves_out_took_no_time_and_an_answer_without_any_is_unknown(tmp_path: Path) -> None:
    said = ["load;dur=1, infer;dur=1", "infer;dur=1", "miss", "infer;dur=fast"]
    asked = iter(range(10_000))

    def handle(request: Request) -> Answer:
        if not request.path.endswith("/infer"):
            return linear(request)
        number = next(asked)
        return telling("infer;dur=1" if number < 6 else said[number % 4])(request)

    found = probed(handle, tmp_path)
    load, infer = (np.unique(found.series[f"told_ns:{name}"]) for name in ("load", "infer"))
    np.testing.assert_array_equal(load, [0.0, 1e6, np.nan])
    np.testing.assert_array_equal(infer, [1e6, np.nan])
    assert found.texts["told_unread"] == ("'infer;dur=fast' (its dur is not a time in ms)",)


def test_what_can_not_be_read_is_kept_although_nothing_else_is_told(tmp_path: Path) -> None:
    found = probed(telling("how long;dur=1"), tmp_path)
    assert "told_by" not in found.facts
    assert found.texts["told_unread"] == ("'how long;dur=1' (its name is not a name, or over 60 letters)",)


def test_counters_are_read_around_every_tenth_of_the_queries(tmp_path: Path) -> None:
    found = probed(Counting(), tmp_path)
    assert found.facts["told_by"] == "counters"
    assert found.texts["told"] == ("queue", "compute_input", "compute_infer", "compute_output")
    np.testing.assert_allclose(found.series["told_ns:compute_infer"], np.full(10, 5000.0))
    np.testing.assert_allclose(found.series["told_total_ns"], np.full(10, 8000.0))
    np.testing.assert_array_equal(found.series["told_requests_sent"], np.full(10, 2.0))
    np.testing.assert_array_equal(found.series["told_requests_counted"], np.full(10, 2.0))
    stretches = found.series["stage_ns:server"].reshape(10, 2).mean(axis=1)
    np.testing.assert_allclose(found.series["told_wait_ns"], stretches)


def test_a_server_that_counts_a_little_later_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "PAUSE_S", 0.0)
    found = probed(Counting(late=3), tmp_path)
    np.testing.assert_array_equal(found.series["told_requests_counted"], np.full(10, 2.0))


def test_requests_of_others_are_counted_and_not_hidden(tmp_path: Path) -> None:
    found = probed(Counting(others=1), tmp_path)
    np.testing.assert_array_equal(found.series["told_requests_counted"], np.full(10, 4.0))
    np.testing.assert_array_equal(found.series["told_requests_sent"], np.full(10, 2.0))


def test_counters_that_fall_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "TRIES", 1)

    def handle(request: Request) -> Answer:
        if handled.count > 10:
            handled.count = 0
        return handled(request)

    handled = Counting()
    found = probed(handle, tmp_path)
    assert np.isnan(found.series["told_ns:queue"]).any() and np.isnan(found.series["told_total_ns"]).any()


def test_answers_that_tell_are_asked_for_no_counters(tmp_path: Path) -> None:
    paths: list[str] = []

    def handle(request: Request) -> Answer:
        paths.append(request.path)
        return telling("infer;dur=0.1")(request)

    probed(handle, tmp_path)
    assert not any(path.endswith("/stats") for path in paths)


def test_a_query_of_several_requests_is_one_wait(tmp_path: Path) -> None:
    """Three rows of a query, two rows a request."""

    def handle(request: Request) -> Answer:
        if request.path == "/v2/models/m":
            inputs = [{"name": "x", "datatype": "FP32", "shape": [2, 4]}]
            return answer(200, {"name": "m", "inputs": inputs, "outputs": [{"name": "s"}]})
        if request.path.endswith("/infer"):
            assert len(read_rows(request)) == 2
        return telling("infer;dur=0.5")(request)

    found = probed(handle, tmp_path, batch=3)
    np.testing.assert_allclose(found.series["told_ns:infer"], 1e6)
    np.testing.assert_array_equal(found.series["told_requests_sent"], np.full(20, 2.0))


def test_a_wait_is_a_wait_and_no_part_of_writing(tmp_path: Path) -> None:
    def slow(request: Request) -> Answer:
        if request.path.endswith("/infer"):
            time.sleep(0.004)
        return linear(request)

    found = probed(slow, tmp_path, queries=10)
    wait = np.median(found.series["stage_ns:server"])
    assert wait >= 4e6
    assert np.median(found.series["stage_ns:serialize"]) + np.median(found.series["stage_ns:parse"]) < 0.5 * wait
