"""What holds for all tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from evalspec import processes
from evalspec.running.environment import gpus
from tests import forked

pytest_plugins = ["tests.small_models"]

ROOT = Path(__file__).resolve().parents[1]

# The same examples each time, so that no change is refused for what it has not touched; `--hypothesis-profile default`
# draws others. Nor for its seconds on a machine with other work on it: what a test may take is set by its timeout.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


def pytest_configure() -> None:
    """A process in the background of a shell ignores SIGINT, and so do its children; tests of interrupts hear it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Of several workers every other one imports the tests from their end.

    Where nobody has compiled them yet, with what pytest adds to an assertion, each leaves half of that to the other.
    """
    if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 2 == 0:
        return
    places = [Path(one.partition("::")[0]).resolve() for one in session.config.args]
    files = {file for one in places for file in (one.rglob("test_*.py") if one.is_dir() else [one])}
    for file in sorted(files, reverse=True):
        # What can't be imported is told when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Around a test and all of its fixtures, those of its module and of the session too.

    Children of runs are forked where that is all the same to the test; see `tests.forked`. And what
    `pytest_collection_finish` sets aside stays there, also where a measuring loop of this process ends:
    `evalspec.measure.interference.Watch` takes back all that is set aside, and the next one would look through it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        if os.environ.get("EVALSPEC_TESTS_FORK") != "0" and not item.get_closest_marker("processes"):
            patch.setattr(processes, "subprocess", forked)
            imports = item.get_closest_marker("imports")
            patch.setattr(forked, "more", imports.args if imports else ())
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """No server of a test is left."""
    forked.close()


PROOF_S = 900
"""Seconds after which a proof is ended; other tests have those of the configuration."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a GPU are skipped, with a line that says so, where NVML shows none; the longest come first."""
    # A suite takes a minute or more: begun last, it would keep one processor waiting for the other.
    items.sort(key=lambda item: "suites" not in item.path.parts)
    for item in items:
        if item.get_closest_marker("proof") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PROOF_S))
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if wanting and not gpus():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU, and NVML shows none"))


def pytest_collection_finish() -> None:
    """Thousands of tests stay in memory: a search for garbage looks at none of them, and there are fewer of them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
