"""The site: built with warnings as errors, whole without a network, searchable from disk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.report.conftest import chromium

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

__all__ = ["chromium"]

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)], cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    """Links may lead elsewhere; scripts, styles, fonts and pictures may not come from there."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|link|img|iframe|source)[^>]*(?:src|href)="?https?://', text), page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?://", style.read_text(encoding="utf-8")), style


def test_the_gallery_holds_the_report_as_it_is(site: Path) -> None:
    assert (site / "gallery/digits.html").read_bytes() == (ROOT / "reports/sample/report.html").read_bytes()
    assert 'href="gallery/digits.html"' in (site / "gallery.html").read_text(encoding="utf-8")


@pytest.mark.browser
def test_search_works_from_a_folder_on_disk(site: Path, chromium: Any) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    try:
        tab = context.new_page()
        requests: list[str] = []
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto((site / "index.html").as_uri())
        tab.locator(".md-search__input").first.click()
        tab.locator(".md-search__input").first.type("headroom")
        tab.locator(".md-search-result__item a").first.wait_for(timeout=60_000)
        assert "lossary" in " ".join(tab.locator(".md-search-result__item").all_inner_texts())
        assert [url for url in requests if not url.startswith(("file:", "data:", "about:", "blob:"))] == []
    finally:
        context.close()
