"""Items of the spec's profile and their answers, as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalspec.evidence.profile import RequestedItem
from evalspec.evidence.record import Record
from evalspec.report.checks import CheckView, Section
from evalspec.report.words import Badge, badge
from evalspec.verdict.profile import as_run, holding


@dataclass(frozen=True, slots=True)
class AskedView:
    """One item.

    Args:
        asks: What it asks for.
        why: Why, and where that is from.
        badge: That it is missing; None: something answers it.
        checks: Those that answer it.
        stated: Keys of the spec that answer it.
    """

    asks: str
    why: str
    badge: Badge | None
    checks: tuple[CheckView, ...]
    stated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfileView:
    """A profile: its items, those that are missing first."""

    name: str
    about: str
    digest: str
    rows: tuple[AskedView, ...]


def profile_view(record: Record, parts: Sequence[Section]) -> ProfileView | None:
    """The profile of a record; None: its spec names none."""
    profile = as_run(record)
    if profile is None:
        return None
    checks = {check.id: check for part in parts for check in part.checks}
    aside = holding(record)
    asked = sorted(profile.asked, key=lambda one: (bool(one.found), not one.mandatory))
    rows = tuple(_view(one, checks, aside=one.name in aside) for one in asked)
    return ProfileView(profile.name, profile.about, profile.digest[:12], rows)


def _view(one: RequestedItem, checks: Mapping[str, CheckView], *, aside: bool) -> AskedView:
    extra = "" if one.mandatory and not aside else "set aside" if one.mandatory else "recommended"
    return AskedView(
        asks=one.wanted,
        why=f"{one.why} ({one.source})" if one.source else one.why,
        badge=None if one.found else badge("NOT_RUN", extra),
        checks=tuple(checks[name] for name in one.found if name in checks),
        stated=tuple(f"{name}:" for name in one.found if name not in checks),
    )
