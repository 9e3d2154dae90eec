"""Places in object storage: a bucket, and the keys of objects in it. Nothing is contacted here."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evalspec.errors import InputError

if TYPE_CHECKING:
    from evalspec.language.parts.part import Access

SCHEMES: Mapping[str, str] = {"s3": "bucket", "gs": "bucket", "az": "container"}
"""Scheme of a URL: what its objects lie in."""
OTHER_NAMES: Mapping[str, str] = {
    "s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az", "abfs": "az", "abfss": "az", "adl": "az", "wasb": "az",
    "wasbs": "az",
}  # fmt: skip
"""Scheme that other programs use: ours."""
OBJECT_CLIENT = "obstore"
"""The package that reads them."""
METADATA_HOST = "169.254.169.254"
"""Where a machine of a provider asks for the credentials of its role."""
GLOB = frozenset("*?[")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A place in object storage.

    Args:
        scheme: One of `SCHEMES`.
        bucket: The bucket, or a container of Azure.
        key: Of an object; a prefix, which ends in a slash; or a pattern. Empty: the whole bucket.
    """

    scheme: str
    bucket: str
    key: str

    @property
    def address(self) -> str:
        """The bucket, as ``--allow-host`` names it."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def is_pattern(self) -> bool:
        """Several keys may match."""
        return bool(GLOB & set(self.key))

    @property
    def root(self) -> str:
        """The prefix below which all its objects lie; empty, or with a slash at its end."""
        folders = self.key.split("/")[:-1]
        first = next((place for place, one in enumerate(folders) if GLOB & set(one)), len(folders))
        return "".join(f"{one}/" for one in folders[:first])

    def url(self, key: str) -> str:
        """URL of an object."""
        return f"{self.address}/{key}"


def place_of(path: str) -> ObjectPlace | None:
    """The place that a path names; None: it is a path of files on this machine.

    Raises:
        InputError: It is a URL, and names no place in object storage.
    """
    match = _URL.fullmatch(path)
    if match is None:
        return None
    scheme, rest = match[1].lower(), match[2]
    if scheme not in SCHEMES:
        ours = OTHER_NAMES.get(scheme)
        known = ", ".join(f"{one}://" for one in SCHEMES)
        remedy = f"write {ours}://" if ours else f"a path is a file, a folder, a pattern, or begins with {known}"
        raise InputError(f"{match[1]}:// is not a place that is read", remedy=remedy)
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        what = SCHEMES[scheme]
        remedy = f"write {scheme}://{what.upper()}/PREFIX/, without a user, a port or a pattern before the slash"
        raise InputError(f"{path!r} names no {what}", remedy=remedy)
    parts = key.removesuffix("/").split("/") if key else []
    if any(part in ("", ".", "..") for part in parts) or not key.isprintable():
        raise InputError(f"{path!r} has a part that is empty, a dot, or holds characters that are not seen")
    return ObjectPlace(scheme, bucket, key)


def check_place(place: ObjectPlace, endpoint: str | None, access: Access) -> None:
    """Stop where a place, or the server that is asked for it, was not allowed; nothing is looked up.

    Raises:
        InputError: It was not.
    """
    if place.address not in {host.rstrip("/") for host in access.hosts}:
        remedy = f"pass --allow-host {place.address} if this is intended"
        raise InputError(f"{place.address!r} is outside this machine", remedy=remedy)
    host = None if endpoint is None else urlsplit(endpoint).hostname
    if host is not None and not is_loopback(host) and host not in access.hosts:
        raise InputError(f"{host!r} is a different machine", remedy=f"pass --allow-host {host} if this is intended")


def check_endpoint(endpoint: str) -> str:
    """The URL of a server of object storage, without a slash at its end.

    Raises:
        InputError: It is none.
    """
    try:
        parts = urlsplit(endpoint)
        parts.port  # noqa: B018 - looked at for what it raises
    except ValueError as error:
        raise InputError(f"{endpoint!r} is not a usable address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{endpoint!r} is not a usable address", remedy="write https://HOST or http://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        remedy = "name them in `credentials`: {env: NAME}"
        raise InputError("the endpoint holds a user or a password", remedy=remedy)
    if parts.query or parts.fragment or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise InputError(f"{endpoint!r} has a query, a fragment or a character that an endpoint can't have")
    return endpoint.rstrip("/")


def is_loopback(host: str) -> bool:
    """The name or address is this machine's own, whatever a name server says."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
