"""A new gate from a model and its rows: look, match, measure, write."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evalspec.errors import EvalspecError, InputError, Problem, SpecError
from evalspec.language.parts import Access
from evalspec.language.places import place_of
from evalspec.language.registry import discover
from evalspec.loading import LoadOptions
from evalspec.loading.schema import dump, spec_schema
from evalspec.loading.starter import SCHEMA_FILE, SPEC_FILE
from evalspec.running.options import default_limits
from evalspec.running.subjects import Children, Observer
from evalspec.starting import as_message
from evalspec.starting.drafts import drafts
from evalspec.starting.profile_start import profile_text
from evalspec.starting.settle import settle
from evalspec.starting.sketch import Sketch, SketchJob, relative
from evalspec.starting.trial import Bench, with_thresholds
from evalspec.starting.workflow import PLACE, root_of, workflow
from evalspec.starting.writing import spec_text

SUGGESTED = "thresholds are the profile's suggestions: yours to decide"
TRUST = "--trust"
OUTSIDE = "--allow-outside"


@dataclass(frozen=True, slots=True)
class GateRequest:
    """Files and options that a new gate is made from.

    Args:
        model: A file, a folder or a URL.
        test: The test set.
        train: What the model was trained on; None: not named.
        baseline: The model to compare with; None: there is none.
        output: The spec's file, or its folder; None: where all files lie below.
        profile: Name of a profile; None: none.
        ci: Name of the service that a workflow is written for; None: none is.
        label: Column with the truth; None: it is looked for.
        factory: What makes the module of a state dict; None: it is looked for.
        trust: Code of the model may run, and pickles may be read.
        hosts: Machines beside this one that may be asked.
    """

    model: str
    test: str
    train: str | None = None
    baseline: str | None = None
    output: Path | None = None
    profile: str | None = None
    ci: str | None = None
    label: str | None = None
    factory: str | None = None
    trust: bool = False
    hosts: frozenset[str] = frozenset()

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that were named."""
        named = (self.model, self.test, self.train, self.baseline)
        return tuple(Path(one) for one in named if one is not None and "://" not in one)


@dataclass(frozen=True, slots=True)
class Gate:
    """A new gate.

    Args:
        spec: Its file.
        written: All files that were written.
        lines: What was seen, for people.
        flags: Options that its commands need.
    """

    spec: Path
    written: tuple[Path, ...]
    lines: tuple[str, ...]
    flags: tuple[str, ...] = field(default=())


def start_gate(request: GateRequest, observer: Observer) -> Gate:
    """Write a gate that runs at once.

    Args:
        request: What it is made from.
        observer: Who watches.

    Raises:
        SpecError: A file is not there or can't be used, or one that would be written is there already.
    """
    _refuse_absent(request)
    spec = _spec_path(request)
    outside = not all(path.resolve().is_relative_to(spec.parent.resolve()) for path in request.paths)
    root = root_of(spec.parent)
    schema = spec.parent / SCHEMA_FILE
    _refuse_overwriting([spec, *([root / PLACE] if request.ci else [])])
    access = Access(spec.parent, trust=request.trust, allow_outside=outside, hosts=request.hosts)
    made = _make_folder(spec.parent)
    try:
        sketch = _look(request, access, observer)
        text, lines, flags, ci = _texts(request, sketch, spec, root, access, observer)
        contents = {spec: text}
        if not schema.exists():
            contents[schema] = dump(spec_schema(discover()))
        if request.ci:
            contents[root / PLACE] = ci
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    except OSError as error:
        message = f"can't be written: {error.strerror or error}"
        raise SpecError(Problem(message, file=error.filename or str(spec))) from error
    finally:
        for folder in made:
            # Nothing is left behind of what did not come out.
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    return Gate(spec, tuple(contents), tuple(lines), flags)


def _refuse_absent(request: GateRequest) -> None:
    """Stop where rows or a model are not on this machine.

    Raises:
        SpecError: They are not.
    """
    for rows in (request.test, request.train):
        if rows is not None and place_of(rows) is not None:
            remedy = "name a file with some of its rows, then write its place into the spec"
            raise SpecError(
                Problem(f"{rows!r} lies in object storage, and init reads rows on this machine", remedy=remedy)
            )
    for path in request.paths:
        if not path.exists():
            raise SpecError(
                Problem(f"there is no file or folder {str(path)!r}", remedy="give the model, then its rows")
            )


def _spec_path(request: GateRequest) -> Path:
    """The spec's file: where it is wanted, else in this folder if all files lie in or below it, else where they do."""
    if request.output is not None:
        named = request.output.suffix.lower() in (".yaml", ".yml")
        return request.output if named else request.output / SPEC_FILE
    here = Path.cwd()
    folders = [(path if path.is_dir() else path.parent).resolve() for path in request.paths]
    if all(path.resolve().is_relative_to(here.resolve()) for path in request.paths):
        return Path(SPEC_FILE)
    return Path(os.path.commonpath(folders)) / SPEC_FILE


def _refuse_overwriting(targets: Sequence[Path]) -> None:
    there = [path for path in targets if path.exists()]
    if there:
        remedy = "choose a different place with --output; nothing is overwritten"
        raise SpecError([Problem("this file already exists", file=str(path), remedy=remedy) for path in there])


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder; those that were not there, the innermost first."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"can't be written: {error.strerror or error}"
        raise SpecError(Problem(message, file=error.filename or str(folder))) from error
    return new


def _look(request: GateRequest, access: Access, observer: Observer) -> Sketch:
    """Sketch of what a child sees.

    Raises:
        SpecError: A file can't be used.
    """
    folder = access.folder

    def named(path: str | None) -> str | None:
        return path if path is None or "://" in path else relative(Path(path), folder)

    job = SketchJob(
        access=access,
        model=named(request.model) or "",
        test=named(request.test) or "",
        train=named(request.train),
        baseline=named(request.baseline),
        label=request.label,
        factory=request.factory,
    )
    observer.step(f"reading {request.model} and {request.test}")
    with tempfile.TemporaryDirectory(prefix="evalspec-init-") as logs:
        children = Children(access, default_limits(), 1, Path(logs))
        try:
            with children.start("evalspec.starting.look", job, "looking") as child:
                return as_message.to_sketch(child.ask({"do": "look"}, progress=observer.progress))
        except SpecError:
            raise
        except EvalspecError as error:
            raise SpecError(error.problem if isinstance(error, InputError) else str(error)) from error


def _texts(
    request: GateRequest, sketch: Sketch, spec: Path, root: Path, access: Access, observer: Observer
) -> tuple[str, list[str], tuple[str, ...], str]:
    """The spec's text, what was seen, options that it needs, and the workflow's text."""
    flags = _flags(request, sketch, access)
    options = LoadOptions(trust=request.trust, allow_outside=access.allow_outside, hosts=request.hosts)
    tokens = {
        "name": _name(request, spec),
        "schema": SCHEMA_FILE,
        "file": spec.name,
        "flags": "".join(f" {flag}" for flag in flags),
    }
    descriptor, name = tempfile.mkstemp(prefix=".evalspec-init-", suffix=".yaml", dir=spec.parent)
    os.close(descriptor)
    path = Path(name)
    try:
        bench = Bench(path, options, default_limits(), observer, discover())
        if request.profile is None:
            checks, found = with_thresholds(sketch, drafts(sketch), bench)
            text = spec_text(sketch, checks, tokens)
        else:
            text, found = profile_text(sketch, request.profile, spec.parent, bench.registry), [SUGGESTED]
        text, loaded = settle(text, path, options)
        ci = workflow(replace(loaded, file=str(spec)), root, flags) if request.ci else ""
    except SpecError as error:
        # The text that the lines are of is not kept.
        said = [replace(one, file=str(spec), line=None, column=None) for one in error.problems]
        raise SpecError(said) from error
    finally:
        path.unlink(missing_ok=True)
    return text, [*_seen(sketch), *found], flags, ci


def _flags(request: GateRequest, sketch: Sketch, access: Access) -> tuple[str, ...]:
    flags = [TRUST] if request.trust or sketch.model.unopened else []
    flags += [OUTSIDE] if access.allow_outside else []
    return (*flags, *(f"--allow-host {name}" for name in sorted(request.hosts)))


def _name(request: GateRequest, spec: Path) -> str:
    source = spec.parent.resolve().name if request.output is not None else Path(request.model.rstrip("/")).stem
    return re.sub(r"[^a-z0-9._-]+", "-", source.lower()).strip("-._") or "my-model"


def _seen(sketch: Sketch) -> list[str]:
    """Lines for people on what was seen."""
    model, test = sketch.model, sketch.test
    lines = [f"{model.fields.get('path') or model.fields.get('url')}: {model.what}"]
    if model.unopened:
        lines.append(
            f"  it was not opened, since that would run code ({model.unopened}); pass --trust if you know where it "
            "comes from. Its inputs, classes and thresholds in the spec are guesses"
        )
    if model.classes:
        lines.append(f"  classes: {', '.join(model.classes[:12])}{', ...' if len(model.classes) > 12 else ''}")
    counted = f"{test.rows:,} rows, " if test.rows is not None else ""
    label = f"label {test.label}{' (a guess)' if test.guess else ''}" if test.label else "no label column"
    lines.append(f"{test.fields['path']}: {counted}{label}")
    if model.answers:
        lines.append(f"  the first rows answered: {model.answers}")
    return [*lines, *(f"  to check: {note}" for note in model.notes)]
