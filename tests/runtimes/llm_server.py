"""A server of the OpenAI protocol that plays tokens at known times, with one fault a path.

``http://HOST:PORT/MODE/v1``: each answer has ``tokens`` words, the first after ``first_ms``, the others ``gap_ms``
apart. ``MODE`` is one of `MODES`; ``MODE@5`` has the fault in every fifth answer only.

By hand: ``python llm_server.py PORT [first_ms gap_ms tokens]``.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODES = (
    "none", "role", "role_with_word", "early", "fast", "error", "cut", "broken", "empty", "burst", "characters",
    "usage3", "no_usage", "length", "slow",
    "pairs", "split", "comments", "no_done", "reasoning", "tool", "whole", "401", "429", "500", "404", "html", "serial",
    "cache", "prefix", "warm", "fresh", "batching", "echo", "long", *(REFUSALS := {
        "context": {"message": "The prompt is too long for this model.", "code": "context_length_exceeded"},
        "slot": {"message": "the request exceeds the available context size, try increasing it", "code": 400,
                 "type": "exceed_context_size_error"},
        "window": {"message": "This model's maximum context length is 512 tokens. However, you requested 700."},
        "unknown": {"message": "no such model", "code": "model_not_found"},
        "template": {"message": "default chat template is no longer allowed, so you must provide a chat template"},
        "logprobs": {"message": "Requested sample logprobs of 20, which is greater than max allowed: 5"},
        "field": {"message": "Unrecognized request argument supplied: seed"},
    }),
)  # fmt: skip
LONG = 200
"""Letters of a prompt beyond which the mode ``long`` refuses it."""
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
Event = tuple[float, bytes]
"""When it is sent, ms after the request, and its bytes."""


class Playing(ThreadingHTTPServer):
    """The server, and what it was asked.

    Args:
        port: 0: a free one.
        first_ms: Until the first token.
        gap_ms: From one token to the next.
        tokens: Of an answer.
        say: Text of an answer to a request; None: words that are counted up.
        choose: Likeliest first tokens of an answer with their probabilities; None: it tells none.
        score: Logarithm of the likelihood of each token of a prompt, None of the first; None: it echoes nothing.
        template: Its chat template, as llama.cpp tells it beside other facts; None: it tells none of them.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(
        self, port: int = 0, first_ms: float = 300.0, gap_ms: float = 10.0, tokens: int = 40,
        say: Callable[[dict[str, Any]], str] | None = None,
        choose: Callable[[dict[str, Any]], dict[str, float]] | None = None, template: str | None = None,
        score: Callable[[str], list[float | None]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(("127.0.0.1", port), _Handler)
        self.first_ms, self.gap_ms, self.tokens, self.say, self.choose = first_ms, gap_ms, tokens, say, choose
        self.template, self.score = template, score
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.lock = threading.Lock()
        self.one_at_a_time = threading.Lock()
        self.known: set[str] = set()
        self.under_way = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def url(self, mode: str = "none") -> str:
        """Address of a mode."""
        return f"http://127.0.0.1:{self.port}/{mode}/v1"


@contextlib.contextmanager
def playing(**options: Any) -> Iterator[Playing]:
    """A server that runs meanwhile."""
    server = Playing(**options)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Script:
    """What a server sends in answer to a request, and when.

    Args:
        server: Its times, and what it remembers.
    """

    def __init__(self, server: Any) -> None:
        self.server = server

    def words(self, body: dict[str, Any]) -> list[str]:
        if "said" in body:
            return [body["said"]]
        if self.server.say is not None:
            said = self.server.say(body).split(" ")
            return [said[0], *(f" {one}" for one in said[1:])]
        return [("" if k == 0 else " ") + WORDS[k % len(WORDS)] for k in range(self.server.tokens)]

    def first_ms(self, mode: str, body: dict[str, Any]) -> float:
        """Of a server that remembers, shorter for what it was asked before."""
        prompt = json.dumps(body.get("messages", body.get("prompt")))
        with self.server.lock:
            known = prompt in self.server.known
            self.server.known.add(prompt)
        if mode == "warm" or (mode in ("cache", "prefix") and known):
            return 1.0
        return self.server.first_ms * (4.0 if mode == "slow" else 1.0)

    def events(self, mode: str, body: dict[str, Any]) -> Iterator[Event]:  # noqa: C901
        chat = "messages" in body
        words, first = self.words(body), self.first_ms(mode, body)
        gap = {"cache": 0.0, "prefix": 0.0, "fast": 1.0}.get(mode, self.server.gap_ms)
        at = [first + k * gap for k in range(len(words))]
        if mode == "early":
            at[0] = 1.0
        if mode in ("role", "comments"):
            yield 1.0, _event({"role": "assistant", "content": ""}, chat) if mode == "role" else b": keep-alive\n\n"
        if mode == "reasoning":
            half = len(words) // 2
            for when, word in zip(at[:half], words[:half], strict=True):
                yield when, _event({"reasoning_content": word}, chat)
            at, words = at[half:], words[half:]
        if mode == "empty":
            yield 20.0, _event({"role": "assistant", "content": ""}, chat)
            yield 20.0, _event({}, chat, "stop") + b"data: [DONE]\n\n"
            return
        yield from self._pieces(mode, at, words, chat)
        if mode == "error":
            yield at[3], b'data: {"error": {"message": "engine died", "code": 500}}\n\ndata: [DONE]\n\n'
        if mode in ("error", "cut", "broken"):
            return
        finish = {"length": "length", "tool": "tool_calls"}.get(mode, "stop")
        yield at[-1], _event({}, chat, finish)
        if mode != "no_usage":
            total = len(self.words(body)) * (3 if mode == "usage3" else 1)
            usage: dict[str, Any] = {"prompt_tokens": 7, "completion_tokens": total}
            if mode == "reasoning":
                usage["completion_tokens_details"] = {"reasoning_tokens": total // 2}
            if mode in ("prefix", "warm", "fresh"):
                usage["prompt_tokens_details"] = {"cached_tokens": 7 if first < 2.0 else 0}
            yield at[-1], b"data: %b\n\n" % json.dumps({"choices": [], "usage": usage}).encode()
        if mode != "no_done":
            yield at[-1], b"data: [DONE]\n\n"

    def _pieces(self, mode: str, at: list[float], words: list[str], chat: bool) -> Iterator[Event]:  # noqa: C901
        if mode in ("error", "cut", "broken"):
            at, words = at[:3], words[:3]
        if mode == "burst":
            at, words = [at[0], at[-1]], [words[0], "".join(words[1:])]
        if mode == "pairs":
            at, words = at[1::2], ["".join(words[k : k + 2]) for k in range(0, len(words), 2)]
        if mode == "characters":
            for when, word in zip(at, words, strict=True):
                for letter in word:
                    yield when, _event({"content": letter}, chat)
            return
        for k, (when, word) in enumerate(zip(at, words, strict=True)):
            if mode == "split":
                data = _event({"content": f"{word}é"}, chat)
                cut = data.index("é".encode()) + 1
                yield when, data[:cut]
                yield when, data[cut:]
            elif mode == "tool":
                yield when, _event({"tool_calls": [{"index": 0, "function": {"arguments": word}}]}, chat)
            elif mode in ("role_with_word", "early") and k == 0:
                yield when, _event({"role": "assistant", "content": word}, chat)
            else:
                yield when, _event({"content": word}, chat)
                if mode == "comments":
                    yield when, b": ping\r\n\r\n"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Playing

    def setup(self) -> None:
        super().setup()
        import socket

        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        mode = self._mode()
        if mode == "401" and not self.headers.get("Authorization"):
            self._json(200, {"data": [{"id": "small"}]})
        elif self.path.endswith("/props") and self.server.template is not None:
            facts = {"chat_template": self.server.template, "build_info": "b10549", "total_slots": 4}
            facts |= {"model_path": "/models/small.gguf", "default_generation_settings": {"n_ctx": 512}}
            self._json(200, facts)
        elif self.path.endswith("/models"):
            self._json(200, {"object": "list", "data": [{"id": "small"}, {"id": "large"}]})
        else:
            self._json(404, {"error": {"message": "not found"}})

    def do_POST(self) -> None:  # noqa: C901
        began = time.monotonic()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(body)
            self.server.headers.append(dict(self.headers))
            number = len(self.server.requests)
        mode, _, every = self.path.split("/")[1].partition("@")
        if every and number % int(every):
            mode = "none"
        if mode == "long":
            mode = "context" if len(json.dumps(body.get("messages", body.get("prompt")))) > LONG else "none"
        key = self.headers.get("Authorization", "none")
        statuses = {
            "401": f"Incorrect API key provided: {key}", "429": "Rate limit reached", "500": "engine crashed",
            "404": "The model `x` does not exist",
        }  # fmt: skip
        if mode in REFUSALS:
            self._json(400, {"error": REFUSALS[mode]})
        elif mode in statuses and not (mode == "401" and self.headers.get("Authorization") == "Bearer sk-secret"):
            self._json(int(mode), {"error": {"message": statuses[mode]}}, {"Retry-After": "0"} if mode == "429" else {})
        elif mode == "echo":
            self._stream("none", body | {"said": f"key: {key}"}, began)
        elif self.server.score is not None and body.get("echo"):
            self._json(200, self._echoed(mode, body["prompt"], self.server.score))
        elif self.server.choose is not None and body.get("logprobs"):
            self._chosen(body, self.server.choose(body), streamed=mode != "whole")
        elif mode == "whole":
            time.sleep((self.server.first_ms + self.server.tokens * self.server.gap_ms) / 1e3)
            self._json(200, self._whole(body))
        elif mode == "html":
            self._bytes(200, b"<html>It works!</html>", "text/html")
        elif mode == "serial":
            with self.server.one_at_a_time:
                self._stream(mode, body, time.monotonic())
        else:
            with self._counted() as others:
                # Answers get mixed up where several are made at once.
                self._stream(mode, body, began, wrong=mode == "batching" and others > 0)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[int]:
        """Requests that were under way when this one came."""
        with self.server.lock:
            others = self.server.under_way
            self.server.under_way += 1
        try:
            yield others
        finally:
            with self.server.lock:
                self.server.under_way -= 1

    def _mode(self) -> str:
        return self.path.split("/")[1].partition("@")[0]

    def _chosen(self, body: dict[str, Any], tops: dict[str, float], *, streamed: bool) -> None:
        """One token, with the likeliest ones in its place."""
        token, chat = max(tops, key=lambda one: tops[one]), "messages" in body
        logs = {one: math.log(share) for one, share in tops.items()}
        listed = [{"token": one, "logprob": value} for one, value in logs.items()]
        told = {"content": [{"token": token, "logprob": logs[token], "top_logprobs": listed}]}
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        choice["logprobs"] = told if chat else {"tokens": [token], "top_logprobs": [logs]}
        if chat:
            choice["delta" if streamed else "message"] = {"role": "assistant", "content": token}
        else:
            choice["text"] = token
        if not streamed:
            self._json(200, {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 1}})
            return
        event = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\ndata: [DONE]\n\n"
        self._bytes(200, event, "text/event-stream")

    def _echoed(self, mode: str, prompt: str, score: Callable[[str], list[float | None]]) -> dict[str, Any]:
        """A prompt with the logprobs of its tokens and a generated one; ``cut`` tells of that one alone."""
        told = score(prompt)
        values = [0.0] if mode == "cut" else [*told, -0.5]
        values = [None] * len(values) if mode == "empty" else values
        choice = {"index": 0, "text": f"{prompt}!", "finish_reason": "length"}
        choice["logprobs"] = None if mode == "no_done" else {"token_logprobs": values}
        usage = {} if mode == "no_usage" else {"usage": {"prompt_tokens": len(told), "completion_tokens": 1}}
        return {"choices": [choice], **usage}

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        words = Script(self.server).words(body)
        message = {"role": "assistant", "content": "".join(words)}
        return {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": len(words)},
        }

    def _stream(self, mode: str, body: dict[str, Any], began: float, *, wrong: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        try:
            for at_ms, data in Script(self.server).events(mode, {"messages": []} if wrong else body):
                left = began + at_ms / 1e3 - time.monotonic()
                if left > 0:
                    time.sleep(left)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()
            if mode == "broken":
                self.connection.close()
            else:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        if mode == "broken":
            self.close_connection = True

    def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self._bytes(status, json.dumps(value).encode(), "application/json", headers)

    def _bytes(self, status: int, data: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def _event(delta: dict[str, Any], chat: bool, finish: str | None = None) -> bytes:
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    choice |= {"delta": delta} if chat else {"text": delta.get("content", "")}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}, ensure_ascii=False).encode()


if __name__ == "__main__":
    port, *rest = sys.argv[1:]
    first_ms, gap_ms, tokens = (float(one) for one in (*rest, *("300", "10", "40")[len(rest) :]))
    Playing(int(port), first_ms, gap_ms, int(tokens)).serve_forever(poll_interval=0.05)
