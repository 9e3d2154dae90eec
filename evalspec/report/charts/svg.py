"""Plain SVG: shapes and text at places in pixels, colours as CSS variables; no style, script, link or id."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping

from evalspec.evidence.visible import visible

SVG = "http://www.w3.org/2000/svg"
SHAPES = frozenset({"svg", "g", "path", "line", "circle", "text"})
ATTRIBUTES = frozenset(
    {"d", "x1", "x2", "y1", "y2", "cx", "cy", "r", "transform", "fill", "stroke", "stroke-width", "stroke-dasharray"}
    | {"opacity", "fill-opacity", "text-anchor", "font-size", "font-weight", "viewBox"}
)

Element = ElementTree.Element
Point = tuple[float, float]
Style = Mapping[str, str | float]


def picture(width: float, height: float, title: str) -> Element:
    """An empty picture; its width on the page is the page's affair.

    Args:
        width: In pixels.
        height: In pixels.
        title: What it shows, in words; its name for those who don't see it.
    """
    root = Element("svg", {"xmlns": SVG, "viewBox": f"0 0 {short(width)} {short(height)}"})
    root.set("class", "chart")
    root.set("role", "img")
    ElementTree.SubElement(root, "title").text = visible(title)
    return root


def add(parent: Element, tag: str, attributes: Style, tip: str = "") -> Element:
    """A shape inside of another.

    Args:
        parent: The picture, or a group.
        tag: One of `SHAPES`.
        attributes: Of `ATTRIBUTES`; numbers are written with one decimal at the most.
        tip: Shown on hover.
    """
    written = {name: value if isinstance(value, str) else short(value) for name, value in attributes.items()}
    made = ElementTree.SubElement(parent, tag, written)
    if tip:
        ElementTree.SubElement(made, "title").text = visible(tip)
    return made


def add_text(parent: Element, words: str, at: Point, size: float, fill: str, anchor: str, weight: str = "") -> None:
    """A line of text; ``at`` is the left end, the middle or the right end of its base line, as ``anchor`` says."""
    bold = {"font-weight": weight} if weight else {}
    style: Style = {"font-size": size, "fill": fill, "text-anchor": anchor, "transform": moved(at), **bold}
    add(parent, "text", style).text = words


def moved(at: Point) -> str:
    """A place as a transform."""
    return f"translate({short(at[0])},{short(at[1])})"


def path(points: Iterable[Point], *, closed: bool = False) -> str:
    """Straight lines through points, as the ``d`` of a path."""
    return "M" + "L".join(f"{short(x)},{short(y)}" for x, y in points) + ("Z" if closed else "")


def short(value: float) -> str:
    """A length with one decimal at the most."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def as_text(root: Element) -> str:
    """The picture as it stands in a page."""
    return ElementTree.tostring(root, encoding="unicode")
