"""Text of a PDF as Chromium writes it: glyphs of each page, by the maps of its fonts, without a library."""

from __future__ import annotations

import re
import unicodedata
import zlib

_OBJECT = re.compile(rb"(\d+) 0 obj(.*?)endobj", re.DOTALL)
_SHOWN = re.compile(rb"/(\w+) [\d.]+ Tf|(<[0-9A-Fa-f\s]*>)")


def text_of(pdf: bytes) -> str:
    """All text of a PDF in the order in which it is drawn, without white space.

    Args:
        pdf: Bytes of the file.
    """
    objects = {int(found[1]): found[2] for found in _OBJECT.finditer(pdf)}
    # What is turned, such as a head that stands upright, is a form of its own.
    drawn = [body for body in objects.values() if re.search(rb"/Type\s*/Page\b|/Subtype\s*/Form\b", body)]
    # A ligature is the letters that it is made of.
    text = unicodedata.normalize("NFKC", "".join(_page(body, objects) for body in drawn))
    return "".join(text.split())


def pages_of(pdf: bytes) -> int:
    """Number of its pages."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def _page(body: bytes, objects: dict[int, bytes]) -> str:
    fonts = {
        name: _letters(int(number), objects)
        for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", _resources(body, objects))
    }
    contents = re.search(rb"/Contents (\d+) 0 R", body)
    found, letters = [], dict[int, str]()
    for font, glyphs in _SHOWN.findall(_stream(body if contents is None else objects[int(contents[1])])):
        if font:
            letters = fonts.get(font, {})
            continue
        digits = b"".join(glyphs[1:-1].split())
        found += [letters.get(int(digits[at : at + 4], 16), "") for at in range(0, len(digits) - 3, 4)]
    return "".join(found)


def _resources(body: bytes, objects: dict[int, bytes]) -> bytes:
    elsewhere = re.search(rb"/Resources (\d+) 0 R", body)
    return body if elsewhere is None else objects[int(elsewhere[1])]


def _letters(font: int, objects: dict[int, bytes]) -> dict[int, str]:
    """Glyph of a font: its letters."""
    place = re.search(rb"/ToUnicode (\d+) 0 R", objects[font])
    if place is None:
        return {}
    found = dict[int, str]()
    table = _stream(objects[int(place[1])])
    for section in re.findall(rb"beginbfchar(.*?)endbfchar", table, re.DOTALL):
        for glyph, letters in re.findall(rb"<(\w+)> <(\w+)>", section):
            found[int(glyph, 16)] = bytes.fromhex(letters.decode()).decode("utf-16-be")
    for section in re.findall(rb"beginbfrange(.*?)endbfrange", table, re.DOTALL):
        for first, last, letters in re.findall(rb"<(\w+)> <(\w+)> <(\w+)>", section):
            text = bytes.fromhex(letters.decode()).decode("utf-16-be")
            for step in range(int(last, 16) - int(first, 16) + 1):
                found[int(first, 16) + step] = text[:-1] + chr(ord(text[-1]) + step)
    return found


def _stream(body: bytes) -> bytes:
    """Bytes of an object's stream."""
    start = re.search(rb"stream\r?\n", body)
    size = re.search(rb"/Length (\d+)", body)
    assert start is not None and size is not None
    content = body[start.end() : start.end() + int(size[1])]
    return zlib.decompress(content) if b"/FlateDecode" in body[: start.start()] else content
