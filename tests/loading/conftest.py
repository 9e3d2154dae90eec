from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evalspec.errors import SpecError
from evalspec.loading import LoadOptions, Spec, load
from tests.loading.doubles import REGISTRY, SPEC, write_files

Load = Callable[..., Spec]
Refused = Callable[..., list[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the spec; the working directory."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def read(folder: Path) -> Load:
    """Loads a text as ``s.yaml``."""

    def load_text(text: str = SPEC, overrides: Sequence[str] = (), options: LoadOptions | None = None) -> Spec:
        (folder / "s.yaml").write_text(text, encoding="utf-8")
        return load("s.yaml", overrides, options, registry=REGISTRY)

    return load_text


@pytest.fixture
def refused(read: Load) -> Refused:
    """The sentences with which a text is refused."""

    def sentences(text: str = SPEC, overrides: Sequence[str] = (), options: LoadOptions | None = None) -> list[str]:
        with pytest.raises(SpecError) as caught:
            read(text, overrides, options)
        return [str(problem) for problem in caught.value.problems]

    return sentences
