"""A real browser for the tests that need one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium; without it the tests are skipped, and fail where CI is set: there it must not be missing."""
    path = next((found for found in map(shutil.which, NAMES) if found), None)
    if path is None:
        line = "no Chromium on this machine: the page was not looked at in a real browser"
        if os.environ.get("CI"):
            pytest.fail(line)
        pytest.skip(line)
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
