"""Language models: what they can be asked for, the examples of their prompts, and tokens that two of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalspec.errors import InputError, Problem
from evalspec.language.header import Header
from evalspec.language.parts import Access, Model, NeedLikelihoods, NeedPredictions, NeedRows
from evalspec.loading.entries import Entry
from evalspec.loading.files import unknown_column
from evalspec.loading.problems import Problems


def check_abilities(problems: Problems, entries: Sequence[Entry], models: Mapping[str, Model]) -> None:
    """A model whose answers or timings a check wants answers rows; one whose likelihoods it wants gives some."""
    for entry in entries:
        name = entry.check.name
        for need in entry.check.needs():
            if isinstance(need, NeedRows):
                continue
            if not isinstance(need, NeedLikelihoods):
                if need.model in models and not models[need.model].answers_rows:
                    kind = models[need.model].kind
                    message = f"{name} needs answers to rows, but {need.model} (kind: {kind}) gives likelihoods only"
                    problems.add(
                        entry.path,
                        Problem(message, remedy="give it `prompt:` and `generate:`, or use it in `likelihood`"),
                    )
                elif isinstance(need, NeedPredictions) and need.model in models:
                    _check_ends(problems, entry, need.model, models[need.model])
                continue
            for asked in (need.model, *([] if need.together is None else [need.together])):
                if asked in models and not models[asked].gives_likelihoods:
                    message = f"{name} needs likelihoods of tokens, and {asked} (kind: {models[asked].kind}) gives none"
                    problems.add(entry.path, Problem(message, remedy="name a model of `kind: transformers`"))


def _check_ends(problems: Problems, entry: Entry, name: str, model: Model) -> None:
    """Answers that go on to a number of tokens are for capacity: nothing can be claimed of what they say."""
    if model.exact_tokens is not None:
        message = (
            f"{entry.check.name} is about the answers of {name}, which always have exactly {model.exact_tokens:,} "
            "tokens whatever they say"
        )
        remedy = "set `max_tokens` instead, or time such answers with a model entry of their own"
        problems.add(entry.path, Problem(message, remedy=remedy))


def check_vocabularies(
    problems: Problems, entries: Sequence[Entry], models: Mapping[str, Model], access: Access
) -> None:
    """Models that are held against each other token by token have the same tokens."""
    known: dict[str, str | None] = {}
    for entry in entries:
        for requirement, other in entry.check.paired_by_token():
            own = entry.check.model
            for name in (own, other):
                if name in models and name not in known:
                    known[name] = _vocabulary(models[name], access)
            first, second = known.get(own), known.get(other)
            if first is not None and second is not None and first != second:
                message = (
                    f"{requirement.metric} counts by token, but {own} and {other} have different tokenizers, so the "
                    "same text has a different number of tokens for each"
                )
                remedy = "require bits_per_byte, which counts bytes"
                problems.add(entry.place(requirement), Problem(message, remedy=remedy))


def _vocabulary(model: Model, access: Access) -> str | None:
    """Digest of a model's tokens; None: it has none, or they can't be read, which is said elsewhere."""
    try:
        return model.vocabulary(access)
    except (InputError, OSError):
        return None


def check_lacking(problems: Problems, entries: Sequence[Entry], models: Mapping[str, Model]) -> None:
    """Each requirement is about something that its models are asked for."""
    for entry in entries:
        for requirement in entry.check.requirements:
            for name in (entry.check.model, requirement.model):
                why = (
                    None if name is None or name not in models else entry.check.missing_from(requirement, models[name])
                )
                if why is not None:
                    problems.add(entry.place(requirement), Problem(f"{why} ({name})"))


def check_shown_apart(problems: Problems, entries: Sequence[Entry], models: Mapping[str, Model]) -> None:
    """No model is asked about the dataset whose rows its prompt shows with their answers."""
    for entry in entries:
        for need in entry.check.needs():
            if isinstance(need, NeedRows | NeedLikelihoods) or need.model not in models:
                continue
            shown = models[need.model].shown_rows
            if shown is not None and shown.dataset == need.dataset:
                message = (
                    f"the prompt of {need.model} shows rows of {need.dataset} with their answers, and is evaluated on "
                    "the same dataset"
                )
                remedy = "evaluate it on other rows, or take the examples from another dataset"
                problems.add(entry.path, Problem(message, remedy=remedy))


def check_shown_rows(problems: Problems, models: Mapping[str, Model], headers: Mapping[str, Header]) -> None:
    """The examples of prompts are there."""
    for name, model in models.items():
        shown = model.shown_rows
        header = None if shown is None else headers.get(shown.dataset)
        if shown is None or header is None:
            continue
        path = ("models", name, "prompt", "shots")
        for column in shown.columns:
            if column not in header.columns:
                problems.add(path, unknown_column(column, shown.dataset, header))
        if header.rows is not None and shown.rows > header.rows:
            message = f"{shown.rows:,} examples are shown and {shown.dataset} has {header.rows:,} rows"
            problems.add((*path, "rows"), Problem(message, remedy=f"set rows: {header.rows}, or add rows"))
