"""A bucket of S3, Google Cloud Storage or Azure, read by obstore; only child processes come here.

Every read asks for the contents that were listed (``If-Match`` with their ETag). A request is made again while the
store is busy or the line breaks, for some 20 seconds; then one sentence says why it was given up.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from evalspec.errors import EvalspecError, InputError, InvalidError
from evalspec.evidence.record import ObjectStamp
from evalspec.language.places import METADATA_HOST, SCHEMES, ObjectPlace
from evalspec.sources.reading.objects import Store

CONNECT_S, ANSWER_S, GIVE_UP_S = 4, 10, 14
"""A connection, a whole answer of a request, and the time after which none is begun again: 24 s in the worst case."""
MOST_TRIES = 3
"""Of an answer that breaks off midway."""
VARIABLES = ("AWS_", "GOOGLE_", "AZURE_", "SERVICE_ACCOUNT", "MSI_", "IDENTITY_")
"""Beginnings of the variables that the library would read."""
ADDRESSES = ("ENDPOINT", "BUCKET", "SKIP_SIGNATURE", "ALLOW_HTTP", "BASE_URL", "CONTAINER_NAME", "PROXY")
"""Parts of names of variables that say where a store is, which only a spec may."""
_CODE = re.compile(r"<Code>(\w{3,60})</Code>|\"(?:code|error)\": ?\"(\w{3,60})\"")
_STATUS = re.compile(r"status(?: code)?:? (\d{3})\b")
_REFUSED = {"401", "403"}
_ELSEWHERE = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
_EXPIRED = {"ExpiredToken", "RequestExpired", "TokenRefreshRequired", "AuthenticationFailed", "invalid_grant"}


@dataclass(frozen=True, slots=True)
class Bucket:
    """How a bucket is reached.

    Args:
        place: In it.
        endpoint: URL of its server; None: the provider's own.
        region: Where it lies; None: the provider's first.
        account: Of Azure.
        credentials: Name: secret. Empty: none are sent.
        cloud_credentials: Where there are none, those of the provider's chain are used.
        metadata: The machine's metadata service may be asked for them.
    """

    place: ObjectPlace
    endpoint: str | None = None
    region: str | None = None
    account: str | None = None
    credentials: Mapping[str, str] | None = None
    cloud_credentials: bool = False
    metadata: bool = False

    @property
    def server(self) -> str:
        """The server, in words."""
        return self.endpoint or {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure"}[self.place.scheme]


class ObstoreStore(Store):
    """A bucket that may be read."""

    def __init__(self, bucket: Bucket) -> None:
        """Nothing is contacted yet.

        Raises:
            InputError: The library is not installed, or what is said of the bucket doesn't go together.
        """
        self._bucket = bucket
        self._store = _opened(bucket)

    def look_up(self, key: str) -> ObjectStamp | None:
        import obstore

        try:
            with _sentences(self._bucket, key):
                return _stamp(obstore.head(self._store, key))
        except FileNotFoundError:
            return None

    def listed(self, prefix: str) -> Iterator[ObjectStamp]:
        import obstore

        try:
            with _sentences(self._bucket, prefix):
                for some in obstore.list(self._store, prefix=prefix or None, chunk_size=1000):
                    yield from (_stamp(one) for one in some)
        except FileNotFoundError as error:
            raise InputError(_no_bucket(self._bucket)) from error

    def read(self, stamp: ObjectStamp, start: int, stop: int) -> bytes:
        url = self._bucket.place.url(stamp.key)
        try:
            with _sentences(self._bucket, stamp.key):
                content = self._whole(stamp, start, stop)
        except FileNotFoundError as error:
            raise InvalidError(f"{url!r} was removed after it had been listed") from error
        if len(content) != stop - start:
            raise InputError(f"{url!r} gives {len(content):,} bytes in place of {stop - start:,}")
        return content

    def _whole(self, stamp: ObjectStamp, start: int, stop: int) -> bytes:
        """The answer; one that breaks off midway is asked for again."""
        from obstore import exceptions

        begun = time.monotonic()
        for _ in range(MOST_TRIES - 1):
            try:
                return self._read(stamp, start, stop)
            except exceptions.GenericError as error:
                # What the store has answered, or was waited for long enough, is not asked for again.
                if _answered(error) or time.monotonic() - begun > GIVE_UP_S / MOST_TRIES:
                    raise
        return self._read(stamp, start, stop)

    def _read(self, stamp: ObjectStamp, start: int, stop: int) -> bytes:
        import obstore

        answer = obstore.get(self._store, stamp.key, options={"if_match": stamp.etag, "range": (start, stop)})
        if _etag(answer.meta) != stamp.etag or answer.meta["size"] != stamp.size:
            # A server that knows no If-Match answers with what it has.
            raise InvalidError(_replaced(self._bucket.place.url(stamp.key)))
        return bytes(answer.bytes())


def _stamp(meta: Mapping[str, Any]) -> ObjectStamp:
    return ObjectStamp(key=meta["path"], size=meta["size"], etag=_etag(meta), version=meta["version"])


def _etag(meta: Mapping[str, Any]) -> str:
    """ETag as a condition names it: Azure lists it without the quotes; empty: there is none."""
    etag = meta["e_tag"] or ""
    return etag if not etag or etag.endswith('"') else f'"{etag}"'


def _opened(bucket: Bucket) -> Any:
    try:
        from obstore import store
    except ModuleNotFoundError as error:
        raise InputError(
            f"{bucket.place.address!r} is read by obstore, which is not installed",
            remedy="pip install 'evalspec-gate[objects]'",
        ) from error
    kind = {"s3": store.S3Store, "gs": store.GCSStore, "az": store.AzureStore}[bucket.place.scheme]
    options = {
        "client_options": {
            "allow_http": (bucket.endpoint or "").startswith("http:"),
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "timeout": timedelta(seconds=ANSWER_S),
        },
        "retry_config": {
            "max_retries": 20,
            "retry_timeout": timedelta(seconds=GIVE_UP_S),
            "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=3), "base": 2},
        },
    }
    try:
        with _environment(bucket):
            return kind(bucket.place.bucket, config=_config(bucket), **options)
    except EvalspecError:
        raise
    except Exception as error:
        # Of the library's errors some are built-in ones.
        raise InputError(f"{bucket.place.address!r} can't be opened: {_first_line(error)}") from error


def _config(bucket: Bucket) -> dict[str, Any]:
    place, given = bucket.place, dict(bucket.credentials or {})
    config: dict[str, Any] = dict(given)
    if bucket.endpoint is not None:
        config["base_url" if place.scheme == "gs" else "endpoint"] = bucket.endpoint
    if place.scheme == "s3" and (bucket.region or not bucket.cloud_credentials):
        config["region"] = bucket.region or "us-east-1"
    if place.scheme == "az" and bucket.account is not None:
        config["account_name"] = bucket.account
    if not given and not bucket.cloud_credentials:
        config["skip_signature"] = True
    elif not given:
        config |= _of_the_chain(bucket)
    return config


def _of_the_chain(bucket: Bucket) -> dict[str, str]:
    """Keys in files of the provider's chain, since the library looks into variables alone.

    Raises:
        InputError: Only the machine's metadata service is left, and it may not be asked.
    """
    there = {
        "s3": ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
               "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        "gs": ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH",
               "GOOGLE_SERVICE_ACCOUNT_KEY", "SERVICE_ACCOUNT"),
        "az": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN",
               "AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"),
    }[bucket.place.scheme]  # fmt: skip
    if any(os.environ.get(name) for name in there):
        return {}
    if bucket.place.scheme == "s3":
        found = _of_the_profile()
        if found:
            return found
    if bucket.place.scheme == "gs" and (Path.home() / ".config/gcloud/application_default_credentials.json").is_file():
        return {}
    if not bucket.metadata:
        raise InputError(
            f"--cloud-credentials found none for {bucket.place.address} in variables or files, and this machine's "
            "metadata service was not allowed",
            remedy=f"set {there[0]}, or pass --allow-host {METADATA_HOST} on a machine of this provider",
        )
    return {}


def _of_the_profile() -> dict[str, str]:
    """Keys of a profile in the file that the AWS command line keeps; empty: there are none.

    Raises:
        InputError: The profile that AWS_PROFILE names has no keys of its own.
    """
    import configparser

    path = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws/credentials")
    profile = os.environ.get("AWS_PROFILE", "")
    parser = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error, OSError, UnicodeError):
        parser.read(path, encoding="utf-8")
    names = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key",
             "session_token": "aws_session_token"}  # fmt: skip
    section = profile or "default"
    found = {ours: parser.get(section, theirs, fallback="") for ours, theirs in names.items()}
    if profile and not (found["access_key_id"] and found["secret_access_key"]):
        raise InputError(
            f"profile {profile!r} has no keys in {path}",
            remedy='eval "$(aws configure export-credentials --format env)" sets those of any profile as variables',
        )
    return {name: value for name, value in found.items() if value}


@contextlib.contextmanager
def _environment(bucket: Bucket) -> Iterator[None]:
    """The environment without what the library would take from it although nobody allowed it."""
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(VARIABLES)}
    chain = bucket.cloud_credentials and not bucket.credentials
    hidden = [name for name in kept if not chain or any(part in name.upper() for part in ADDRESSES)]
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept)


@contextlib.contextmanager
def _sentences(bucket: Bucket, key: str) -> Iterator[None]:
    """Turn what the library raises over a request into one sentence; that nothing is there is left to the caller."""
    from obstore import exceptions

    try:
        yield
    except (EvalspecError, FileNotFoundError):
        raise
    except exceptions.PreconditionError as error:
        raise InvalidError(_replaced(bucket.place.url(key))) from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise _refused(bucket, key, error) from error
    except (exceptions.BaseError, ValueError, OSError) as error:
        raise _failed(bucket, key, error) from error


def _replaced(url: str) -> str:
    return f"{url!r} was replaced after it had been listed, so no number is given of its rows"


def _no_bucket(bucket: Bucket) -> str:
    return f"there is no {SCHEMES[bucket.place.scheme]} {bucket.place.bucket!r} on {bucket.server}"


def _refused(bucket: Bucket, key: str, error: Exception) -> InputError:
    code = _code(error)
    if bucket.credentials or bucket.cloud_credentials:
        remedy = "renew the credentials" if code in _EXPIRED else "check that they are right, and may list and read it"
        with_what = "the credentials that were sent"
    else:
        remedy = "name them under `credentials:`, or pass --cloud-credentials"
        with_what = "requests without credentials"
    said = f" ({code})" if code else ""
    return InputError(f"{bucket.server} refuses {with_what} for {bucket.place.url(key)!r}{said}", remedy=remedy)


def _failed(bucket: Bucket, key: str, error: Exception) -> InputError:
    code, match = _code(error), _STATUS.search(str(error))
    status, url = match[1] if match else "", bucket.place.url(key)
    if code in _EXPIRED or status in _REFUSED:
        return _refused(bucket, key, error)
    if code == "NoSuchBucket":
        return InputError(_no_bucket(bucket))
    if code in _ELSEWHERE or "redirect" in str(error):
        remedy = "say `region:` in the dataset, or correct `endpoint:`"
        return InputError(f"{bucket.place.address} lies in another region than is asked", remedy=remedy)
    if code or status:
        said = " ".join(one for one in (status, code) if one)
        return InputError(f"{bucket.server} answers {said} to requests for {url!r}")
    remedy = "check `endpoint:`, and that the server can be reached from here"
    return InputError(f"{bucket.server} gives no answer for {url!r}: {_first_line(error)}", remedy=remedy)


def _answered(error: Exception) -> bool:
    """The store has said what is wrong."""
    return bool(_code(error) or _STATUS.search(str(error)))


def _code(error: Exception) -> str:
    match = _CODE.search(str(error))
    return (match[1] or match[2]) if match else ""


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rpartition(" - ")[2][:200]
