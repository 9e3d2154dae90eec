"""Hooks of the site: links that leave the documentation, and the report that stands in its gallery."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
REPORTS = {"reports/sample/report.html": "gallery/digits.html"}
"""Report in the repository: its place on the site."""
LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put the reports of the gallery beside the pages."""
    from mkdocs.structure.files import File

    for source, place in REPORTS.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Name a file of the repository that is no page, in the place of a link that would lead nowhere."""
    here = Path(config.docs_dir) / page.file.src_uri

    def replaced(match: re.Match[str]) -> str:
        target, _, _ = match[2].partition("#")
        path = (here.parent / target).resolve()
        if path.is_relative_to(Path(config.docs_dir).resolve()):
            return match[0]
        name = path.relative_to(ROOT).as_posix()
        if name in REPORTS:
            up = "../" * page.file.src_uri.count("/")
            return f"[{match[1]}]({up}{REPORTS[name]})"
        return f"{match[1]} (`{name}` in the repository)"

    return LINK.sub(replaced, markdown)
