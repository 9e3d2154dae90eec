"""Cases of each target, drawn from a seed."""

from __future__ import annotations

import copy
import io
import json
import random
import re
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.campaigns.suites import LOGS, REQUESTS, ROOT, trees
from tests.campaigns.targets import BASES, LAST, TARGETS

Draw = Callable[[random.Random], bytes]
DIGITS = ROOT / "suites" / "digits"
Steps = tuple[str | int, ...]


# -- trees ------


def leaves(tree: Any, path: Steps = ()) -> Iterator[Steps]:
    """Every place in a tree."""
    yield path
    for step, inner in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from leaves(inner, (*path, step))


def at(tree: Any, path: Steps) -> Any:
    """What stands at a place."""
    for step in path:
        tree = tree[step]
    return tree


def put(tree: Any, path: Steps, value: Any) -> Any:
    """The tree with something else at a place."""
    if not path:
        return value
    tree = copy.copy(tree)
    tree[path[0]] = put(tree[path[0]], path[1:], value)
    return tree


# -- specs ------

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 1e-100, 1e100, -1e-100, 1e-60, 1e60, 1e-9, 1e9, 2**63, 2**64 - 1, -(2**63), 0.5, 1e15, 99_999_999_999,
)  # fmt: skip
WRITTEN = (
    "1e-200", "1.0e-200", "1e308", "1e999", "-1e-320", "1e-324", "9" * 400, "0x" + "f" * 40, ".nan", "-.inf", "1e-101",
)  # fmt: skip
TEXTS = (
    "", "\x1b[31m", "a" * 3000, "nan", "inf", "-", "**", "../..", "/proc/self/mem", "/dev/zero", "\u202e", "(((((",
    "a{1000}{1000}", "(a+)+$", "\\", "é", "`", "==", "<= 5", "baseline", "candidate", "test", "x < 1", "not " * 300,
    "x in [" + ",".join(map(str, range(400))) + "]", "(" * 80 + "x < 1" + ")" * 80, "hour < " + "-" * 1900 + "1",
    "{question}", "http://[::1", "http://127.0.0.1:99999/v1", "file:///etc/passwd", "1 ms", "5 %",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, [], {}, [[]], [1, "a"], {"a": 1}, [None], {"": None})
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")
_trees = cache(trees)


def _spec(rng: random.Random) -> bytes:
    """Another number, another value, or a number as no writer of ours writes it."""
    from evalspec.language.yaml_text import write

    name = rng.choice(sorted(_trees()))
    tree, how = _trees()[name], rng.randrange(4)
    if how == 0:
        places = [one for one in leaves(tree) if isinstance(at(tree, one), int | float | str)]
        places = [one for one in places if not isinstance(at(tree, one), str) or NUMBER.search(at(tree, one))]
        place, number = rng.choice(places), rng.choice(NUMBERS)
        before = at(tree, place)
        after = NUMBER.sub(lambda _: f"{number}", before, count=1) if isinstance(before, str) else number
        text = write(put(tree, place, after))
    elif how == 1:
        text = write(tree)
        one = rng.choice(list(NUMBER.finditer(text)))
        text = text[: one.start()] + rng.choice(WRITTEN) + text[one.end() :]
    else:
        for _ in range(how - 1):
            place = rng.choice([one for one in leaves(tree) if one])
            value = rng.choice((*NUMBERS, *TEXTS, *OTHERS))
            parts = [one for one in leaves(tree) if one and isinstance(one[-1], int)]
            if rng.random() < 0.2 and parts:
                # A part of one place, in another.
                value = at(tree, rng.choice(parts))
            tree = put(tree, place, value)
        text = write(tree)
    return f"{name}\n{text}".encode("utf-8", errors="replace")


YAML_PIECES = (
    "&a [*a]", "<<: {a: 1}", "? [a]", "- - - -", "!!python/object:os.system", "!!binary aGk=", "%YAML 9.9", "---",
    "...", "|", ">-", "{", "}", "[", "]", "'", '"', "\t", "\x00", "\ufeff", "#", ": ", "0o17", "0b1", "1_000",
    "12:30:45", "2026-13-45", "~", "yes", "*a", "&" + "a" * 300, "[" * 200, "{a: " * 200, "é", "\u2028", "1e999",
    "\xff", "!!set {}", "a: &x {b: &y {c: [*x, *y]}}", "- " * 120, "=", "<<", "!", "@", "`",
)  # fmt: skip


def _yaml(rng: random.Random) -> bytes:
    from evalspec.language.yaml_text import write

    if rng.random() < 0.5:
        return "\n".join(rng.choice(YAML_PIECES) for _ in range(rng.randrange(1, 12))).encode()
    text = write(_trees()[rng.choice(sorted(_trees()))])
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(YAML_PIECES) + text[place + rng.choice((0, 0, 1, 5, 40)) :]
    return changed(text.encode("utf-8", errors="replace"), rng) if rng.random() < 0.3 else text.encode(errors="replace")


WORDS = (
    "a", "b", "`c d`", "<", "<=", "==", "!=", "in", "is", "not", "and", "or", "None", "True", "(", ")", "[", "]", ",",
    "-", "+", "1", "1e400", "-1", "2.5", "'x'", '"', "9" * 30, "lambda", ":", ".", "f''", "*", "\\", "\n", "é", "~",
    "await", "1j", "b'x'", "...", "0x1f", "1_000", "if", "else", "- " * 60, "(" * 30, "not " * 40, "[" * 30, ":=",
)  # fmt: skip
SENTENCE = (
    "accuracy", "latency_p99", "recall", "ece", "output_rate", "(", ")", "class_1", "<=", ">=", "==", "<", ">", "!=",
    "90 %", "20 ms", "2 pp", "1.2x", "baseline", "candidate", "-", "+", "nobody", "1e400", "-0", "nan", "inf", "0.5",
    "tokens/s", "MiB", "GB", "%", "1e-320", "9" * 400, "µs", "\u00a0", "≤", "x", "\u00d7 2", "1,000", "1 000", "()",
    "((", "in", "20 qps", "5 %%", "\x00", "--", "1..2", "0x1f", "é" * 200, "top_k_accuracy(5)", "1/3",
)  # fmt: skip


def _words(words: tuple[str, ...], most: int) -> Draw:
    def draw(rng: random.Random) -> bytes:
        if rng.random() < 0.1:
            return "".join(chr(rng.randrange(1, 0x2FF)) for _ in range(rng.randrange(60))).encode()
        return rng.choice((" ", " ", "")).join(rng.choice(words) for _ in range(rng.randrange(most))).encode()

    return draw


# -- records and journals ------

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, -(2**70), 0.5, 1e-300, 1e300, float("nan"), float("inf"), "", "nan", "x" * 5000,
    "\x1b[31m", "\u202e", "<script>", "..", "2026-13-45", [], {}, [[]], {"a": 1}, [None], "PASS", "READY", "<=",
    "measured",
)  # fmt: skip


def altered(tree: Any, places: list[Steps], rng: random.Random) -> str:
    """The text of a tree with one to three things changed, or its bytes."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.randrange(1, 4)):
        path = rng.choice(places)
        inner = tree
        try:
            for step in path[:-1]:
                inner = inner[step]
            if not path:
                continue
            how = rng.randrange(3)
            if how == 0:
                del inner[path[-1]]
            elif how == 1 and isinstance(inner, list):
                inner.append(copy.deepcopy(inner[path[-1]]))
            else:
                inner[path[-1]] = rng.choice(VALUES)
        except (KeyError, IndexError, TypeError):
            # It went with what was changed before.
            continue
    text = json.dumps(tree)
    if rng.random() < 0.1:
        place = rng.randrange(len(text))
        text = text[:place] + chr(rng.randrange(1, 256)) + text[place + rng.randrange(3) :]
    return text


@cache
def _placed(path: Path) -> tuple[Any, list[Steps]]:
    tree = json.loads(path.read_text(encoding="utf-8"))
    return tree, list(leaves(tree))


def _record(rng: random.Random) -> bytes:
    index = rng.randrange(len(BASES))
    return f"{index}\n{altered(*_placed(BASES[index] / 'record.json'), rng)}".encode(errors="replace")


CELLS = {"precision": "fp32", "device": "cpu", "threads": 1}
EVENTS: list[dict[str, Any]] = [
    json.loads(LAST),
    {"event": "predictions", "key": "k", "digest": "d", "rows": 3, "observed": CELLS},
    {"event": "check", "key": "k", "id": "c", "observed": {"m": CELLS}, "record":
     {"id": "c", "check": "quality", "dimension": "model", "status": "measured", "tests": [], "blocks": []}},
    {"event": "end", "verdict": "READY"},
]  # fmt: skip


def _journal(rng: random.Random) -> bytes:
    lines = []
    for _ in range(rng.randrange(1, 4)):
        event = rng.choice(EVENTS)
        line = altered(event, list(leaves(event)), rng).encode(errors="replace")
        lines.append(changed(line, rng) if rng.random() < 0.5 else line)
    return b"\n".join(lines) + LAST


# -- files ------

SIZES = (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 65_536)


def changed(data: bytes, rng: random.Random) -> bytes:
    """Some bytes other, gone, doubled, or taken for a size."""
    found = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 2, 5, 20])):
        place = rng.randrange(len(found) + 1)
        ends = [
            bytes([rng.randrange(256)]) + found[place + 1 :],
            found[place + rng.randrange(30) :],
            found[max(0, place - 50) : place] * rng.randrange(3) + found[place:],
            struct.pack("<I", rng.choice(SIZES)) + found[place + 4 :],
            b"",
        ]
        found = found[:place] + rng.choice(ends)
    return bytes(found) or b"x"


COLUMNS = {
    "whole": pa.array([1, 2, 3]),
    "text": pa.array(["x", "y", None]),
    "number": pa.array([1.5, None, float("nan")]),
    "lists": pa.array([[1], [2, 3], None]),
    "record": pa.array([{"a": 1}, None, {"a": 2}]),
    "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "category": pa.array(["u", "v", "u"]).dictionary_encode(),
    "wide decimal": pa.array([1, 2, 3], pa.decimal256(60, 0)),
    "time": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")),
    "span": pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
    "nothing": pa.nulls(3),
    "bytes": pa.array([b"\xff", b"", None]),
    "": pa.array([1, 2, 3]),
    "view": pa.array(["a", "b", "c"], pa.string_view()),
    "uuid": pa.array([b"a" * 16] * 3, pa.uuid()),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((3, 2, 2), np.float32)),
    "union": pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a"] * 3)]),
    "__index_level_0__": pa.array([1, 2, 3]),
}
LINES = {
    "csv": ["a,b\n1,2\n3,x\n", 'a;b\n"1;2";3\n', 'a,b\n"x\n1,2\n', "a,b\n1\n", ",\n1,2\n", "a\n1e400\n", "é\r\n1\r\n"],
    "jsonl": [
        '{"a":1}\n{"a":2.5}\n', '{"a":1,"a":2}\n', '{"a":' + "[" * 50 + "]" * 50 + "}\n", "{}\n{}\n", "[1]\n",
        '{"a":1}\n{"a":"x"}\n', '{"a":{"b":[{"c":null}]}}\n', '{"a":99999999999999999999999}\n', '{"":1}\n',
    ],
}  # fmt: skip
ARRAYS: tuple[Any, ...] = (
    np.arange(3), np.array(["a", "b"]), np.array([1 + 2j]), np.zeros((3, 0)), np.zeros(()), np.zeros((2, 2, 2)),
    np.array([None], object), np.zeros(3, [("x", "i4")]), np.array([1, 2], ">i4"), np.zeros(2, "V8"),
)  # fmt: skip


def _table(rng: random.Random) -> pa.Table:
    names = rng.sample(list(COLUMNS), rng.choice([0, 1, 2, 4]))
    return pa.table([COLUMNS[name] for name in names], names=names if rng.random() < 0.9 else ["x"] * len(names))


def _content(kind: str, rng: random.Random) -> bytes:
    """A file of a kind, as somebody may have written it."""
    stream = io.BytesIO()
    if kind in LINES:
        return rng.choice(LINES[kind]).encode(rng.choice(["utf-8", "utf-16", "latin-1"]))
    if kind == "parquet":
        try:
            pq.write_table(_table(rng), stream, compression=rng.choice(["none", "snappy", "zstd"]))
        except pa.ArrowException:
            pq.write_table(pa.table({"a": [1]}), stream)
    elif kind == "arrow":
        rows, options = _table(rng), pa.ipc.IpcWriteOptions(compression=rng.choice([None, "zstd", "lz4"]))
        with rng.choice([pa.ipc.new_file, pa.ipc.new_stream])(stream, rows.schema, options=options) as writer:
            writer.write_table(rows)
    elif kind == "npz":
        arrays = {rng.choice(["a", "b", "..", "a/b"]): rng.choice(ARRAYS) for _ in range(rng.choice([1, 2]))}
        rng.choice([np.savez, np.savez_compressed])(stream, **arrays)  # type: ignore[arg-type]
    else:
        from PIL import Image

        Image.new(rng.choice(["L", "RGB"]), (5, 4)).save(stream, rng.choice(["PNG", "JPEG", "GIF", "TIFF", "WEBP"]))
    return stream.getvalue()


def _dataset(kind: str) -> Draw:
    return lambda rng: changed(_content(kind, rng), rng)


@cache
def _bytes(path: Path) -> bytes:
    return path.read_bytes()


def _file(path: Path) -> Draw:
    """A file with other bytes."""
    return lambda rng: changed(_bytes(path), rng)


def _logged(path: Path, *, lines: bool) -> Draw:
    """A log in JSON with other values, or other bytes."""

    def draw(rng: random.Random) -> bytes:
        if rng.random() < 0.3:
            return changed(_bytes(path), rng)
        if not lines:
            return altered(*_placed(path), rng).encode(errors="replace")
        whole = _bytes(path).decode().splitlines()
        place = rng.randrange(len(whole))
        tree = json.loads(whole[place])
        whole[place] = altered(tree, list(leaves(tree)), rng)
        return "\n".join(whole).encode(errors="replace")

    return draw


# -- servers ------

PIECES = (
    b"\r\n", b"\r\n\r\n", b"\x00", b"\xff\xfe", b"Content-Length: 99999999999999999999\r\n", b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffff\r\n", b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/9.9 200 OK\r\n",
    b"Inference-Header-Content-Length: 7\r\n", b"Content-Encoding: gzip\r\n", b"[" * 5000, b"1e999", b"NaN", b'"',
    b"{", b"}", b"x" * 70_000, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"data: ", b"data: [DONE]\n\n", b"event: error\n", b": ping\n\n", b"data: null\n\n", b"data: {}\n\n", b"retry: 1\n",
    b'data: {"choices":[]}\n\n', b'data: {"choices":[{"delta":{"content":null}}]}\n\n', b"\r", b"\n\n", b"\xf0\x9f",
    b'data: {"usage":{"completion_tokens":-1}}\n\n', b'data: {"usage":{"completion_tokens":1e99}}\n\n',
    b'data: {"error":{"message":"x"}}\n\n', b'data: {"choices":[{"delta":{"tool_calls":[{"function":7}]}}]}\n\n',
    b'data: {"choices":[{"index":9,"delta":[],"finish_reason":3}]}\n\n',
)  # fmt: skip


def mangled(whole: bytes, rng: random.Random) -> bytes:
    """One to four places of an answer changed, cut out, doubled, or filled with something else."""
    data = bytearray(whole)
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(data) + 1)
        how = rng.randrange(4)
        if how == 0 and place < len(data):
            data[place] = rng.randrange(256)
        elif how == 1:
            del data[place : place + rng.randrange(1, 30)]
        elif how == 2:
            data[place:place] = data[place : place + rng.randrange(1, 60)]
        else:
            data[place:place] = rng.choice(PIECES)
    return bytes(data)


def _answer(rng: random.Random) -> bytes:
    from tests.runtimes.servers import answer, outputs

    return mangled(answer(200, outputs([1.0])), rng)


def _stream(rng: random.Random) -> bytes:
    """Events of a streamed answer, in chunks or until the connection ends."""
    delta = '{"choices":[{"index":0,"delta":{"CONTENT":"word "},"finish_reason":null}]}'
    names = rng.choice((("content",) * 4, ("reasoning_content", "content", "content"), ("content",) * 12))
    events = [f"data: {delta.replace('CONTENT', name)}\n\n" for name in names]
    events.append('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
    if rng.random() < 0.7:
        events.append('data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":4}}\n\n')
    events.append("data: [DONE]\n\n")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    if rng.random() < 0.5:
        return mangled(head + b"Connection: close\r\n\r\n" + "".join(events).encode(), rng)
    chunks = [f"{len(one):x}\r\n{one}\r\n".encode() for one in events]
    whole = b"".join([*chunks, b"0\r\n\r\n"])
    if rng.random() < 0.5:
        # The chunks stay whole, what is in them does not.
        body = mangled("".join(events).encode(), rng)
        whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + whole
    return mangled(head + b"Transfer-Encoding: chunked\r\n\r\n" + whole, rng)


DRAWS: dict[str, Draw] = {
    "spec": _spec,
    "yaml": _yaml,
    "sentence": _words(SENTENCE, 8),
    "where": _words(WORDS, 30),
    "journal": _journal,
    "record": _record,
    **{kind: _dataset(kind) for kind in ("csv", "jsonl", "parquet", "arrow", "npz", "images")},
    "onnx": _file(DIGITS / "int8.onnx"),
    "pt2": _file(DIGITS / "fp32.pt2"),
    "txt": _file(DIGITS / "classes.txt"),
    "lm_eval": _logged(LOGS / "samples_sums_say.jsonl", lines=True),
    "lm_eval_options": _logged(LOGS / "samples_sums_choose.jsonl", lines=True),
    "inspect": _file(LOGS / "say.eval"),
    "inspect_json": _logged(LOGS / "say.json", lines=False),
    "aiperf": _logged(REQUESTS / "profile_export.jsonl", lines=True),
    "vllm": _logged(REQUESTS / "vllm.json", lines=False),
    "guidellm": _logged(REQUESTS / "benchmarks.json", lines=False),
    "inference_perf": _logged(REQUESTS / "per_request_lifecycle_metrics.json", lines=False),
    "http": _answer,
    "sse": _stream,
}
assert DRAWS.keys() == TARGETS.keys()
