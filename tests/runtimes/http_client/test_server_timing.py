"""The header ``Server-Timing``, by its standard: what is a name, what is a time, and what is neither."""

from __future__ import annotations

import pytest

from evalspec.runtimes.http_client.connection import ResponseReader
from evalspec.runtimes.http_client.server_timing import MOST_BYTES, MOST_NAMES, durations, told
from evalspec.runtimes.http_client.wire import Reply


@pytest.mark.parametrize(
    ("header", "ms"),
    [
        ("queue;dur=1.2, infer;dur=4.5", {"queue": 1.2, "infer": 4.5}),
        ("queue;dur=1.2,infer;dur=4", {"queue": 1.2, "infer": 4.0}),
        (" queue ; dur = 1.2 ,\tinfer ;desc=x; dur=4.5 ", {"queue": 1.2, "infer": 4.5}),
        ("db;dur=53, app;dur=47.2", {"db": 53.0, "app": 47.2}),
        ('cache;desc="Cache Read";dur=23.2', {"cache": 23.2}),
        # Names without a time are right, and tell of none.
        ("miss, cpu;dur=2.4", {"cpu": 2.4}),
        ("total;desc=whole", {}),
        # What stands in quotes does not divide.
        ('a;desc="x, y;dur=9";dur=1, b;dur=2', {"a": 1.0, "b": 2.0}),
        ('a;desc="says \\"x, y\\"";dur=1', {"a": 1.0}),
        ('a;dur="1.5"', {"a": 1.5}),
        ('a;dur="1.5" and more', {"a": 1.5}),
        # The first of a parameter counts, its name in any letters; entries of one name are taken together.
        ("a;DUR=1;dur=2", {"a": 1.0}),
        ("a;dur=1, b;dur=5, a;dur=2.5", {"a": 3.5, "b": 5.0}),
        ("Infer;dur=1, infer;dur=2", {"Infer": 1.0, "infer": 2.0}),
        # Empty elements of a list, and numbers in every form.
        (", ,a;dur=1,,", {"a": 1.0}),
        ("a;dur=.5, b;dur=5., c;dur=1e-3, d;dur=0, e;dur=+2", {"a": 0.5, "b": 5.0, "c": 1e-3, "d": 0.0, "e": 2.0}),
        ("a;dur=1;other=7;flag", {"a": 1.0}),
        ("!#$%&'*+-.^_`|~9;dur=1", {"!#$%&'*+-.^_`|~9": 1.0}),
        ("", {}),
    ],
)
def test_what_is_right_is_read(header: str, ms: dict[str, float]) -> None:
    found = durations(header.encode())
    assert found.ms == ms and found.unread == []
    assert list(found.ms) == list(ms), "in the server's order"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("a b;dur=1", "'a b;dur=1' (its name is not a name, or over 60 letters)"),
        (";dur=1", "its name is not a name"),
        ("größe;dur=1", "its name is not a name"),
        ("a;dur=fast", "'a;dur=fast' (its dur is not a time in ms)"),
        ("a;dur=", "not a time in ms"),
        ("a;dur", "not a time in ms"),
        ("a;dur=-1", "not a time in ms"),
        ("a;dur=nan", "not a time in ms"),
        ("a;dur=inf", "not a time in ms"),
        ("a;dur=1e999", "not a time in ms"),
        ("a;dur=1_0", "not a time in ms"),
        ("a;dur=1 2", "not a time in ms"),
        ('a;dur="1', "not a time in ms"),
        ("x" * 61 + ";dur=1", "over 60 letters"),
        ("a;dur=1," * MOST_BYTES, "bytes (at most 8,192 are read)"),
    ],
)
def test_what_is_wrong_is_left_out_and_said(header: str, words: str) -> None:
    found = durations(header.encode())
    assert found.ms == {} and len(found.unread) == 1
    assert words in found.unread[0] and len(found.unread[0]) < 120


def test_a_bad_entry_spoils_no_other() -> None:
    found = durations(b'queue;dur=?, infer;dur=4.5, "x";dur=1, parse;dur=2')
    assert found.ms == {"infer": 4.5, "parse": 2.0} and len(found.unread) == 2


def test_names_without_end_are_not_kept() -> None:
    found = durations(", ".join(f"n{i};dur=1" for i in range(MOST_NAMES + 2)).encode())
    assert len(found.ms) == MOST_NAMES and len(found.unread) == 2


def test_a_quote_that_nothing_ends_goes_on_to_the_end() -> None:
    found = durations(b'a;dur=1, b;desc="' + b'\\"' * 4000 + b", c;dur=1")
    assert found.ms == {"a": 1.0} and found.unread == []
    assert durations(b'a;dur=1, b;desc="x\\').ms == {"a": 1.0}


def reply(*headers: str) -> Reply:
    """An answer as it comes over a connection."""
    lines = ["HTTP/1.1 200 OK", "Content-Length: 0", *(f"Server-Timing: {one}" for one in headers), "", ""]
    reader = ResponseReader()
    assert reader.feed(memoryview("\r\n".join(lines).encode()), 1)
    return reader.take()


def test_several_headers_are_one_list() -> None:
    found = told([reply("queue;dur=1", "infer;dur=2, total;dur=4")])
    assert found.requests == 1 and found.parts_ns == {"queue": 1e6, "infer": 2e6} and found.total_ns == 4e6


def test_a_header_after_a_chunked_body_counts() -> None:
    reader = ResponseReader()
    sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Server-Timing\r\n\r\n2\r\nok\r\n0\r\n"
    assert reader.feed(memoryview(sent + b"Server-Timing: infer;dur=3\r\n\r\n"), 1)
    assert told([reader.take()]).parts_ns == {"infer": 3e6}


def test_several_requests_of_a_query_are_added_up() -> None:
    found = told([reply("infer;dur=1, total;dur=2"), reply("queue;dur=3, infer;dur=1")])
    assert found.requests == 2 and found.parts_ns == {"infer": 2e6, "queue": 3e6}
    assert found.total_ns is None, "it is not known of all of them"


def test_a_query_of_which_one_answer_tells_nothing_is_not_told_of() -> None:
    found = told([reply("infer;dur=1"), reply("miss, bad one;dur=1")])
    assert not found.says_something and found.requests == 2 and len(found.unread) == 1
    assert not told([reply()]).says_something
