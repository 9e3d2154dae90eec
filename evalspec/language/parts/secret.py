"""A value that a spec names and never holds."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field, StringConstraints

from evalspec.errors import InputError
from evalspec.language.parts.part import Access, Part


class Secret(Part):
    """A value that stands in a variable of the environment."""

    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="Name of the variable; it is read only under --env NAME, and never recorded."
    )

    def read(self, what: str, access: Access, remedy: str) -> str:
        """Value of the variable; empty: it is not set.

        Args:
            what: Whose secret it is.
            access: What the caller allows.
            remedy: What to do where it may not be read.

        Raises:
            InputError: It may not be read.
        """
        if self.env not in access.env:
            raise InputError(f"{what} is the secret {self.env}, which may not be read", remedy=remedy)
        return os.environ.get(self.env, "")
