"""What is fuzzed: each target takes the bytes of a case, and raises nothing but what it should."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from evalspec.errors import EvalspecError, InputError, SpecError
from tests.campaigns.suites import folders

Check = Callable[[bytes], None]
"""Tries a case."""
ROOT = Path(__file__).parents[2]


def warm() -> None:
    """Import what cases need, so that it is no part of their memory."""
    for name in ("numpy", "pandas", "pyarrow.csv", "pyarrow.json", "pyarrow.parquet", "scipy.stats"):
        import_module(name)


def _said(error: EvalspecError) -> None:
    assert str(error), "it is refused without a word"


def _spec(folder: Path) -> Check:
    """The first line is the name of a suite's spec, the rest stands in its place."""
    from evalspec.loading import LoadOptions, load
    from evalspec.loading.summary import summary
    from evalspec.planning import plan
    from evalspec.planning.explain import explain, to_json

    places = folders(folder)

    def check(case: bytes) -> None:
        name, _, text = case.partition(b"\n")
        path = places[name.decode()] / "fuzz.yaml"
        path.write_bytes(text)
        try:
            spec = load(path, options=LoadOptions(trust=True, allow_outside=True))
            list(summary(spec))
            planned = plan(spec)
            list(explain(planned, None, ()))
            json.dumps(to_json(planned, None, ()), allow_nan=False)
        except EvalspecError as error:
            _said(error)

    return check


def _yaml(folder: Path) -> Check:
    from evalspec.language.yaml import read_file
    from evalspec.language.yaml_text import write

    path = folder / "x.yaml"

    def check(case: bytes) -> None:
        path.write_bytes(case)
        try:
            value = read_file(path, "x.yaml")[1].value
        except EvalspecError as error:
            _said(error)
            return
        write(value)

    return check


def _sentence(folder: Path) -> Check:
    """A requirement of each check that there is; a quantity in each unit."""
    from evalspec.language.registry import discover
    from evalspec.language.requirement import parse_requirement
    from evalspec.language.units import parse_quantity

    registry = discover(plugins=False)
    kinds = [registry.check(kind).metrics for kind in registry.kinds("checks")]

    def check(case: bytes) -> None:
        text = case.decode(errors="replace")
        for metrics in kinds:
            try:
                parse_requirement(text, metrics, models=("candidate", "baseline"))
            except SpecError as error:
                _said(error)
        for unit in ("ms", "fraction", "MiB", "qps", "s", "J"):
            try:
                value = parse_quantity(text, unit)
            except SpecError as error:
                _said(error)
            else:
                assert value * value < float("inf")

    return check


def _where(folder: Path) -> Check:
    from evalspec.language.where import mask, parse_where

    table = pa.table({"a": [1, 2, None], "b": ["x", None, "y"], "c d": [True, False, None], "hour": [1, 2, 3]})

    def check(case: bytes) -> None:
        try:
            mask(table, parse_where(case.decode(errors="replace")))
        except (SpecError, InputError) as error:
            _said(error)
            assert len(str(error)) < 600

    return check


LAST = b'\n{"event": "start", "spec": "d", "time": "t", "draft": false, "remeasures": "x"}\n'
"""Last line of a journal whose others are changed."""


def _journal(folder: Path) -> Check:
    from evalspec.evidence.record import CheckRecord
    from evalspec.running.journal.lines import read_events

    path = folder / "journal.jsonl"

    def check(case: bytes) -> None:
        path.write_bytes(case)
        events = list(read_events(path))
        if case.endswith(LAST):
            # Whatever stands before it, a whole line is read.
            assert events[-1] == json.loads(LAST)
        for event in events:
            if event["event"] == "start":
                Path(event.get("remeasures", ""))
            elif event["event"] in ("check", "predictions"):
                one = event["event"] == "predictions"
                observed = [event["observed"]] if one else list(event.get("observed", {}).values())
                for cells in observed:
                    named = (cells.get("precision"), cells.get("device"))
                    assert all(value is None or value.partition(":") for value in named)
                if one:
                    assert event["rows"] + 1 and event["digest"] + "" and {event["key"]: event}
                else:
                    assert CheckRecord.model_validate(event["record"]).id == event["id"]

    return check


BASES = (
    ROOT / "reports" / "sample", ROOT / "tests" / "records" / "fixtures" / "run-0.1.0",
    *(ROOT / "tests" / "records" / "fixtures" / "run-0.2.0" / name for name in ("labels", "predictions")),
)  # fmt: skip
"""Runs whose records are changed; the case begins with a line that says which."""


def _record(folder: Path) -> Check:
    from evalspec.records.compare import compare_records
    from evalspec.records.outputs import pages, say
    from evalspec.running.folders import read_record
    from evalspec.verdict import decide

    whole = [read_record(base) for base in BASES]

    def check(case: bytes) -> None:
        index, _, text = case.partition(b"\n")
        (folder / "record.json").write_bytes(text)
        try:
            record = read_record(folder)
            decided = record.model_copy(update={"verdict": decide(record)})
            pages(decided)
            say(decided, folder)
            compare_records(whole[int(index)], decided)
        except EvalspecError as error:
            _said(error)

    return check


def _dataset(kind: str) -> Callable[[Path], Check]:
    """A file of a dataset, read with and without a label, and as the predictions of a model."""

    def target(folder: Path) -> Check:
        from evalspec.language.parts import Access
        from evalspec.language.registry import discover
        from evalspec.runtimes.predictions import read_predictions
        from evalspec.sources.reading.open import open_batches, open_counted
        from evalspec.sources.reading.rows import dataset_digest

        access, pictures = Access(folder), kind == "images"
        path = folder / ("x.png" if pictures else f"x.{kind}")
        made = discover(plugins=False).source(kind).model_validate({"path": "." if pictures else path.name})

        def check(case: bytes) -> None:
            path.write_bytes(case)
            try:
                dataset, columns = made, list(made.header(access).columns)
                if columns and not pictures:
                    name = ("label", "key", "cluster")[len(case) % 3]
                    dataset = made.model_copy(update={name: columns[len(case) // 3 % len(columns)]})
                dataset_digest(open_counted(dataset, access).table)
                list(open_batches(dataset, access))
            except InputError as error:
                _said(error)
            try:
                if not pictures:
                    read_predictions(path, path.name)
            except InputError as error:
                _said(error)

        return check

    return target


def _model(ending: str) -> Callable[[Path], Check]:
    def target(folder: Path) -> Check:
        from evalspec.answers.classes import read_classes
        from evalspec.language.parts import Access
        from evalspec.runtimes.onnx_model.graph import read_graph
        from evalspec.runtimes.torch_model.archive import hidden_code

        path = folder / f"x.{ending}"

        def check(case: bytes) -> None:
            path.write_bytes(case)
            try:
                if ending == "onnx":
                    read_graph(path, path.name)
                elif ending == "pt2":
                    hidden_code(path, path.name)
                else:
                    read_classes(path.name, Access(folder))
            except InputError as error:
                _said(error)

        return check

    return target


def _log(ending: str, **fields: Any) -> Callable[[Path], Check]:
    """Answers in the log of a harness."""

    def target(folder: Path) -> Check:
        import pyarrow.json

        from evalspec.errors import NotRunError
        from evalspec.language.parts import Access
        from evalspec.pipeline.inputs import DatasetFacts
        from evalspec.pipeline.serve import Served
        from evalspec.runtimes.predictions import PredictionFiles

        path, access = folder / f"x.{ending}", Access(folder)
        files = ROOT / "tests" / "runtimes" / "eval_logs" / "files"
        rows = pyarrow.json.read_json(files / "questions.jsonl").append_column("row", pa.array(range(6)))
        model = PredictionFiles.model_validate({"files": {"test": path.name}, **fields})
        facts = DatasetFacts("test", label="answer", key="id")

        def check(case: bytes) -> None:
            path.write_bytes(case)
            try:
                Served(model, model.load(access), access, facts).predict_all(rows)
            except (InputError, NotRunError) as error:
                _said(error)

        return check

    return target


def _requests(tool: str) -> Callable[[Path], Check]:
    """The log of a load tool."""

    def target(folder: Path) -> Check:
        from evalspec.language.parts import Access
        from evalspec.sources.request_log import RequestLog

        path, access = folder / "x.json", Access(folder)
        log = RequestLog.model_validate({"kind": "request_log", "format": tool, "path": path.name})

        def check(case: bytes) -> None:
            path.write_bytes(case)
            try:
                log.read(access)
            except InputError as error:
                _said(error)

        return check

    return target


def _http(protocol: str) -> Callable[[Path], Check]:
    """Whatever a server sends as its answer to a query; it closes the connection then."""

    def target(folder: Path) -> Check:
        import numpy as np

        from evalspec.runtimes.http_client.wire import HttpError
        from tests.campaigns.clients import client
        from tests.runtimes.servers import Answer, Request, linear, serving
        from tests.runtimes.servers import answer as whole

        sent = [b""]

        def handle(request: Request) -> Answer:
            if request.path.endswith(("/infer", "/chat/completions")):
                request.connection.sendall(sent[0])
                request.connection.close()
                return None
            return whole(200, {"data": [{"id": "m"}]}) if protocol == "openai" else linear(request)

        stack = ExitStack()
        rows = stack.enter_context(client(stack.enter_context(serving(handle)), folder, protocol))
        count = 0

        def check(case: bytes) -> None:
            nonlocal count
            sent[0], count = case, count + 1
            try:
                rows.answers(rows.serve(rows.take(np.array([count % 40]))))
            except (HttpError, EvalspecError) as error:
                assert str(error)

        return check

    return target


TARGETS: dict[str, Callable[[Path], Check]] = {
    "spec": _spec,
    "yaml": _yaml,
    "sentence": _sentence,
    "where": _where,
    "journal": _journal,
    "record": _record,
    **{kind: _dataset(kind) for kind in ("csv", "jsonl", "parquet", "arrow", "npz", "images")},
    **{ending: _model(ending) for ending in ("onnx", "pt2", "txt")},
    "lm_eval": _log("jsonl", format="lm_eval", outputs={"text": "text"}, key_from="doc.id", filter="strict"),
    "lm_eval_options": _log("jsonl", format="lm_eval", outputs={"probabilities": "probabilities"}, key_from="doc.id"),
    "inspect": _log("eval", format="inspect", outputs={"text": "text"}),
    "inspect_json": _log("json", format="inspect", outputs={"text": "text"}),
    **{tool: _requests(tool) for tool in ("aiperf", "vllm", "guidellm", "inference_perf")},
    "http": _http("oip"),
    "sse": _http("openai"),
}
"""Name: a folder of its own to the check of a case."""


def _misbehaves(folder: Path) -> Check:
    """What a campaign is there to find."""

    def check(case: bytes) -> None:
        if case == b"raise":
            raise ValueError(case)
        if case == b"exit":
            os._exit(3)
        while case == b"spin":
            pass
        if case == b"eat":
            bytearray(2 * 1024**3)

    return check


ITSELF: dict[str, Callable[[Path], Check]] = {"misbehaves": _misbehaves}
"""By which the campaigns are tested themselves."""
