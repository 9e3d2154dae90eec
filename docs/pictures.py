"""Makes the README's pictures of the sample report in a real browser.

    python docs/pictures.py [RUN]

Needs playwright and Chromium. RUN defaults to ``reports/sample``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
VIEWS = {
    "report-wide": (1280, 1150, "light"),
    "report-dark": (1280, 1150, "dark"),
    "report-narrow": (390, 844, "light"),
}


def main(run: Path) -> None:
    """One picture a view, of the top of the page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        for name, (width, height, scheme) in VIEWS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto((run / "report.html").resolve().as_uri())
            page.screenshot(path=HERE / f"{name}.png")
        page = browser.new_page(viewport={"width": 1280, "height": 1150})
        page.goto((run / "report.html").resolve().as_uri())
        page.locator("#check-calibration").scroll_into_view_if_needed()
        page.locator("#check-calibration").screenshot(path=HERE / "report-calibration.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "reports" / "sample")
