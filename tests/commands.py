"""A command in the process of the test, whose children are forked (`tests.forked`) and not started with all imports."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from click.testing import Result
from typer.testing import CliRunner

from evalspec.cli import app
from tests import forked

trains_classifiers = pytest.mark.imports("evalspec.imports:sklearn_alone", "scipy.optimize", "scipy.stats")
"""Marker of tests whose runs tell datasets apart (`shift`), as screens of them do."""
reads_classifiers = pytest.mark.imports(
    "evalspec.imports:skops_without_torch", "sklearn.linear_model", "sklearn.pipeline", "sklearn.preprocessing"
)
"""Marker of tests whose runs read a model of scikit-learn from a file of skops, which imports all of this."""


def overriding(fields: Iterable[str]) -> list[str]:
    """Words of a command that override these fields of its spec, each ``check.field=value``."""
    return [word for one in fields for word in ("--set", one)]


def invoked(*arguments: str) -> Result:
    """What the command ends with; a traceback is none."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        done = CliRunner().invoke(app, list(arguments))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output, done.output
    return done


def forking(environment: Mapping[str, str]) -> list[str]:
    """Words that start ``evalspec`` in a process of its own, whose children are forked where those of tests are.

    Args:
        environment: In which it is started.
    """
    if os.environ.get("EVALSPEC_TESTS_FORK") == "0":
        return [sys.executable, "-m", "evalspec"]
    return [sys.executable, "-P", str(Path(__file__).with_name("forking_command.py")), forked.address(environment)]


def put_command(folder: Path, environment: Mapping[str, str]) -> None:
    """Make a file ``evalspec`` in a folder, for shells that look for commands there; as `forking`."""
    command = folder / "evalspec"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(forking(environment))} "$@"\n')
    command.chmod(0o755)


def evalspec(
    *arguments: str | Path, folder: Path | None = None, env: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """What ``evalspec`` with these arguments says, as of a process of its own.

    Args:
        arguments: Of the command.
        folder: In which it runs; None: this one.
        env: Variables that it has besides.
    """
    words = [str(one) for one in arguments]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder or os.getcwd())
        for name, value in env.items():
            patch.setenv(name, value)
        done = invoked(*words)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)
