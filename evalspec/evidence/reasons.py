"""Why a measurement is inadmissible or may not pass: reasons with their causes, by whose doing it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Cause(StrEnum):
    """Causes of reasons, alike for every number that they spoil: one thing to do about all of them."""

    OTHER_WORK = "other work on the machine"
    STOLEN_TIME = "processor time taken by the hypervisor"
    SHARED_GPU = "other work on the GPU"
    LOAD_GENERATOR = "a load generator that was late"
    BUSY_CLIENT = "a client that could send no faster"
    FEW_CONNECTIONS = "connections that were all busy"
    SCHEDULE = "a schedule that was not kept"
    CUT_SHORT = "fewer measurements than planned"
    CACHE = "answers from a cache"
    NO_AUDIT = "no audit for caching"
    FAILED_QUERIES = "queries that failed"
    OVERLOAD = "more queries than are answered"
    NO_STEADY_STATE = "no steady state"
    UNSTABLE = "an unstable run"
    TOKEN_COUNTS = "counts of tokens that differ"
    NO_TOKEN_TIME = "answers without a time by token"


class Reason(str):
    """Why a number does not count, or may not pass: a sentence for people, and its cause for programs.

    A string, so that it stands wherever a reason in words does.
    """

    __slots__ = ("cause",)

    cause: str
    """A `Cause`, or a noun of an extension's own; empty: none is known, and the sentence stands for itself."""

    def __new__(cls, text: str, cause: str = "") -> Self:
        """The sentence, without a full stop; and its cause."""
        reason = super().__new__(cls, text)
        reason.cause = str(cause)
        return reason


class BySurroundings(Reason):
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


class NoEvidence(Reason):
    """A reason to withhold a PASS that is a want of evidence, not a doubt about it: no policy lets it pass.

    A part of the rows, or of what had to be looked at, could not be judged at all.
    """

    __slots__ = ()


def either_way(reason: str | None) -> str | None:
    """A disturbance, for a number that it may have helped, such as a ratio; any other reason stays as it is."""
    return BySurroundings(reason, reason.cause) if isinstance(reason, OnlyWorse) else reason


def beginning(start: str, reason: str) -> str:
    """A reason with more before it, of the same kind and cause."""
    text = f"{start}{reason}"
    return type(reason)(text, reason.cause) if isinstance(reason, Reason) else text


def cause_of(*reasons: str | None) -> str:
    """The cause of the first reason that is given; empty: it names none."""
    first = next((one for one in reasons if one is not None), None)
    return first.cause if isinstance(first, Reason) else ""


def gravest(*reasons: str | None) -> str | None:
    """Of reasons for INVALID the one that voids most; None: there is none.

    One that may not be measured again, then one that may have helped, then one that can only have hurt.
    """
    given = [one for one in reasons if one is not None]
    return min(given, key=lambda one: (isinstance(one, BySurroundings), isinstance(one, OnlyWorse)), default=None)


def only_worse(reason: str | None) -> str | None:
    """A disturbance, for a number that it can only have made worse; any other reason stays as it is."""
    if not isinstance(reason, BySurroundings) or isinstance(reason, EasedOff):
        return reason
    return OnlyWorse(reason, reason.cause)
