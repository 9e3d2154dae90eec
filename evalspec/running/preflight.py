"""Refusal of runs that may not start: for want of a permission, or over an input that can't be used."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from evalspec.errors import EvalspecError, Problem, SpecError
from evalspec.language.parts import Access
from evalspec.planning import Plan
from evalspec.planning.permissions import KNOWN_SOURCE, TRUST, Permission, lacking, models_of
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.peek import LookJob
from evalspec.running.children.process import Limits
from evalspec.running.engines.choice import LOCAL, EngineChoice, check_host
from evalspec.running.subjects import Children


@dataclass(frozen=True, slots=True)
class Start:
    """A plan that is about to be run.

    Args:
        plan: The plan.
        access: What the caller allows.
        limits: Of the child that looks into files.
        engine: Looks at leaves of large datasets.
    """

    plan: Plan
    access: Access
    limits: Limits = field(default_factory=Limits)
    engine: EngineChoice = LOCAL


def refuse(starts: Iterable[Start]) -> None:
    """Stop before anything is measured or written, where a run lacks a permission or an input can't be used.

    Args:
        starts: All plans of one command.

    Raises:
        SpecError: With every problem of all of them.
    """
    problems = [problem for one in starts for problem in _problems(one)]
    if problems:
        raise SpecError(problems)


def refuse_unallowed(plan: Plan, access: Access) -> None:
    """Stop where a run lacks a permission that a plan's fields show it to need; no file is looked into.

    Raises:
        SpecError: With every permission that is lacking.
    """
    problems = [one.problem(plan.spec.file) for one in lacking(plan, access, os.environ)]
    if problems:
        raise SpecError(problems)


def _problems(one: Start) -> list[Problem]:
    file = one.plan.spec.file
    asked = list(lacking(one.plan, one.access, os.environ))
    untrusted = {permission.path for permission in asked if permission.option == TRUST}
    hidden, rows = _looked(one, [name for name in models_of(one.plan) if f"models.{name}" not in untrusted])
    return [*(permission.problem(file) for permission in (*asked, *hidden)), *rows, *_elsewhere(one)]


def _elsewhere(one: Start) -> tuple[Problem, ...]:
    """Problem of an engine on a machine that was not allowed."""
    try:
        check_host(one.engine, one.access.hosts)
    except SpecError as error:
        return error.problems
    return ()


def _looked(one: Start, models: list[str]) -> tuple[list[Permission], list[Problem]]:
    """Permissions that hidden code needs, and rows that can't be used; a child is started only where it is needed."""
    spec = one.plan.spec
    heavy = [name for name in models if not one.access.trust and spec.models[name].inspects_in_subprocess]
    light = [name for name in models if not one.access.trust and not spec.models[name].inspects_in_subprocess]
    unseen = {
        planned.check.name: planned.check
        for planned in one.plan.checks
        if planned.check.inspects() and planned.check.name not in spec.seen
    }
    why = {name: _hidden(one, name) for name in light}
    rows: list[Problem] = []
    if heavy or unseen:
        parts = SpecParts(models=dict(spec.models), datasets=dict(spec.datasets), slices={}, access=one.access)
        job = LookJob(parts, unseen, spec.file)
        with tempfile.TemporaryDirectory() as folder:
            children = Children(one.access, one.limits, 1, Path(folder))
            with children.start("evalspec.running.children.peek", job, "looking") as child:
                try:
                    why |= {name: child.ask({"do": "model", "name": name})["hides"] for name in heavy}
                    told = [child.ask({"do": "check", "name": name})["refused"] for name in unseen]
                except EvalspecError:
                    # What kills the child that looks kills the one that reads or loads too, which is that check's own.
                    told = []
        rows = [Problem(**(fields | {"choices": tuple(fields["choices"])})) for fields in told if fields is not None]
    return [Permission(TRUST, f"models.{name}", said, KNOWN_SOURCE) for name, said in why.items() if said], rows


def _hidden(one: Start, name: str) -> str | None:
    try:
        return one.plan.spec.models[name].may_hide_code(one.access)
    except (EvalspecError, OSError):
        # That it can't be read at all is for whoever loads it to say.
        return None
