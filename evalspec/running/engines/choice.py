"""The engine that a run names: processes of this machine, or a cluster and its address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evalspec.errors import Problem, SpecError

MOST_CHILDREN = 64
"""Children that may look at leaves at once."""
RAY_ADDRESS = "RAY_ADDRESS"
CHOICES = ("local", "local:2", "ray", "ray:HOST:PORT", "dask:HOST:PORT")


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine.

    Args:
        name: ``local``, ``ray`` or ``dask``.
        children: Of ``local``, that look at leaves at once; 1: none does, the process of the check looks at all.
        address: Of a cluster: ``HOST:PORT``; empty for ``local``.
    """

    name: str = "local"
    children: int = 1
    address: str = ""

    @property
    def apart(self) -> bool:
        """True where leaves are looked at by other processes than that of the check."""
        return bool(self.address) or self.children > 1

    @property
    def host(self) -> str:
        """The host of the address, without brackets."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def words(self) -> str:
        """The engine, for a sentence."""
        return f"{self.name} at {self.address}" if self.address else f"{self.children} children"

    @property
    def scans(self) -> str:
        """The beginning of a sentence about what it scans."""
        return f"{self.words} {'scans' if self.address else 'scan'}"


LOCAL = EngineChoice()


def engine_named(text: str, variables: Mapping[str, str]) -> EngineChoice:
    """The engine that ``--engine`` names.

    Args:
        text: Its value.
        variables: Of the environment.

    Raises:
        SpecError: It is none, or has no address.
    """
    name, colon, rest = text.partition(":")
    if name == "local" and (not colon or _is_count(rest)):
        return EngineChoice(children=int(rest) if colon else 1)
    if name == "ray" and not colon:
        return EngineChoice("ray", address=_ray_address(variables.get(RAY_ADDRESS, "")))
    if name in ("ray", "dask") and _is_address(rest):
        return EngineChoice(name, address=rest)
    raise SpecError(
        Problem(
            f"--engine {text!r} is not an engine",
            choices=CHOICES,
            remedy=f"name how many processes scan large datasets, from 1 to {MOST_CHILDREN}, or a cluster's address",
        )
    )


def check_host(choice: EngineChoice, hosts: Iterable[str]) -> None:
    """Stop where a cluster is not this machine's own and was not allowed; nothing is looked up.

    Raises:
        SpecError: It was not.
    """
    from evalspec.language.places import is_loopback

    if choice.address and not is_loopback(choice.host) and choice.host not in hosts:
        raise SpecError(
            Problem(
                f"the engine {choice.words} is on a different machine, and its nodes would read the datasets",
                remedy=f"pass --allow-host {choice.host} if this is intended",
            )
        )


def _ray_address(told: str) -> str:
    if _is_address(told):
        return told
    said = f"{RAY_ADDRESS} is {told!r}, not HOST:PORT" if told else f"{RAY_ADDRESS} is not set"
    remedy = "name the address of the cluster's head node, such as ray:127.0.0.1:6379"
    if told.startswith("ray://"):
        remedy = f"run evalspec on a node of the cluster and {remedy}; ray:// is not supported"
    raise SpecError(Problem(f"--engine ray has no address: {said}", remedy=remedy))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_CHILDREN


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    is_host = bool(host) and not any(one in host for one in "/@ \t\n\0") and (":" not in host or host[0] == "[")
    return is_host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536
