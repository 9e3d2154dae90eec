"""Permissions that a plan needs before it can run: code, and secrets. Nothing is run, and no file read, to find out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evalspec.errors import Problem
from evalspec.evidence.record import Record
from evalspec.language.parts import Access, Check, Dataset, Model, Training
from evalspec.planning.plan import Plan
from evalspec.redaction import SHORTEST, Redaction
from evalspec.trainings.command import CommandTraining, awaited

TRUST = "--trust"
KNOWN_SOURCE = "pass --trust if you know where it comes from"


@dataclass(frozen=True, slots=True)
class Permission:
    """One thing that the caller has not allowed.

    Args:
        option: The option that allows it.
        path: Whose need it is: ``models.candidate``, or the name of a check.
        why: What needs it, in a sentence without a full stop.
        remedy: What to do.
        lacks: Why it can't be had.
    """

    option: str
    path: str
    why: str
    remedy: str
    lacks: str = "which is not allowed"

    def problem(self, file: str) -> Problem:
        """The same, as what is wrong with a command."""
        return Problem(f"{self.why}, {self.lacks}", file=file, path=self.path, remedy=self.remedy)


def lacking(plan: Plan, access: Access, environment: Mapping[str, str] | None = None) -> tuple[Permission, ...]:
    """Permissions without which a run of the plan would be refused, as far as the spec's fields tell.

    Args:
        plan: Its checks and their models count; what ``--only`` leaves out does not.
        access: What the caller allows.
        environment: Variables that are set; None: whether a secret is set is not checked.
    """
    found = [*_code(plan, access), *_secrets(plan, access, environment)]
    return tuple(dict.fromkeys(found))


def _code(plan: Plan, access: Access) -> Iterator[Permission]:
    if access.trust:
        return
    for name in models_of(plan):
        code = plan.spec.models[name].runs_code()
        if code:
            yield Permission(TRUST, f"models.{name}", f"{name} runs {' and '.join(code)}", KNOWN_SOURCE)
    for name, training in trainings_of(plan).items():
        code = training.runs_code()
        if code:
            yield Permission(TRUST, f"trainings.{name}", f"{name} runs {' and '.join(code)}", KNOWN_SOURCE)
    for one in plan.checks:
        code = one.check.runs_code()
        if code:
            why = f"{one.check.name} runs {' and '.join(code)}"
            yield Permission(TRUST, _place(one.check), why, KNOWN_SOURCE)


def _secrets(plan: Plan, access: Access, environment: Mapping[str, str] | None) -> Iterator[Permission]:
    models, datasets = plan.spec.models, plan.spec.datasets
    read = dict.fromkeys(name for one in plan.checks for name in one.datasets)
    parts: list[tuple[str, str, Model | Dataset]] = [(name, f"models.{name}", models[name]) for name in models_of(plan)]
    parts += [(name, f"datasets.{name}", datasets[name]) for name in read]
    for name, path, part in parts:
        for variable in part.secrets_read():
            option = f"--env {variable}"
            reads = f"{name} reads the secret {variable} from the environment"
            if variable not in access.env:
                remedy = f"pass {option} if the server may receive it"
                yield Permission(option, path, reads, remedy)
            elif environment is not None:
                value = environment.get(variable, "").strip()
                if not value:
                    yield Permission(option, path, reads, f"set {variable}", "but it is not set")
                elif (why := _unfit(plan, variable, value)) is not None:
                    yield Permission(option, path, reads, f"set {variable} to another value", why)


def _unfit(plan: Plan, variable: str, value: str) -> str | None:
    """Why a secret can't be kept out of a record; None: it can."""
    hidden = Redaction({variable: value})
    if not hidden:
        return (
            f"but it has fewer than {SHORTEST} letters: it could not be distinguished from other text, so it could not "
            "be kept secret"
        )
    texts = (plan.spec.text, plan.spec.profile_text, json.dumps(Record.model_json_schema()))
    if any(hidden.text(one) != one for one in texts if one):
        return "but its value, or a part of it, is a word of the spec or of every record, and those are kept"
    return None


def models_of(plan: Plan) -> tuple[str, ...]:
    """Models that the plan's checks read, run or time."""
    named = dict.fromkeys(name for one in plan.checks for name in one.models)
    return tuple(name for name in named if name in plan.spec.models)


def trainings_of(plan: Plan) -> dict[str, Training]:
    """Trainings that the plan's checks read, or that make a model of theirs, by name."""
    parts = plan.spec.datasets
    read = [name for one in plan.checks for name in one.datasets]
    about = [one.check.model for one in plan.checks if one.check.uses_model]
    asked = {name for name in (*models_of(plan), *about) if name in plan.spec.models}
    made = [
        name
        for name, part in parts.items()
        if isinstance(part, CommandTraining) and part.makes in asked and awaited(plan.spec.models[part.makes])
    ]
    named = ((name, parts.get(name)) for name in dict.fromkeys((*read, *made)))
    return {name: part for name, part in named if isinstance(part, Training)}


def _place(check: Check) -> str:
    return f"{check.dimension}: {check.name}"
