"""The workflow by which GitHub runs a new gate."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from evalspec.language.parts import Dataset, Model
from evalspec.loading import Spec
from evalspec.starting.sketch import relative

PLACE = Path(".github/workflows/evalspec.yml")
DISTRIBUTION = "evalspec-gate"


def root_of(folder: Path) -> Path:
    """The folder of the repository that a folder lies in; where it lies in none the current one, or else itself."""
    folder, here = folder.resolve(), Path.cwd().resolve()
    outside = here if folder.is_relative_to(here) else folder
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), outside)


def workflow(spec: Spec, root: Path, flags: Iterable[str]) -> str:
    """The text of the workflow.

    Args:
        spec: The new gate.
        root: Folder of the repository.
        flags: Options that a run of it needs.
    """
    parts: list[Model | Dataset] = [*spec.models.values(), *spec.datasets.values()]
    extras = sorted({part.extra_name for part in parts if part.extra_name})
    package = f"{DISTRIBUTION}[{','.join(extras)}]" if extras else DISTRIBUTION
    text = resources.files("evalspec.starting").joinpath("github.yaml").read_text(encoding="utf-8")
    values = {
        "spec": shlex.quote(relative(Path(spec.file), root)),
        "package": package,
        "flags": "".join(f" {flag}" for flag in flags),
    }
    for token, value in values.items():
        text = text.replace(f"@{token}@", value)
    return text
