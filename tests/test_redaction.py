"""F6: a secret is found in whatever form it is echoed, and nothing else is."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from evalspec.logs import Log, last_line, scrub
from evalspec.redaction import NOTHING, Redaction
from evalspec.runtimes.http_client.readiness import said as http_said
from evalspec.runtimes.http_client.server_timing import durations
from evalspec.runtimes.http_client.wire import Reply

TOKEN = "s3cr3t/Tok+en&42=\"q'"
BEARER = f"Bearer {TOKEN}"
PASSWORD = "pa55:word!"
BASIC = "Basic " + base64.b64encode(f"robert:{PASSWORD}".encode()).decode()
FORMS = {
    "whole": BEARER,
    "without its scheme": TOKEN,
    "small letters": BEARER.lower(),
    "capitals": TOKEN.upper(),
    "JSON": json.dumps(TOKEN)[1:-1],
    "JSON in JSON": json.dumps(json.dumps(TOKEN))[3:-3],
    "JSON with slashes escaped": TOKEN.replace("/", "\\/"),
    "JSON, every letter escaped": "".join(f"\\u{ord(letter):04X}" for letter in TOKEN),
    "Python's repr": repr(TOKEN.encode())[2:-1],
    "URL": quote(TOKEN, safe=""),
    "URL, twice": quote(quote(TOKEN, safe=""), safe=""),
    "form": quote(BEARER, safe=" ").replace(" ", "+"),
    "HTML": html.escape(TOKEN),
    "HTML, numbers": "".join(f"&#{ord(letter)};" for letter in TOKEN),
    "hexadecimal": TOKEN.encode().hex(),
    "HEXADECIMAL": TOKEN.encode().hex().upper(),
    "HTML, names": TOKEN.replace("/", "&sol;").replace("+", "&plus;").replace("=", "&equals;"),
    "HTML, twice": html.escape("".join(f"&#{ord(letter)};" for letter in TOKEN)),
    "old JavaScript": "".join(f"%u{ord(letter):04x}" for letter in TOKEN),
    "JavaScript, Rust": "".join(f"\\u{{{ord(letter):x}}}" for letter in TOKEN),
    "Python, long": "".join(f"\\U{ord(letter):08x}" for letter in TOKEN),
    "base32": base64.b32encode(TOKEN.encode()).decode().rstrip("="),
    "hexadecimal of base64": base64.b64encode(TOKEN.encode()).hex(),
    "two bytes a letter": "\0".join(TOKEN),
    "invisible letters": "\u200b".join(TOKEN),
    "colours": "\x1b[31m".join(TOKEN),
    "old lines": TOKEN[:7] + "\r" + TOKEN[7:],
    "two lines": TOKEN[:7] + "\r\n    " + TOKEN[7:],
    "every letter a line": "\n".join(TOKEN),
}
ONE_BY_ONE = {
    "a buffer of Node": json.dumps(list(TOKEN.encode()))[1:-1],
    "bytes with colons": TOKEN.encode().hex(":"),
    "a dump of bytes": TOKEN.encode().hex(" "),
    "C": ", ".join(f"0x{byte:02x}" for byte in TOKEN.encode()),
    "octal": "".join(f"\\{byte:03o}" for byte in TOKEN.encode())[1:],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_secret_is_replaced(form: str) -> None:
    hidden = Redaction({"TOK": BEARER})
    assert hidden.text(f"bad token {FORMS[form]}, go away") == "bad token [TOK], go away"
    assert hidden.text(f"{FORMS[form]} {FORMS[form]}") == "[TOK] [TOK]"


@pytest.mark.parametrize("form", ONE_BY_ONE)
def test_letters_said_one_by_one(form: str) -> None:
    hidden = Redaction({"TOK": BEARER})
    assert hidden.text(f"bad token ({ONE_BY_ONE[form]}), go away") == "bad token ([TOK]), go away"
    assert hidden.text(f"{ONE_BY_ONE[form]}; or {ONE_BY_ONE[form]}") == "[TOK]; or [TOK]"


@pytest.mark.parametrize("again", [TOKEN.encode().hex(), base64.b64encode(TOKEN.encode()).decode()])
def test_base64_of_what_was_encoded_before(again: str) -> None:
    left = Redaction({"TOK": BEARER}).text(base64.b64encode(f"token {again}".encode()).decode())
    assert "[TOK]" in left and len(left) < 24


@pytest.mark.parametrize("numbers", [[115, 51, 99], [900, 77, *range(9)], [0.25] * 9, list(range(99))])
def test_other_numbers_stay_as_they_are(numbers: list[float]) -> None:
    assert Redaction({"TOK": BEARER}).text(json.dumps(numbers)) == json.dumps(numbers)


@pytest.mark.parametrize("before", range(250, 301))
def test_a_secret_that_a_sentence_would_cut_through(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """F6: of a secret that is cut through the first half would be kept."""
    monkeypatch.setenv("TOK", BEARER)
    said = http_said(Reply(401, {}, f"{'x' * before} {TOKEN}".encode()), Redaction.of(["TOK"]))
    assert TOKEN[:4] not in said


def test_a_secret_that_a_header_is_cut_through() -> None:
    """F6: the words of a Server-Timing that can't be read are shortened too."""
    header = f"total;desc={'x' * 40}{TOKEN};dur=late".encode()
    assert all(TOKEN[:4] not in words for words in durations(header, Redaction({"TOK": BEARER})).unread)


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("altchars", [b"+/", b"-_"])
def test_its_base64_is_found_inside_of_a_longer_one(before: int, altchars: bytes) -> None:
    said = base64.b64encode(b"x" * before + TOKEN.encode() + b"yz", altchars=altchars).decode()
    left = Redaction({"TOK": BEARER}).text(f"data:{said};")
    assert "[TOK]" in left
    kept = "".join(left.split("[TOK]"))
    # Letters at its edges hold bits of what stands beside it too.
    assert len(kept) <= len("data:;") + 4 * -(-before // 3) + 8


@pytest.mark.parametrize("said", [f"robert:{PASSWORD}", PASSWORD, BASIC, BASIC[6:], quote(PASSWORD, safe="")])
def test_user_and_password_of_basic_authentication(said: str) -> None:
    assert Redaction({"TOK": BASIC}).text(f"<{said}>") == "<[TOK]>"


def test_parts_of_a_cookie() -> None:
    hidden = Redaction({"TOK": "session=abcdef1234; theme=dark; id=zzzz9999"})
    assert hidden.text("no session abcdef1234 (zzzz9999) in dark") == "no session [TOK] ([TOK]) in dark"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "an accuracy of 98 %",
        "a\\u0041b %41 &amp; \r\n",
        "Bearer",
        "s3cr3t",
        "İstanbul ß " * 3,
        "\\\\\\",
        "%",
        "&#;",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert Redaction({"TOK": BEARER}).text(text) == text


@pytest.mark.parametrize("before", ["İİİ ", "\\u00e4\\n", "&amp;&lt; ", "\n\n"])
def test_it_is_found_at_its_place(before: str) -> None:
    assert Redaction({"TOK": BEARER}).text(f"{before}{TOKEN}{before}") == f"{before}[TOK]{before}"


def test_values_of_json_with_their_keys() -> None:
    hidden = Redaction({"TOK": BEARER})
    said = {f"told:{TOKEN}": [1, 2.5, None, True, (TOKEN,)], "b": {"c": f"x {BEARER}"}}
    assert hidden.value(said) == {"told:[TOK]": [1, 2.5, None, True, ("[TOK]",)], "b": {"c": "x [TOK]"}}


def test_two_secrets_and_those_that_are_too_short() -> None:
    hidden = Redaction({"A": "first-secret", "B": "second-secret", "C": "short"})
    assert hidden.text("first-secret second-secret short") == "[A] [B] short"
    assert not Redaction({"C": "short"}) and not NOTHING


def test_they_are_read_from_the_environment() -> None:
    hidden = Redaction.of(["TOK", "GONE"], {"TOK": BEARER, "OTHER": "something", "HF_TOKEN": "hf_abcdefgh"})
    assert hidden.text(f"{TOKEN} something hf_abcdefgh") == "[TOK] something [HF_TOKEN]"


def test_pieces_of_a_log_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(path, Redaction({"TOK": BEARER}))
    with log.opened() as file:
        for piece in (
            "one ",
            TOKEN[:3],
            TOKEN[3:8],
            f"{TOKEN[8:]} two\n",
            "x" * 100_000,
            TOKEN[:9],
            f"\n{TOKEN[9:]}\nend",
        ):
            file.write(piece.encode())
    log.finish()
    assert path.read_text() == f"one [TOK] two\n{'x' * 100_000}[TOK]\nend"
    assert last_line(path) == "end"


def test_a_whole_log_is_looked_through_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xff\n" + TOKEN.encode() + b"\n")
    scrub(path, Redaction({"TOK": BEARER}))
    assert path.read_bytes() == b"\xff\n[TOK]\n"
