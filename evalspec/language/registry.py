"""Finds checks by folder name, other kinds by file name, and those of other distributions by entry point.

Nothing is imported until its kind is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeVar

from evalspec.errors import Problem, SpecError, did_you_mean
from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check, Dataset, Model, Part, Training

P = TypeVar("P", bound=Part)
Group = Literal["checks", "runtimes", "sources", "trainings"]
DIMENSIONS: tuple[Literal["system", "model", "data"], ...] = ("system", "model", "data")
OWN_DISTRIBUTION = "evalspec-gate"

_PACKAGES: dict[Group, tuple[str, ...]] = {
    "checks": tuple(f"evalspec.checks.{dimension}" for dimension in DIMENSIONS),
    "runtimes": ("evalspec.runtimes",),
    "sources": ("evalspec.sources",),
    "trainings": ("evalspec.trainings",),
}
NEEDED: Mapping[type[Part], tuple[str, ...]] = {
    Check: ("needs",),
    Model: ("files",),
    Dataset: ("files", "header", "read"),
    Training: ("files", "header", "read"),
}
"""Methods that the base class leaves to each part."""
_SORTS: Mapping[type[Part], str] = {
    Check: "check",
    Model: "kind of model",
    Dataset: "kind of dataset",
    Training: "kind of training",
}
_WORDS: dict[Group, str] = {
    "checks": "check",
    "runtimes": "kind of model",
    "sources": "kind of dataset",
    "trainings": "kind of training",
}


@dataclass(frozen=True, slots=True)
class KindEntry:
    """A kind and where it comes from.

    Args:
        kind: Its name in a spec.
        module: The module that holds its class.
        attribute: The class in it; None: its only public class.
        distribution: The distribution that brings it.
        dimension: Of a check of our own: its folder.
    """

    kind: str
    module: str
    attribute: str | None
    distribution: str
    dimension: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """Every kind there is."""

    checks: Mapping[str, KindEntry]
    runtimes: Mapping[str, KindEntry]
    sources: Mapping[str, KindEntry]
    trainings: Mapping[str, KindEntry] = field(default_factory=dict)

    def kinds(self, group: Group) -> tuple[str, ...]:
        """Names of all kinds of a group, sorted."""
        return tuple(sorted(self._group(group)))

    def check(self, kind: str) -> type[Check]:
        """The class of a check.

        Raises:
            SpecError: There is none of this kind, or its file does not hold what it should.
        """
        found = self._find("checks", kind)
        part = _load(found, Check, "check")
        dimension = getattr(part, "dimension", None)
        if dimension not in DIMENSIONS or (found.dimension is not None and dimension != found.dimension):
            raise _broken(found, f"its dimension is {dimension!r}, not {found.dimension or ' or '.join(DIMENSIONS)}")
        return part

    def runtime(self, kind: str) -> type[Model]:
        """The class of a kind of model.

        Raises:
            SpecError: As `check`.
        """
        return _load(self._find("runtimes", kind), Model, "kind")

    def source(self, kind: str) -> type[Dataset]:
        """The class of a kind of dataset.

        Raises:
            SpecError: As `check`.
        """
        return _load(self._find("sources", kind), Dataset, "kind")

    def training(self, kind: str) -> type[Training]:
        """The class of a kind of training log.

        Raises:
            SpecError: As `check`.
        """
        return _load(self._find("trainings", kind), Training, "kind")

    def _group(self, group: Group) -> Mapping[str, KindEntry]:
        return {"checks": self.checks, "runtimes": self.runtimes, "sources": self.sources, "trainings": self.trainings}[
            group
        ]

    def _find(self, group: Group, kind: str) -> KindEntry:
        found = self._group(group).get(kind)
        if found is None:
            kinds = self.kinds(group)
            raise SpecError(
                Problem(f"unknown {_WORDS[group]} {kind!r}", choices=kinds, remedy=did_you_mean(kind, kinds))
            )
        return found


def discover(*, plugins: bool = True) -> Registry:
    """All kinds on this machine.

    Args:
        plugins: Also those of other distributions.

    Raises:
        SpecError: Two distributions bring the same kind.
    """
    groups = {group: dict(_own(group)) for group in _PACKAGES}
    if plugins:
        points = _plugins(tuple(_state(folder) for folder in sys.path))
        for group in groups:
            _add_plugins(group, groups[group], points.select(group=f"evalspec.{group}"))
    return Registry(
        checks=groups["checks"], runtimes=groups["runtimes"], sources=groups["sources"], trainings=groups["trainings"]
    )


def missing_packages(part: type[Model] | type[Dataset]) -> tuple[str, ...]:
    """Import names that a kind needs and that are not installed; nothing is imported for it."""
    return tuple(name for name in part.packages if importlib.util.find_spec(name) is None)


def install_line(part: type[Model] | type[Dataset]) -> str:
    """The command that installs what a kind needs."""
    if part.extra_name:
        return f"pip install '{OWN_DISTRIBUTION}[{part.extra_name}]'"
    return f"pip install {' '.join(missing_packages(part))}"


@cache
def _own(group: Group) -> Mapping[str, KindEntry]:
    found = {}
    for package in _PACKAGES[group]:
        dimension = package.rpartition(".")[2] if group == "checks" else None
        for kind, module in _modules(package, packages=group == "checks"):
            found[kind] = KindEntry(kind, module, None, OWN_DISTRIBUTION, dimension)
    return found


def _modules(package: str, *, packages: bool) -> Iterator[tuple[str, str]]:
    """Kinds and their modules: files of the package and, where kinds may be packages, the ``spec`` of each."""
    root = Path(__file__).parent.parent.joinpath(*package.split(".")[1:])
    for module in pkgutil.iter_modules([str(root)]):
        if module.name.startswith("_") or (module.ispkg and not packages):
            continue
        yield module.name, f"{package}.{module.name}.spec" if module.ispkg else f"{package}.{module.name}"


_State = tuple[str, tuple[tuple[int, int], ...]]


def _state(folder: str) -> _State:
    """A folder of the path, and what changes when a distribution is installed in it, removed or written anew."""
    place, infos = folder or os.curdir, list[str]()
    # It may be a file, or not be there.
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        infos = sorted(one.path for one in entries if one.name.endswith((".dist-info", ".egg-info")))
    return folder, (_stamp(place), *(_stamp(os.path.join(one, "entry_points.txt")) for one in infos))


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


@lru_cache(maxsize=4)
def _plugins(_path: tuple[_State, ...]) -> importlib.metadata.EntryPoints:
    """Entry points for us; whether some distribution has any is looked up as text, since to read all takes longer."""
    texts = (one.read_text("entry_points.txt") for one in importlib.metadata.distributions())
    if not any(text is not None and "[evalspec." in text.replace(" ", "") for text in texts):
        return importlib.metadata.EntryPoints()
    found = importlib.metadata.entry_points()
    return importlib.metadata.EntryPoints(one for group in _PACKAGES for one in found.select(group=f"evalspec.{group}"))


def _add_plugins(
    group: Group, kinds: dict[str, KindEntry], entry_points: Iterable[importlib.metadata.EntryPoint]
) -> None:
    for entry in entry_points:
        distribution = entry.dist.name if entry.dist is not None else entry.module
        taken = kinds.get(entry.name)
        new = KindEntry(entry.name, entry.module, entry.attr or None, distribution)
        if taken is not None and (taken.module, taken.distribution) != (new.module, new.distribution):
            raise SpecError(
                Problem(
                    f"the {_WORDS[group]} {entry.name!r} of {distribution} is already defined by {taken.distribution}",
                    remedy="uninstall one of the two",
                )
            )
        kinds[entry.name] = new


def _broken(found: KindEntry, why: str) -> SpecError:
    return SpecError(Problem(f"{found.kind!r} of {found.distribution} ({found.module}) can't be used: {why}"))


def _check_methods(found: KindEntry, part: type[Part], base: type[Part]) -> None:
    """Refuse an extension that lacks what every part of its sort has to bring.

    Raises:
        SpecError: It lacks something; names the first.
    """
    if found.distribution == OWN_DISTRIBUTION:
        return
    lacking = [name for name in NEEDED[base] if getattr(part, name) is getattr(base, name)]
    if issubclass(part, Model) and part.timed and part.load is Model.load:
        lacking.append(Model.load.__name__)
    if issubclass(part, Check) and part.run is Check.run and not _measures(part):
        lacking.append("run")
    if lacking:
        raise _broken(
            found, f"its class {part.__name__} has no method {lacking[0]}(), which every {_SORTS[base]} needs"
        )
    if issubclass(part, Check) and not all(isinstance(one, Metric) for one in part.metrics):
        raise _broken(found, f"{part.__name__}.metrics holds something other than a Metric")
    if issubclass(part, Check) and not part.metrics:
        raise _broken(found, f"{part.__name__}.metrics is empty, so no requirement can name a metric")


def _measures(part: type[Check]) -> bool:
    """True if a module called measure lies beside the class, from which `Check.run` takes what it does."""
    package = part.__module__.rpartition(".")[0]
    return bool(package) and importlib.util.find_spec(f"{package}.measure") is not None


def _load(found: KindEntry, base: type[P], tag: str) -> type[P]:
    try:
        module = importlib.import_module(found.module)
    except Exception as error:
        # Another distribution's module may raise anything.
        raise _broken(found, f"{type(error).__name__}: {error}") from error
    part = _only_class(found, module, base)
    field = part.model_fields.get(tag)
    names = typing.get_args(field.annotation) if field is not None else ()
    if names != (found.kind,):
        raise _broken(found, f"its field {tag!r} must be Literal[{found.kind!r}]")
    _check_methods(found, part, base)
    return part


def _only_class(found: KindEntry, module: ModuleType, base: type[P]) -> type[P]:
    if found.attribute is not None:
        named = getattr(module, found.attribute, None)
        if not (isinstance(named, type) and issubclass(named, base)):
            raise _broken(found, f"{found.attribute} is not a {base.__name__}")
        return named
    classes = [
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, base)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if len(classes) != 1:
        raise _broken(found, f"it must define one public {base.__name__}, and holds {len(classes)}")
    return classes[0]
