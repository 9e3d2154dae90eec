"""Models that trainings of the same spec make: what ties the two, and what can't be known before they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalspec.errors import Problem
from evalspec.language.parts import Dataset, Model
from evalspec.loading.entries import Entry
from evalspec.loading.problems import Problems
from evalspec.trainings.command import OUT, CommandTraining, awaited


def check_made(problems: Problems, models: Mapping[str, Model], datasets: Mapping[str, Dataset]) -> None:
    """Note models that no training makes though their path says so, and trainings that say not what they save.

    Args:
        problems: Takes them.
        models: By name.
        datasets: With trainings, by name.
    """
    makers: dict[str, str] = {}
    for name, one in datasets.items():
        if not isinstance(one, CommandTraining) or one.makes is None or one.makes not in models:
            continue
        place = ("trainings", name, "makes")
        other = makers.setdefault(one.makes, name)
        path = getattr(models[one.makes], "path", None)
        if other != name:
            problems.add(place, Problem(f"{other} makes {one.makes} too", remedy="give each training its own model"))
        elif not isinstance(path, str):
            message = f"a training can't make {one.makes}: kind {models[one.makes].kind!r} has no path"
            problems.add(place, Problem(message, remedy="have it save a model in a file of its own kind"))
        elif one.saves is None and not awaited(models[one.makes]):
            message = f"it is not known where a run saves the model that {name} makes"
            remedy = f"write `path: '{OUT}/...'` in models.{one.makes}, or `saves: '{OUT}/...'` here"
            problems.add(place, Problem(message, remedy=remedy))
    for name, model in models.items():
        if awaited(model) and name not in makers:
            message = f"the path of {name} lies in {OUT}, and no training makes {name}"
            problems.add(("models", name, "path"), Problem(message, remedy=f"add `makes: {name}` to a training"))


def check_judged(
    problems: Problems, entries: Sequence[Entry], models: Mapping[str, Model], datasets: Mapping[str, Dataset]
) -> None:
    """Note checks that ask of the models that a training makes for what these do not give.

    Args:
        problems: Takes them.
        entries: The checks.
        models: By name.
        datasets: With trainings, by name.
    """
    for entry in entries:
        for name, one in datasets.items():
            if isinstance(one, CommandTraining) and one.makes is not None and one.makes in models:
                fault = entry.check.fault_of_made(name, models[one.makes])
                if fault is not None:
                    problems.add(entry.path, Problem(f"{fault} ({one.makes})"))


def unmade(models: Mapping[str, Model]) -> list[str]:
    """Names of models whose files a training is still to make."""
    return [name for name, one in models.items() if awaited(one)]
