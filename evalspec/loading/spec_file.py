"""Spec file -> Spec: read, override, validate each part, hold the parts against each other and against the files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evalspec.errors import Problem, SpecError
from evalspec.language.header import Header
from evalspec.language.parts import Access, Dataset, Model, SpecNames, Training
from evalspec.language.registry import DIMENSIONS, Registry, discover
from evalspec.language.yaml import Node, read_file
from evalspec.language.yaml_text import read_mapping, write
from evalspec.loading import (
    class_files,
    crosscheck,
    files,
    inspect_rows,
    language_models,
    made_models,
    matching,
    requested_profile,
)
from evalspec.loading.entries import Entry, Reader, check_keys
from evalspec.loading.in_memory import Handover, filled
from evalspec.loading.problems import Problems, keys_of
from evalspec.loading.spec import NOT_LOADED, Spec, SpecFields, SpecPolicy

TOP_KEYS = (
    "evalspec",
    "name",
    "seed",
    "models",
    "datasets",
    "trainings",
    "slices",
    *DIMENSIONS,
    "policy",
    "waivers",
    "profile",
    "without",
    "claims",
    "rollback",
)


PROFILE_FILE = "profile.yaml"
"""What a run keeps its profile in, beside its spec."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a spec is loaded.

    Args:
        trust: Code that the spec names may run.
        allow_outside: Paths may leave the spec's folder.
        hub: Names on a hub may be looked up.
        files: Files are looked at: that they are there, and their columns and rows.
        hosts: Machines beside this one that served models may be on.
        profile: The profile as a run kept it, read in place of the one that the spec names.
        memory: What the calling program handed over in memory.
    """

    trust: bool = False
    allow_outside: bool = False
    hub: bool = False
    files: bool = True
    hosts: frozenset[str] = frozenset()
    profile: Path | None = None
    memory: Handover | None = None


def load(
    path: str | Path | Mapping[str, object],
    overrides: Sequence[str] = (),
    options: LoadOptions | None = None,
    *,
    registry: Registry | None = None,
) -> Spec:
    """The validated spec of a file, or of a mapping that says what a file would.

    Args:
        path: The file; paths in a mapping start from the working directory.
        overrides: ``TARGET=VALUE`` each, as ``--set`` takes them.
        options: What may be looked at.
        registry: The kinds there are; None: all that are installed.

    Raises:
        SpecError: With everything that is wrong, each with its place, in the order of the file.
    """
    options, registry = options or LoadOptions(), registry or discover()
    text, root, shown, folder = _read(path)
    if not isinstance(root.content, dict):
        raise SpecError(
            Problem(
                "a spec is a mapping of keys",
                file=shown,
                line=root.place.line,
                column=root.place.column,
                remedy="start one with `evalspec init`",
            )
        )
    if options.memory is not None:
        root = filled(root, options.memory, registry)
        text = write(root.value)
    if overrides:
        root, text = _overridden(root, overrides)
    loader = _Loader(root, registry, options, folder)
    content = json.dumps(root.value, sort_keys=True, ensure_ascii=False)
    return loader.spec(
        file=shown,
        text=text,
        digest=hashlib.sha256(content.encode()).hexdigest(),
        overrides=tuple(overrides),
    )


def _read(spec: str | Path | Mapping[str, object]) -> tuple[str, Node, str, Path]:
    """Text and root of a spec, what it is called, and the folder that its paths start from."""
    if isinstance(spec, Mapping):
        text, root = read_mapping(spec)
        return text, root, root.place.file, Path.cwd()
    text, root = read_file(Path(spec), str(spec))
    return text, root, str(spec), Path(spec).resolve().parent


def load_kept(folder: Path) -> Spec:
    """The spec that a run was made by, with its profile, both as the run kept them; none of its files is looked at.

    Args:
        folder: Of the run.

    Raises:
        SpecError: It can't be read here.
    """
    return load(folder / "spec.yaml", options=LoadOptions(files=False, profile=folder / PROFILE_FILE))


def _overridden(root: Node, overrides: Sequence[str]) -> tuple[Node, str]:
    """The root with its overrides in it, and the text of a spec that says the same."""
    from evalspec.loading.overrides import apply

    root = apply(root, overrides)
    header = "".join(f"# --set {' '.join(argument.split())}\n" for argument in overrides)
    return root, header + write(root.value)


def load_all(requests: Sequence[tuple[Path, LoadOptions]], overrides: Sequence[str] = ()) -> list[Spec]:
    """Several specs, each with its options; what is wrong in any of them is raised at once.

    Raises:
        SpecError: With the problems of all of them.
    """
    registry = discover()
    loaded: list[Spec] = []
    problems: list[Problem] = []
    for path, options in requests:
        try:
            loaded.append(load(path, overrides, options, registry=registry))
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(problems)
    return loaded


class _Loader:
    """One spec on its way from nodes to parts."""

    def __init__(self, root: Node, registry: Registry, options: LoadOptions, folder: Path) -> None:
        self.root = root
        self.problems = Problems(root)
        self.registry = registry
        self.options = options
        self.folder = folder
        self.unverified: list[str] = []
        self.asks: list[str] = []
        self.seen: dict[str, object] = {}

    def spec(self, *, file: str, text: str, digest: str, overrides: tuple[str, ...]) -> Spec:
        """The spec, or everything that is wrong with it."""
        check_keys(self.problems, self.root, TOP_KEYS)
        fields = self._fields()
        names = self._names()
        reader = Reader(self.root, self.registry, self.problems)
        datasets: dict[str, Dataset] = {**reader.datasets(names), **reader.trainings(names)}
        models = {name: model.bound(datasets) for name, model in reader.models(names).items()}
        entries = reader.checks(names)
        everything = [entry for dimension in DIMENSIONS for entry in entries[dimension]]
        self._crosscheck(fields, models, everything, names, complete=not reader.failed)
        profile = self._profile(fields, models, everything, complete=not reader.failed)
        rollback = crosscheck.rollbacks(self.problems, fields.rollback if fields is not None else (), everything)
        headers = self._files(fields, models, datasets, everything, names) if self.options.files else {}
        self.problems.raise_any()
        # Nothing is None here: a part that did not come out has left a problem.
        assert fields is not None
        return Spec(
            name=fields.name,
            seed=fields.seed,
            models=models,
            datasets=datasets,
            slices=fields.slices,
            system=tuple(entry.check for entry in entries["system"]),
            model=tuple(entry.check for entry in entries["model"]),
            data=tuple(entry.check for entry in entries["data"]),
            policy=fields.policy,
            waivers=fields.waivers,
            claims=fields.claims,
            rollback=rollback,
            file=file,
            folder=self.folder,
            text=text,
            digest=digest,
            overrides=overrides,
            headers=headers,
            unverified=tuple(self.unverified),
            seen=self.seen,
            asks=tuple(self.asks),
            profile=None if profile is None else profile.held,
            profile_text="" if profile is None else profile.text,
            without=fields.without,
            memory=self.options.memory,
        )

    def _fields(self) -> SpecFields | None:
        value = self.root.value
        values = {key: value[key] for key in keys_of(SpecFields) if isinstance(value, dict) and key in value}
        try:
            return SpecFields.model_validate(values)
        except ValidationError as error:
            self.problems.add_invalid((), SpecFields, error)
            return None

    def _names(self) -> SpecNames:
        """The names that are defined, whether what they name is right or not."""

        def keys(section: str) -> tuple[str, ...]:
            node = self.root.child(section)
            return tuple(node.content) if node is not None and isinstance(node.content, dict) else ()

        slices = self.root.child("slices")
        entries = slices.content if slices is not None and isinstance(slices.content, list) else []
        named = [entry.child("name") for entry in entries]
        return SpecNames(
            models=keys("models"),
            datasets=keys("datasets"),
            slices=tuple(node.content for node in named if node is not None and isinstance(node.content, str)),
            origins={name: self._texts("datasets", name, "origin") for name in keys("datasets")},
            quantization={name: self._texts("models", name, "quantization") for name in keys("models")},
            trainings=keys("trainings"),
        )

    def _texts(self, section: str, name: str, field: str) -> dict[str, str]:
        """Texts of a field of a dataset or a model, where its values are texts."""
        parts = self.root.child(section)
        entry = parts.child(name) if parts is not None else None
        found = entry.child(field) if entry is not None else None
        content = found.content if found is not None and isinstance(found.content, dict) else {}
        return {key: str(node.content) for key, node in content.items()}

    def _crosscheck(
        self,
        fields: SpecFields | None,
        models: dict[str, Model],
        entries: Sequence[Entry],
        names: SpecNames,
        *,
        complete: bool,
    ) -> None:
        crosscheck.check_ids(self.problems, entries)
        crosscheck.check_models(self.problems, models, names)
        for entry in entries:
            crosscheck.check_entry(self.problems, entry, names)
        crosscheck.check_remembered(self.problems, entries, models)
        language_models.check_abilities(self.problems, entries, models)
        language_models.check_shown_apart(self.problems, entries, models)
        language_models.check_lacking(self.problems, entries, models)
        requirements = crosscheck.check_requirement_names(self.problems, entries)
        if fields is not None:
            crosscheck.check_slices(self.problems, fields.slices)
        if complete:
            crosscheck.check_decides(self.problems, entries)
            crosscheck.check_waivers(self.problems, fields.waivers if fields is not None else (), requirements)

    def _profile(
        self, fields: SpecFields | None, models: dict[str, Model], entries: Sequence[Entry], *, complete: bool
    ) -> requested_profile.RequestedProfile | None:
        """The profile held against the spec; None: none is named, or it is wrong."""
        if fields is None:
            return None
        access = Access(self.folder, allow_outside=self.options.allow_outside)
        loaded = requested_profile.read(self.problems, fields.profile, access, self.registry, self.options.profile)
        if loaded is None and fields.profile is not None:
            return None
        found = (
            None if loaded is None else requested_profile.hold(loaded, [one.check for one in entries], models, fields)
        )
        requested_profile.check_name_is_free(self.problems, entries, found)
        if complete:
            requested_profile.check_without(self.problems, fields.without, found)
        return None if loaded is None or found is None else requested_profile.RequestedProfile(found, loaded.text)

    def _files(
        self,
        fields: SpecFields | None,
        models: dict[str, Model],
        datasets: dict[str, Dataset],
        entries: Sequence[Entry],
        names: SpecNames,
    ) -> dict[str, Header]:
        options = self.options
        access = Access(self.folder, options.trust, options.allow_outside, options.hub, options.hosts)
        if options.memory is not None:
            access = options.memory.given_to(access)
        there = files.check_packages(self.problems, "models", models)
        made_models.check_made(self.problems, models, datasets)
        made_models.check_judged(self.problems, entries, models, datasets)
        unmade = made_models.unmade(models)
        self.unverified += [f"the model {name}: a training makes it" for name in unmade]
        found = {name: models[name] for name in models if name in there and name not in unmade}
        files.check_model_files(self.problems, found, access)
        language_models.check_vocabularies(self.problems, entries, found, access)
        class_files.check_answer_files(self.problems, found, datasets, self.registry, access)
        class_files.check_answered(self.problems, entries, found)
        class_files.check_classes(self.problems, entries, models, access)
        class_files.check_label_names(self.problems, entries, models, datasets, access)
        there = files.check_packages(self.problems, "datasets", datasets)
        readable = {name: datasets[name] for name in datasets if name in there}
        files.check_places(self.problems, readable, access)
        headers = files.read_headers(self.problems, readable, access, self.unverified)
        files.check_dataset_columns(self.problems, datasets, headers)
        language_models.check_shown_rows(self.problems, models, headers)
        if fields is not None:
            whole = len(headers) == len(names.datasets)
            files.check_slice_columns(self.problems, fields.slices, headers, whole)
        files.check_named_files(self.problems, entries, access)
        files.check_sides(self.problems, entries, readable, access)
        slices = fields.slices if fields is not None else ()
        needs = files.NeedsCheck(self.problems, models, datasets, headers, slices)
        confidence = (SpecPolicy() if fields is None else fields.policy).confidence
        self.unverified += matching.check_matched(self.problems, entries, models, readable, headers)
        for entry in entries:
            needs.check(entry, names)
            needs.can_pass(entry, names, confidence)
            self.unverified += files.not_timed(entry, models)
            code = entry.check.runs_code()
            if code and not options.trust:
                self.asks.append(f"{entry.check.name}: `run` needs --trust for {', '.join(code)}")
        self.seen = inspect_rows.inspect_small(self.problems, entries, inspect_rows.Readable(readable, headers, access))
        self.unverified += inspect_rows.not_inspected(entries, self.seen)
        self._note(models, datasets, headers)
        self.unverified += crosscheck.without_score(datasets, entries)
        self.unverified += crosscheck.claimed_alone(fields.claims if fields is not None else (), entries)
        # The day is the run's: reading a spec looks at no clock.
        self.unverified += [
            f"whether the waiver of {waiver.of} still holds: {waiver.expires} is its last day"
            for waiver in (fields.waivers if fields is not None else ())
        ]
        self.unverified += [
            f"whether {one.of} may still be set aside: {one.expires} is its last day"
            for one in (fields.without if fields is not None else ())
            if one.expires is not None
        ]
        return headers

    def _note(self, models: dict[str, Model], datasets: dict[str, Dataset], headers: dict[str, Header]) -> None:
        """Note what was not verified, in sentences."""
        made = [name for name, one in datasets.items() if isinstance(one, Training) and one.supervised]
        self.unverified += [f"the runs of {name}: `run` makes them" for name in made]
        # What is counted of a training are its runs, by the checks that look at them.
        counted = [
            name for name, header in headers.items() if header.rows is None and not isinstance(datasets[name], Training)
        ]
        if counted:
            rows = ", ".join(counted)
            self.unverified.append(
                f"number of rows of {rows}: the format shows it only when the file is read; see `plan`"
            )
        filtered = [name for name in headers if datasets[name].where is not None]
        if filtered:
            self.unverified.append(f"how many rows of {', '.join(filtered)} `where` keeps")
        if models:
            self.unverified.append(NOT_LOADED)
        if headers:
            self.unverified.append("values: labels, missing cells, column contents")
        code: dict[str, tuple[str, ...]] = {name: model.runs_code() for name, model in models.items()}
        code |= {name: one.runs_code() for name, one in datasets.items() if isinstance(one, Training)}
        untrusted = {name: parts for name, parts in code.items() if parts}
        if not self.options.trust:
            self.asks += [f"{name}: `run` needs --trust for {', '.join(parts)}" for name, parts in untrusted.items()]
        self.asks += [
            f"{name}: `run` needs --env {variable}, the secret of a header"
            for name, model in models.items()
            for variable in model.secrets_read()
        ]
        self.asks += [
            f"{name}: `run` needs --env {variable}, a secret of its credentials"
            for name, dataset in datasets.items()
            for variable in dataset.secrets_read()
        ]
