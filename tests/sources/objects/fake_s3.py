"""A small server of object storage in this process: lists, and gives ranges of the contents that are asked for."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 3
"""Objects in one answer of a listing."""


@functools.lru_cache(64)
def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


class Bucket:
    """Objects of one bucket, and what happens to requests.

    Args:
        name: Its name.
    """

    def __init__(self, name: str = "data") -> None:
        self.name, self.objects = name, dict[str, bytes]()
        self.requests: list[str] = []
        self.signed: list[str] = []
        self.before: Callable[[str, str], tuple[int, str] | None] = lambda method, key: None
        """Method and key -> status and code to answer with; None: as usual."""
        self.conditions = True
        """It knows If-Match."""
        self.endpoint = ""


class Handler(BaseHTTPRequestHandler):
    bucket: Bucket

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        name, _, key = unquote(parts.path).removeprefix("/").partition("/")
        self.bucket.requests.append(f"{self.command} {key or parts.query}")
        self.bucket.signed.append(self.headers.get("Authorization", ""))
        fault = self.bucket.before(self.command, key)
        if fault is not None:
            self._say(fault[0], f"<Error><Code>{fault[1]}</Code><Message>no</Message></Error>".encode())
        elif name != self.bucket.name:
            self._say(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif key:
            self._object(key)
        else:
            self._listing(parse_qs(parts.query))

    def _object(self, key: str) -> None:
        content = self.bucket.objects.get(key)
        if content is None:
            self._say(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        more = {"ETag": etag(content), "Last-Modified": "Sun, 01 Nov 2026 00:00:00 GMT"}
        if self.bucket.conditions and self.headers.get("If-Match", etag(content)) != etag(content):
            self._say(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", self.headers.get("x-ms-range", "")))
        if wanted is None:
            self._say(200, content, **more)
            return
        first, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
        more["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._say(206, content[first : last + 1], **more)

    def _listing(self, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("marker", [""]))[0]
        keys = sorted(key for key in self.bucket.objects if key.startswith(prefix) and key > after)
        listing = _azure if "comp" in query else _s3
        self._say(200, listing({key: self.bucket.objects[key] for key in keys[:PAGE]}, more=len(keys) > PAGE).encode())

    def _say(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content)


def _s3(objects: dict[str, bytes], *, more: bool) -> str:
    items = "".join(
        f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>{escape(etag(content))}</ETag>"
        "<LastModified>2026-11-01T00:00:00.000Z</LastModified></Contents>"
        for key, content in objects.items()
    )
    token = f"<NextContinuationToken>{escape(max(objects))}</NextContinuationToken>" if more else ""
    return f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>"


def _azure(objects: dict[str, bytes], *, more: bool) -> str:
    """Of Azure, which lists ETags without their quotes."""
    items = "".join(
        f"<Blob><Name>{escape(key)}</Name><Properties><Content-Length>{len(content)}</Content-Length>"
        f"<Etag>{etag(content)[1:-1]}</Etag><Last-Modified>Sun, 01 Nov 2026 00:00:00 GMT</Last-Modified>"
        "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
        for key, content in objects.items()
    )
    marker = escape(max(objects)) if more else ""
    return f"<EnumerationResults><Blobs>{items}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"


@contextlib.contextmanager
def served(bucket: Bucket) -> Iterator[Bucket]:
    """The bucket at a port of its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), type("BucketHandler", (Handler,), {"bucket": bucket}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    bucket.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield bucket
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
