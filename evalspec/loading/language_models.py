"""Models that give likelihoods: asked for nothing else, and held by token only against models of the same tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalspec.errors import InputError, Problem
from evalspec.language.parts import Access, Model, NeedLikelihoods, NeedRows
from evalspec.loading.entries import Entry
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
                    message = f"{name} needs answers to rows, and {need.model} (kind: {kind}) gives likelihoods only"
                    problems.add(
                        entry.path,
                        Problem(message, remedy="give it `prompt:` and `generate:`, or ask it in `likelihood`"),
                    )
                continue
            for asked in (need.model, *([] if need.together is None else [need.together])):
                if asked in models and not models[asked].gives_likelihoods:
                    message = f"{name} needs likelihoods of tokens, and {asked} (kind: {models[asked].kind}) gives none"
                    problems.add(entry.path, Problem(message, remedy="name a model of `kind: transformers`"))


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
                    f"{requirement.metric} counts by token, and {own} and {other} have other tokenizers: the same text "
                    "is another number of tokens to each"
                )
                remedy = "require bits_per_byte, which counts bytes"
                problems.add(entry.place(requirement), Problem(message, remedy=remedy))


def _vocabulary(model: Model, access: Access) -> str | None:
    """Digest of a model's tokens; None: it has none, or they can't be read, which is said elsewhere."""
    try:
        return model.vocabulary(access)
    except (InputError, OSError):
        return None
