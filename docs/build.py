"""Renew what is generated.

That is docs/checks/, docs/profiles.md, docs/api.md, the tables in docs/cli.md, a part of mkdocs.yml, and schemas/.
``python docs/build.py`` writes it; with ``--check`` it only says what is out of date, and exits with 1 if anything is.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import typer
from pydantic import BaseModel

import evalspec
import evalspec.api
from evalspec.cli import app
from evalspec.language.parts import Access
from evalspec.language.registry import Registry, discover
from evalspec.loading.catalogue import markdown
from evalspec.loading.profile import Item, load_profile, profile_names
from evalspec.loading.schema import dump, record_schema, spec_schema

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "mkdocs.yml"
CHECK_PAGES = re.compile(r"( *# generated: checks\n).*?( *# end\n)", re.DOTALL)
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
    """Table of a command in docs/cli.md."""
    command = commands()[name]
    rows = [f"| `{written}` | {about} |" for written, about in parameters(command)]
    lines = [f"<!-- generated: {name} -->", command.help or "", "", "| | |", "|---|---|", *rows, "<!-- end -->"]
    return "\n".join(lines)


def served(item: Item) -> str:
    """Note that an item is required of servers only."""
    return ", if the model is served" if item.served else ""


def profiles() -> str:
    """Text of docs/profiles.md: what each profile that comes with evalspec requires, and why."""
    own = discover(plugins=False)
    lines = [
        "# Profiles",
        "",
        "Requirements of each deployment context, and the reasons for them. [spec.md](spec.md#profile) describes how a",
        "spec names a profile, sets an item aside, or uses its own profile. This page is generated from the profiles.",
    ]
    for name in profile_names():
        file = load_profile(name, Access(ROOT), own).file
        lines += [
            "",
            f"## {name}",
            "",
            f"{file.about} Order of the report: {', '.join(f'`{one}`' for one in file.order[:8])}, ...",
            "",
            "| item | requires | why | from |",
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


def signature(name: str, value: object) -> str:
    """A function or class as it is called; of a model of fields, only its name."""
    if inspect.isclass(value) and (issubclass(value, BaseModel) or getattr(value, "_is_protocol", False)):
        return f"class {name}"
    try:
        written = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))  # type: ignore[arg-type]  # what can't be called has none
    except (TypeError, ValueError):
        return name
    written = re.sub(r"\bAllow\(trust.*?env=frozenset\(\)\)", "Allow()", written)
    return name + written if len(written) < 400 and "<factory>" not in written else f"{name}(...)"


def text_of(value: object) -> str:
    """A docstring as Markdown: sections of arguments become lists, other sections paragraphs."""
    lines: list[str] = []
    inside = listed = False
    for line in inspect.cleandoc(inspect.getdoc(value) or "").splitlines():
        if re.fullmatch(r"(Args|Raises|Returns|Attributes|References):", line):
            inside, listed = True, line not in ("Returns:", "References:")
            lines += ["", f"**{line.removesuffix(':')}**", ""]
        elif inside and line.strip() and not listed:
            lines.append(line.strip())
        elif inside and re.match(r" {4}\S", line):
            named = re.match(r" {4}([\w, *]+): (.*)", line)
            lines.append(f"- `{named[1]}`: {named[2]}" if named else f"- {line.strip()}")
        elif inside and line.strip():
            lines.append(f"  {line.strip()}")
        else:
            inside = inside and not line
            # An example is indented; headings of a docstring are none of this page.
            lines.append(re.sub(r"^#+ (.*)", r"**\1**", line))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).replace("``", "`").strip())


def methods(value: object) -> str:
    """Public methods and properties of a class, each with the first sentence of its documentation."""
    rows = []
    for name, member in sorted(vars(value).items()) if inspect.isclass(value) else ():
        function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
        if name.startswith("_") or not inspect.isfunction(function) or not inspect.getdoc(member):
            continue
        called = (
            name
            if isinstance(member, property)
            else signature(name, function).replace("self, ", "").replace("(self)", "()")
        )
        first = (inspect.getdoc(member) or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")
        rows.append(f"- `{called}`: {first}")
    return "\n".join(["**Methods and properties**", "", *rows, ""]) if rows else ""


def entries(module: object, names: list[str]) -> Iterator[str]:
    """A section for each documented function or class, and one list of all other names."""
    plain = []
    for name in sorted(names, key=str.lower):
        value = getattr(module, name)
        if (inspect.isclass(value) or inspect.isfunction(value)) and getattr(value, "__module__", "").startswith(
            "evalspec"
        ):
            parts = (f"### {name}", f"```python\n{signature(name, value)}\n```", text_of(value), methods(value))
            yield "\n\n".join(part.strip() for part in parts if part) + "\n"
        elif not name.startswith("__"):
            plain.append(f"`{name}`")
    if plain:
        yield f"Types and constants: {', '.join(plain)}.\n"


def api() -> str:
    """Text of docs/api.md: every public name with its docstring."""
    front = list(entries(evalspec, list(evalspec.__all__)))
    extension = list(entries(evalspec.api, [name for name in evalspec.api.__all__ if name not in evalspec.__all__]))
    return "\n".join(
        [
            "# API",
            "",
            "Every public name with its docstring. [From Python](python.md) shows how to use them together. This page",
            "is generated.",
            "",
            "## evalspec",
            "",
            *front,
            "## evalspec.api",
            "",
            f"Everything that an extension may import. Version {evalspec.api.API_VERSION}.",
            "",
            *extension,
        ]
    )


def navigation(own: Registry) -> str:
    """mkdocs.yml, with a page for each check in its menu."""
    lines = []
    for dimension in ("system", "model", "data"):
        lines.append(f"          - {dimension.capitalize()}:\n")
        kinds = [kind for kind in own.kinds("checks") if own.check(kind).dimension == dimension]
        lines += [f"              - checks/{kind}.md\n" for kind in kinds]
    return CHECK_PAGES.sub(lambda match: match[1] + "".join(lines) + match[2], SITE.read_text(encoding="utf-8"))


def pages() -> dict[Path, str]:
    """Every generated file and its content."""
    own = discover(plugins=False)
    schema = spec_schema(own)
    found = {ROOT / "docs" / "checks" / f"{kind}.md": markdown(kind, own, schema) for kind in own.kinds("checks")}
    cli = ROOT / "docs" / "cli.md"
    found[cli] = MARKED.sub(lambda match: table(match[1]), cli.read_text(encoding="utf-8"))
    found[ROOT / "docs" / "profiles.md"] = profiles()
    found[ROOT / "docs" / "api.md"] = api()
    found[SITE] = navigation(own)
    found[ROOT / "schemas" / "spec.v1.json"] = dump(schema)
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
