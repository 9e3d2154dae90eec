"""Charts drawn elsewhere, cut down to what a page needs: nothing but shapes and text, colours as CSS variables."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence

from evalspec.evidence.visible import visible

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = frozenset({"svg", "g", "path", "line", "rect", "circle", "text", "tspan"})
ATTRIBUTES = frozenset(
    {"d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "transform", "fill", "stroke"}
    | {"stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "fill-opacity", "stroke-opacity"}
    | {"text-anchor", "font-size", "font-weight", "viewBox"}
)
GEOMETRY = frozenset({"d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "transform"})
_LONG = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?")


def clean_svg(source: str, *, title: str, tips: Mapping[str, Sequence[str]] | None = None) -> str:
    """An SVG document as one titled picture for a page.

    Only shapes, text and their geometry are kept: no style, script, link, font, role or id gets through.

    Args:
        source: The document.
        title: What the picture shows, in words; its name for those who don't see it.
        tips: By the class of a group of marks (``layer_2_marks``): a text for each mark, shown on hover.

    Returns:
        The ``svg`` element. Its width is the page's affair.
    """
    root = ElementTree.fromstring(source)  # made by our own chart library, not by data
    _clean(root, tips or {})
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.set("class", "chart")
    root.set("role", "img")
    name = ElementTree.Element(f"{SVG}title")
    name.text = visible(title)
    root.insert(0, name)
    ElementTree.register_namespace("", SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _clean(element: ElementTree.Element, tips: Mapping[str, Sequence[str]]) -> None:
    classes = element.get("class", "").split()
    texts = next((tips[name] for name in classes if name in tips), ())
    for child in list(element):
        if _is_empty(child):
            element.remove(child)
        else:
            _clean(child, tips)
            if child.tag == f"{SVG}g" and not len(child):
                element.remove(child)
    for child, text in zip(list(element), texts, strict=False):
        tip = ElementTree.SubElement(child, f"{SVG}title")
        tip.text = visible(text)
    kept = {
        name: _shorter(value) if name in GEOMETRY else value
        for name, value in element.attrib.items()
        if name in ATTRIBUTES
    }
    if kept.get("opacity") == "1":
        del kept["opacity"]
    element.attrib.clear()
    element.attrib.update(kept)


def _is_empty(element: ElementTree.Element) -> bool:
    """Nothing of it would be seen, or it is nothing that belongs in a picture."""
    if element.tag.removeprefix(SVG) not in SHAPES or element.get("display") == "none":
        return True
    background = element.get("class") in ("background", "foreground")
    return background and not element.get("fill") and not element.get("stroke")


def _shorter(value: str) -> str:
    return _LONG.sub(lambda found: f"{float(found.group()):.1f}".removesuffix(".0"), value)
