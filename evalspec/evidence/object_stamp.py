"""An object in object storage, by what tells its contents from others."""

from __future__ import annotations

from pydantic import Field

from evalspec.evidence.frozen import Frozen


class ObjectStamp(Frozen):
    """An object in object storage, as it was listed and read."""

    key: str
    size: int = Field(description="Bytes.")
    etag: str = Field(description="What the store calls these contents; each read asked for them and no others.")
    version: str | None = Field(None, description="Where the store gives each version a name and says so.")
