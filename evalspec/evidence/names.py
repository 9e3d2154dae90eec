"""How a requirement is named in a record: ``<check id>/<metric>[(part)][ vs <model>]``, or ``profile/<item>``."""

from __future__ import annotations

AGAINST = " vs "


def template_name(place: int) -> str:
    """Name of a template of a model's prompt, by its place in the list."""
    return f"template {place + 1}"


def with_part(quantity: str, part: str) -> str:
    """``<metric>(<part>)``, or of a quantity that has one ``<metric>(<its part>, <part>)``."""
    return f"{quantity[:-1]}, {part})" if part_of(quantity) else f"{quantity}({part})"


def owner_of(name: str) -> str:
    """The check that a requirement belongs to, or ``profile``."""
    return name.partition("/")[0]


def asked_of(name: str) -> str:
    """A requirement's name without its check: ``<metric>[(part)][ vs <model>]``, or the item of a profile."""
    return name.partition("/")[2]


def quantity_of(name: str, against: str | None = None) -> str:
    """The quantity that a requirement is about, ``<metric>[(part)]``, as it is called in `CheckRecord.measured`.

    Args:
        name: Of the requirement.
        against: The model that it is compared with; None: none.
    """
    asked = asked_of(name)
    return asked if against is None else asked.removesuffix(f"{AGAINST}{against}")


def part_of(quantity: str) -> str:
    """The part of ``<metric>(<part>)``; empty: there is none."""
    return quantity[quantity.index("(") + 1 : -1] if "(" in quantity and quantity.endswith(")") else ""


def metric_of(quantity: str) -> str:
    """The metric of ``<metric>[(part)]``."""
    return quantity.partition("(")[0]
