"""Renew what is generated: docs/checks/, docs/profiles.md, the tables in docs/cli.md, and schemas/.

``python docs/build.py`` writes it; with ``--check`` it only says what is out of date, and exits with 1 if anything is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from evalspec.cli import app
from evalspec.language.parts import Access
from evalspec.language.registry import discover
from evalspec.loading.catalogue import markdown
from evalspec.loading.profile import Item, load_profile, profile_names
from evalspec.loading.schema import dump, record_schema, spec_schema

ROOT = Path(__file__).resolve().parent.parent
MARKED = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def commands() -> dict[str, typer.core.TyperCommand]:
    """The commands of the command line, by name."""
    return dict(typer.main.get_command(app).commands)


def parameters(command: typer.core.TyperCommand) -> Iterator[tuple[str, str]]:
    """Arguments and options of a command as they are written, and what each is for."""
    for one in command.params:
        if isinstance(one, typer.core.TyperArgument):
            yield one.metavar or one.name.upper(), one.help or ""
        else:
            names = ", ".join([*one.opts, *one.secondary_opts])
            value = "" if one.is_flag else f" {one.metavar or 'N'}"
            yield names + value, one.help or ""


def table(name: str) -> str:
    """What stands in docs/cli.md for a command."""
    command = commands()[name]
    rows = [f"| `{written}` | {about} |" for written, about in parameters(command)]
    lines = [f"<!-- generated: {name} -->", command.help or "", "", "| | |", "|---|---|", *rows, "<!-- end -->"]
    return "\n".join(lines)


def served(item: Item) -> str:
    """That an item is asked of servers only."""
    return ", where the model is served" if item.served else ""


def profiles() -> str:
    """What stands in docs/profiles.md: what each profile that comes with evalspec asks for, and why."""
    own = discover(plugins=False)
    lines = [
        "# Profiles",
        "",
        "What a spec must ask for in each deployment context, and why. How a spec names one, sets an item aside or",
        "brings a profile of its own is in [spec.md](spec.md#profile). This page is generated from the profiles.",
    ]
    for name in profile_names():
        file = load_profile(name, Access(ROOT), own).file
        lines += [
            "",
            f"## {name}",
            "",
            f"{file.about} Order of the report: {', '.join(f'`{one}`' for one in file.order[:8])}, ...",
            "",
            "| item | asks for | why | from |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{one.called}` | {one.words(soft=one.soft)}{served(one)} | {one.why} | {one.source} |"
            for one in file.mandatory
        ]
        lines += [
            f"| `{one.called}` (recommended) | {one.words(soft=True)}{served(one)} | {one.why} | {one.source} |"
            for one in file.recommended
        ]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """Every generated file and its content."""
    own = discover(plugins=False)
    found = {ROOT / "docs" / "checks" / f"{kind}.md": markdown(kind, own) for kind in own.kinds("checks")}
    cli = ROOT / "docs" / "cli.md"
    found[cli] = MARKED.sub(lambda match: table(match[1]), cli.read_text(encoding="utf-8"))
    found[ROOT / "docs" / "profiles.md"] = profiles()
    found[ROOT / "schemas" / "spec.v1.json"] = dump(spec_schema(own))
    found[ROOT / "schemas" / "record.v1.json"] = dump(record_schema())
    return found


def outdated() -> list[Path]:
    """Files that are not as they would be generated now, and pages of checks that are gone."""
    wanted = pages()
    gone = [path for path in (ROOT / "docs" / "checks").glob("*.md") if path not in wanted]
    return gone + [
        path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    """Write, or with ``--check`` only say what would be written."""
    stale, wanted = outdated(), pages()
    for path in stale:
        said = "out of date: " if "--check" in arguments else "wrote "
        sys.stdout.write(f"{said}{path.relative_to(ROOT)}\n")
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            if path in wanted:
                path.write_text(wanted[path], encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
