"""Datasets whose files lie on this machine or in object storage."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import Field, StringConstraints, field_validator, model_validator

from evalspec.errors import InputError, Problem
from evalspec.evidence.record import ObjectStamp
from evalspec.language.parts import Access, Dataset, Secret
from evalspec.language.places import METADATA_HOST, ObjectPlace, check_endpoint, check_place, place_of
from evalspec.language.units import custom_error
from evalspec.sources.reading.files import inside_files, one_file
from evalspec.sources.reading.object_store import Bucket, ObstoreStore
from evalspec.sources.reading.objects import DataFile, ObjectFile, find_objects

CredentialName = Literal[
    "access_key_id", "secret_access_key", "session_token", "service_account_key", "account_key", "sas_key"
]
BELONG = {
    "s3": ("access_key_id", "secret_access_key", "session_token"),
    "gs": ("service_account_key",),
    "az": ("account_key", "sas_key"),
}
"""Scheme: names of its credentials."""
assert {name for names in BELONG.values() for name in names} == set(get_args(CredentialName))
_OPENING = threading.Lock()
"""Held while secrets are read and a store is opened, which takes variables out of the environment for that long."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Files of a dataset.

    Args:
        files: In the order of their names.
        inside: Path of each from the folder, the prefix or the first part of a pattern that is none.
    """

    files: Sequence[DataFile]
    inside: Sequence[str]


class StoredDataset(Dataset):
    """A dataset of files in a folder, or of objects in object storage."""

    suffixes: ClassVar[tuple[str, ...]]
    """Endings of names, where a folder or a prefix is named."""

    path: str
    endpoint: str | None = Field(
        None, description="Object storage: URL of the server, where it is not the provider's own."
    )
    region: str | None = Field(
        None, min_length=1, max_length=100, description="Object storage: region of an S3 bucket (default: us-east-1)."
    )
    account: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{3,63}$")] | None = Field(
        None, description="Object storage: storage account of an az:// container."
    )
    credentials: dict[CredentialName, Secret] = Field(
        default_factory=dict,
        description="Object storage: secrets by name, each as {env: NAME}. s3: access_key_id, secret_access_key, "
        "session_token; gs: service_account_key; az: account_key or sas_key.",
    )

    @field_validator("path")
    @classmethod
    def _names_a_place(cls, value: str) -> str:
        try:
            place_of(value)
        except InputError as error:
            raise custom_error(error.problem) from error
        return value

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return check_endpoint(value)
        except InputError as error:
            raise custom_error(error.problem) from error

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        message = _local_problem(self) if self.place is None else _stored_problem(self, self.place)
        if message is not None:
            raise custom_error(Problem(message))
        return self

    @property
    def place(self) -> ObjectPlace | None:
        return place_of(self.path)

    def check_place(self, access: Access) -> None:
        if self.place is not None:
            check_place(self.place, self.endpoint, access)

    def secrets_read(self) -> tuple[str, ...]:
        """Those of its credentials."""
        return tuple(dict.fromkeys(one.env for one in self.credentials.values()))

    def stamps(self, access: Access) -> tuple[ObjectStamp, ...]:
        return access.stamps.get(self._listing, ())

    def keep_stamps(self, access: Access, stamps: Sequence[ObjectStamp]) -> None:
        if self.place is not None:
            access.stamps[self._listing] = tuple(stamps)

    @property
    def _listing(self) -> str:
        """Name of the listing."""
        return json.dumps([self.kind, self.path, self.endpoint, self.account])

    def one_file(self, access: Access) -> DataFile:
        """The only file, or object.

        Raises:
            InputError: As `data_files`, or there are several.
        """
        if self.place is None:
            return one_file(access, self.path, self.kind)
        files = self.data_files(access).files
        if len(files) > 1:
            raise InputError(f"{self.path!r} holds {len(files):,} objects; kind {self.kind} reads one")
        return files[0]

    def list_objects(self, access: Access) -> None:
        if self.place is not None and not self.stamps(access):
            self._listed(self.place, access)

    def probe_objects(self, access: Access) -> None:
        if self.place is None:
            return
        first = self.data_files(access).files[0]
        assert isinstance(first, ObjectFile)
        first.tail()

    def data_files(self, access: Access) -> DataFiles:
        """Files, or objects as they were first listed.

        Raises:
            InputError: There is none, one is empty or outside, or the store can't be read.
        """
        place = self.place
        if place is None:
            found = inside_files(access, self.path, self.kind, self.suffixes)
            return DataFiles(tuple(found), tuple(found.values()))
        store = self._listed(place, access)
        stamps = access.stamps[self._listing]
        tails: OrderedDict[str, bytes] = OrderedDict()
        files = tuple(ObjectFile(store, place, stamp, tails) for stamp in stamps)
        root = _root(place, stamps)
        return DataFiles(files, tuple(stamp.key.removeprefix(root) for stamp in stamps))

    def _listed(self, place: ObjectPlace, access: Access) -> ObstoreStore:
        """The bucket, after its objects were listed once."""
        check_place(place, self.endpoint, access)
        with _OPENING:
            store = ObstoreStore(self._bucket(place, access))
        if self._listing not in access.stamps:
            access.stamps[self._listing] = find_objects(store, place, self.suffixes)
        return store

    def _bucket(self, place: ObjectPlace, access: Access) -> Bucket:
        values: dict[str, str] = {
            name: secret.read(f"`credentials.{name}`", access, f"pass --env {secret.env} if {place.address} may use it")
            for name, secret in self.credentials.items()
        }
        unset = next((name for name, value in values.items() if not value.strip()), None)
        if unset is not None:
            variable = next(one.env for name, one in self.credentials.items() if name == unset)
            raise InputError(
                f"the variable {variable}, `credentials.{unset}`, is not set",
                remedy="set it where evalspec is started; each node of a cluster needs it in its own environment",
            )
        return Bucket(
            place,
            self.endpoint,
            self.region,
            self.account,
            values,
            access.cloud_credentials,
            METADATA_HOST in access.hosts,
        )


def _local_problem(dataset: StoredDataset) -> str | None:
    """Problem of the fields of a dataset on this machine."""
    said = [name for name in ("endpoint", "region", "account", "credentials") if getattr(dataset, name)]
    return f"`{said[0]}` is for object storage, and `path` names files on this machine" if said else None


def _stored_problem(dataset: StoredDataset, place: ObjectPlace) -> str | None:
    """Problem of the fields of a dataset in object storage."""
    scheme, given = place.scheme, set(dataset.credentials)
    wrong = [name for name in dataset.credentials if name not in BELONG[scheme]]
    if wrong:
        return f"{wrong[0]!r} can't be used for {scheme}://; its credentials are {', '.join(BELONG[scheme])}"
    if scheme == "s3" and given and not {"access_key_id", "secret_access_key"} <= given:
        return "`credentials` of s3:// needs access_key_id and secret_access_key"
    if scheme == "az" and dataset.account is None:
        return "az:// needs `account`, the storage account that the container belongs to"
    for field, other in (("region", "s3"), ("account", "az")):
        if getattr(dataset, field) is not None and scheme != other:
            return f"`{field}` is for {other}://, and `path` begins with {scheme}://"
    return None


def _root(place: ObjectPlace, stamps: Sequence[ObjectStamp]) -> str:
    """The prefix below which the paths of objects are a dataset's own."""
    if place.is_pattern:
        return place.root
    if len(stamps) == 1 and stamps[0].key == place.key:
        return f"{place.key.rpartition('/')[0]}/"
    return place.key if not place.key or place.key.endswith("/") else f"{place.key}/"
