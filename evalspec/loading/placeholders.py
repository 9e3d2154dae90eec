"""Texts that ``init`` writes for somebody to replace, and that a spec still has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources

from evalspec.evidence.policy import Waiver
from evalspec.evidence.profile import Without
from evalspec.loading.spec import Spec

OWNER = "me@example.com"
MARK = "Say "
"""Beginning of each reason that is to be replaced."""
_REASON = re.compile(rf"\bwhy: ({MARK}[^\n]+?\.?)(?=, owner:|\n)")


def placeholders(spec: Spec) -> Iterator[str]:
    """Sentences: which of them stand in a spec, and what to write instead."""
    if MARK not in spec.text and OWNER not in spec.text:
        return
    reasons = _reasons()
    for check in spec.checks:
        if check.why in reasons:
            yield f"{check.name}: `why` is still the text of `init`; write what goes wrong, or remove it"
        if check.owner == OWNER:
            yield f"{check.name}: `owner: {OWNER}` is still the example; write who is responsible"
    aside: tuple[tuple[str, Sequence[Waiver | Without]], ...] = (("waivers", spec.waivers), ("without", spec.without))
    for name, entries in aside:
        for index, entry in enumerate(entries):
            if entry.why in reasons:
                yield f"{name}[{index}]: `why` is still the text of `init`; write why {entry.of} is set aside"
            if entry.owner == OWNER:
                yield f"{name}[{index}]: `owner: {OWNER}` is still the example; write who is responsible"


@cache
def _reasons() -> frozenset[str]:
    """Every reason in the templates that is to be replaced."""
    folder = resources.files("evalspec.loading")
    files = [folder.joinpath("template.yaml"), *folder.joinpath("starts").iterdir()]
    return frozenset(text for file in files for text in _REASON.findall(file.read_text(encoding="utf-8")))
