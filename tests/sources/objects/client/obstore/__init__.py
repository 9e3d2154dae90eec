"""Stands in for obstore where it is not installed: as much of it as is used, over the standard library's HTTP."""

import http.client
import xml.etree.ElementTree as Xml
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from obstore import exceptions as exceptions
from obstore.store import S3Store

TRIES = 4


class _Answer:
    def __init__(self, meta: dict[str, Any], content: bytes) -> None:
        self.meta, self._content = meta, content

    def bytes(self) -> bytes:
        return self._content


def head(store: S3Store, key: str) -> dict[str, Any]:
    headers, _ = _request(store, "HEAD", key, {})
    return _meta(key, headers, int(headers["Content-Length"]))


def get(store: S3Store, key: str, *, options: dict[str, Any]) -> _Answer:
    start, stop = options["range"]
    headers, content = _request(
        store, "GET", key, {"If-Match": options["if_match"], "Range": f"bytes={start}-{stop - 1}"}
    )
    return _Answer(_meta(key, headers, int(headers["Content-Range"].rpartition("/")[2])), content)


def list(store: S3Store, prefix: str | None = None, *, chunk_size: int) -> Iterator[Any]:
    token = ""
    while True:
        query = {"list-type": "2", "prefix": prefix or ""} | ({"continuation-token": token} if token else {})
        _, content = _request(store, "GET", "", {}, query)
        root = Xml.fromstring(content)
        yield [
            {"path": one.findtext("Key"), "size": int(one.findtext("Size") or 0), "e_tag": one.findtext("ETag"),
             "version": None}
            for one in root.findall("Contents")
        ]  # fmt: skip
        token = root.findtext("NextContinuationToken") or ""
        if not token:
            return


def _meta(key: str, headers: Any, size: int) -> dict[str, Any]:
    return {"path": key, "size": size, "e_tag": headers["ETag"], "version": None}


def _request(
    store: S3Store, method: str, key: str, headers: dict[str, str], query: dict[str, str] | None = None
) -> tuple[Any, bytes]:
    address = urlsplit(store.config["endpoint"])
    path = f"/{store.bucket}" + (f"/{quote(key)}" if key else "") + (f"?{urlencode(query)}" if query else "")
    if not store.config.get("skip_signature"):
        headers = headers | {"Authorization": f"AWS4-HMAC-SHA256 Credential={store.config['access_key_id']}/"}
    status, answer, content = 0, None, b""
    for _ in range(TRIES):
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=5)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except OSError as error:
            raise exceptions.GenericError(f"Generic S3 error: Error performing {method} - {error}") from error
        finally:
            connection.close()
        if status < 500:
            break
    if status < 300:
        return answer.headers, content  # type: ignore[union-attr]
    said = f"Server returned non-2xx status code: {status}: {content.decode()}"
    if status == 404:
        raise FileNotFoundError(said)
    kinds = {401: exceptions.UnauthenticatedError, 403: exceptions.PermissionDeniedError,
             412: exceptions.PreconditionError}  # fmt: skip
    raise kinds.get(status, exceptions.GenericError)(said)
