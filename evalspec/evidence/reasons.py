"""Whose doing it is that a measurement is inadmissible."""

from __future__ import annotations


class BySurroundings(str):
    """A reason for INVALID that lies outside of the system, of the spec and of the data: the machine was busy.

    Other work, stolen time, or a load generator of ours that was kept waiting. What such a reason voids may be measured
    again; every other reason would come back, or hide what the system does.
    """

    __slots__ = ()
