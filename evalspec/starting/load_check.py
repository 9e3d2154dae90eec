"""Faults that show when a run loads its models and asks them: all of it at once, before anything is measured."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evalspec.errors import EvalspecError, Problem, SpecError
from evalspec.language.parts import Access, NeedPredictions, Training
from evalspec.language.yaml import read_file
from evalspec.loading import Spec
from evalspec.loading.problems import Problems
from evalspec.planning import Plan, plan
from evalspec.planning.permissions import TRUST, lacking, models_of
from evalspec.running.children.jobs import SpecParts
from evalspec.running.options import default_limits
from evalspec.running.subjects import Children, Observer
from evalspec.starting.rehearsal import RehearsalJob
from evalspec.trainings.command import awaited

LONGEST_S = 300.0
"""For one model."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Result of loading everything that a spec names.

    Args:
        lines: For people, what answered.
        problems: What would fail.
    """

    lines: tuple[str, ...]
    problems: tuple[Problem, ...]


def check_loading(spec: Spec, access: Access, observer: Observer) -> LoadReport:
    """Load each model of a spec, put one batch through it, and hold its classes against labels and requirements.

    Args:
        spec: The spec.
        access: What the caller allows.
        observer: Who watches.
    """
    planned = plan(spec)
    problems = Problems(read_file(Path(spec.file), spec.file)[1])
    refused = list(lacking(planned, access))
    untrusted = {one.path for one in refused if one.option == TRUST}
    for one in refused:
        steps = one.path.split(".") if one.path.startswith(("models.", "datasets.")) else []
        problems.add(steps, Problem(f"{one.why}, {one.lacks}", remedy=one.remedy))
    lacking_secrets = {one.path for one in refused if one.path.startswith("datasets.")}
    names = [name for name in models_of(planned) if f"models.{name}" not in untrusted]
    lines = [f"{name}: a run starts its server, so it was not contacted here" for name in names if _starts(spec, name)]
    lines += [f"{name}: a training makes it, so it was not loaded here" for name in names if awaited(spec.models[name])]
    job = _job(planned, access)
    with tempfile.TemporaryDirectory(prefix="evalspec-load-") as folder:
        children = Children(access, default_limits(LONGEST_S), 1, Path(folder))
        for section, name in (
            *(("models", one) for one in names if not _starts(spec, one) and not awaited(spec.models[one])),
            *(
                ("datasets", one)
                for one in _unfed(planned, job)
                if not _is_made(spec, one) and f"datasets.{one}" not in lacking_secrets
            ),
        ):
            observer.step(f"{'loading' if section == 'models' else 'reading'} {name}")
            found, told = _asked(children, job, section, name)
            for problem in found:
                problems.add((section, name), problem)
            if told:
                lines.append(f"{name}: {told}")
    return LoadReport(tuple(lines), _all(problems))


def _all(problems: Problems) -> tuple[Problem, ...]:
    try:
        problems.raise_any()
    except SpecError as error:
        return error.problems
    return ()


def _asked(children: Children, job: RehearsalJob, section: str, name: str) -> tuple[list[Problem], str]:
    """Problems of one model or dataset, and its answers in words; a crash of the child is one of them."""
    role = "evalspec.starting.rehearsal"
    try:
        with children.start(role, job, f"load-{name}") as child:
            answer = child.ask({"do": section.removesuffix("s"), "name": name})
    except EvalspecError as error:
        return [Problem(str(error))], ""
    found = [Problem(**one | {"choices": tuple(one["choices"])}) for one in answer["problems"]]
    return found, str(answer["answers"])


def _starts(spec: Spec, name: str) -> bool:
    return spec.models[name].starts_server


def _is_made(spec: Spec, name: str) -> bool:
    """True of a training whose runs are made when the spec is run."""
    part = spec.datasets.get(name)
    return isinstance(part, Training) and part.supervised


def _job(planned: Plan, access: Access) -> RehearsalJob:
    spec = planned.spec
    labels: dict[str, list[str]] = {name: [] for name in spec.models}
    fed: dict[str, list[str]] = {name: [] for name in spec.models}
    classes: dict[str, list[str]] = {name: [] for name in spec.models}
    for one in planned.checks:
        for need in one.check.needs():
            if isinstance(need, NeedPredictions) and need.label:
                labels[need.model].append(need.dataset)
        for model in one.timed:
            fed[model] += one.datasets
        metrics = {metric.name: metric for metric in one.check.metrics}
        for requirement in one.check.requirements:
            if metrics[requirement.metric].parts == "class" and requirement.part is not None:
                classes[requirement.model or one.check.model].append(requirement.part)
                classes[one.check.model].append(requirement.part)
    for dataset, model in planned.predictions:
        fed[model].insert(0, dataset)
    answering = {name: _once(fed[name]) if spec.models[name].answers_rows else () for name in fed}
    parts = SpecParts(
        models=dict(spec.models),
        datasets=dict(spec.datasets),
        slices={one.name: one.where for one in spec.slices},
        access=access,
    )
    return RehearsalJob(
        parts,
        {name: _once(named) for name, named in labels.items()},
        answering,
        {name: _once(named) for name, named in classes.items()},
    )


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _unfed(planned: Plan, job: RehearsalJob) -> list[str]:
    """Datasets that some check reads and no model is fed with."""
    fed = {dataset for datasets in job.fed.values() for dataset in datasets}
    return [name for name in _once(name for one in planned.checks for name in one.datasets) if name not in fed]
