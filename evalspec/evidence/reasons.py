"""Whose doing it is that a measurement is inadmissible, and what kind of doubt keeps one from passing."""

from __future__ import annotations


class BySurroundings(str):
    """A reason for INVALID that lies outside of the system, of the spec and of the data: the machine was busy.

    Other work, stolen time, or a load generator of ours that was kept waiting. What such a reason voids may be measured
    again; every other reason would come back, or hide what the system does.
    """

    __slots__ = ()


class OnlyWorse(BySurroundings):
    """A disturbance that can only have made the number that it stands beside worse.

    Other work on the machine can make a latency longer, never shorter. So a requirement that was shown to hold in spite
    of it stands, with a note; everything else that it may have spoilt is void.
    """

    __slots__ = ()


class EasedOff(BySurroundings):
    """A disturbance that grew less while something was measured: it may have hidden what the system does in time.

    Latency that rises, beside other work that ends, looks steady. So what was shown to hold does not stand either.
    """

    __slots__ = ()


class NoEvidence(str):
    """A reason to withhold a PASS that is a want of evidence, not a doubt about it: no policy lets it pass.

    A part of the rows, or of what had to be looked at, could not be judged at all.
    """

    __slots__ = ()


def either_way(reason: str | None) -> str | None:
    """A disturbance, for a number that it may have helped, such as a ratio; any other reason stays as it is."""
    return BySurroundings(reason) if isinstance(reason, OnlyWorse) else reason


def beginning(start: str, reason: str) -> str:
    """A reason with more before it, of the same kind."""
    return type(reason)(f"{start}{reason}")


def gravest(*reasons: str | None) -> str | None:
    """Of reasons for INVALID the one that voids most; None: there is none.

    One that may not be measured again, then one that may have helped, then one that can only have hurt.
    """
    given = [one for one in reasons if one is not None]
    return min(given, key=lambda one: (isinstance(one, BySurroundings), isinstance(one, OnlyWorse)), default=None)


def only_worse(reason: str | None) -> str | None:
    """A disturbance, for a number that it can only have made worse; any other reason stays as it is."""
    return OnlyWorse(reason) if isinstance(reason, BySurroundings) and not isinstance(reason, EasedOff) else reason
