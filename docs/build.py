"""Renew what is generated: docs/checks/, the tables in docs/cli.md, and schemas/.

``python docs/build.py`` writes it; with ``--check`` it only says what is out of date, and exits with 1 if anything is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from evalspec.cli import app
from evalspec.language.registry import discover
from evalspec.spec.catalogue import markdown
from evalspec.spec.schema import dump, record_schema, spec_schema

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


def pages() -> dict[Path, str]:
    """Every generated file and its content."""
    own = discover(plugins=False)
    found = {ROOT / "docs" / "checks" / f"{kind}.md": markdown(kind, own) for kind in own.kinds("checks")}
    cli = ROOT / "docs" / "cli.md"
    found[cli] = MARKED.sub(lambda match: table(match[1]), cli.read_text(encoding="utf-8"))
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
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            if path in wanted:
                path.write_text(wanted[path], encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
