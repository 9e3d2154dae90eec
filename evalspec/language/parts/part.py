"""The base of every part of a spec, and where a part may look."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from evalspec.errors import InputError, ProblemCode
from evalspec.evidence.record import ObjectStamp
from evalspec.language.bounded import no_file

CLOUD_SECRETS = frozenset({
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "GOOGLE_SERVICE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET",
})  # fmt: skip
"""Variables in which providers of object storage keep secrets."""
MADE = "made:"
"""Begins a path in the folder of what trainings make."""


class Part(BaseModel):
    """Base of every part of a spec: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def __getstate__(self) -> dict[Any, Any]:
        """Equal parts give equal bytes in processes that hash alike, so that a digest of them holds."""
        state = super().__getstate__()
        return state | {"__pydantic_fields_set__": {*sorted(state["__pydantic_fields_set__"])}}


@dataclass(frozen=True, slots=True)
class Access:
    """Files and machines that a part may use, and what it may run.

    Args:
        folder: The spec's folder; relative paths start here.
        trust: Code that the spec names may run, and pickles may be read.
        allow_outside: Paths may lead outside the folder.
        hub: A model or dataset hub may be contacted.
        hosts: Other machines that may be contacted.
        env: Environment variables that may be read as secrets.
        cloud_credentials: Credentials of a provider's own chain may be used: variables, files, the machine's role.
        memory: Folder of the objects that the calling program passed in memory; None: it passed none.
        searched: Folders in which that program finds modules.
        stamps: Objects of each place in object storage as they were first listed, put down by whoever lists them: all
            that is read later is of these, or is refused.
        made: Folder of what trainings make during a run; None: none does. A path in it begins with `MADE`.
    """

    folder: Path
    trust: bool = False
    allow_outside: bool = False
    hub: bool = False
    hosts: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    cloud_credentials: bool = False
    memory: Path | None = None
    searched: tuple[str, ...] = ()
    stamps: dict[str, tuple[ObjectStamp, ...]] = field(default_factory=dict, compare=False, repr=False)
    made: Path | None = None

    @property
    def secrets(self) -> frozenset[str]:
        """Variables whose values are kept out of all that is written."""
        return self.env | CLOUD_SECRETS if self.cloud_credentials else self.env

    def handed_over(self, name: str) -> Path:
        """The file of an object that the calling program passed in memory.

        Args:
            name: Name of the file in `memory`.

        Raises:
            InputError: The program passed nothing of this name.
        """
        path = None if self.memory is None or Path(name).name != name else self.memory / name
        if path is None or not path.is_file():
            remedy = "pass it: evalspec.run(spec, models={...}, datasets={...}), or name a file and its kind"
            raise InputError(
                "`kind: memory` is for objects that a program passes to evalspec.run, and none were passed",
                remedy=remedy,
            )
        return path

    def path(self, relative: str) -> Path:
        """The absolute path of a path in the spec.

        Raises:
            InputError: It leads outside the spec's folder without permission, or there is no such file.
        """
        made = self.made is not None and relative.startswith(MADE)
        root = self.made if made and self.made is not None else self.folder
        path = root / (relative.removeprefix(MADE) if made else relative)
        try:
            path = path.resolve()
            there = path.exists()
            other = no_file(path)
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{_shortened(relative)} can't be looked up: {reason}") from error
        if (made or not self.allow_outside) and not path.is_relative_to(root.resolve()):
            message = f"{relative!r} lies outside the spec's folder"
            raise InputError(message, remedy="pass --allow-outside if this is intended")
        if other is not None:
            raise InputError(f"{relative!r} is not a file: it is {other}", remedy="name a regular file or a folder")
        if not there and "://" in relative:
            message = f"{_shortened(relative)} is a URL, and a file on this machine is needed here"
            raise InputError(message, remedy="copy it here, and name the copy")
        if not there:
            message = f"there is no file or folder {relative!r} in {root}"
            raise InputError(message, code=ProblemCode.NO_FILE)
        return path


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
