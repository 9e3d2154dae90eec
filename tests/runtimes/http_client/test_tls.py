"""https: whom it is spoken with, what a certificate that is not trusted does, and when the handshake is done."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from evalspec.clocks import now_ns
from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.language.timings import ANSWERED, NOT_CONNECTED
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.connection import Connection
from evalspec.runtimes.http_client.open_loop import Client
from evalspec.runtimes.http_client.pool import Outcome
from evalspec.runtimes.http_client.process import ServerProcess, check_free
from evalspec.runtimes.http_client.wire import HttpError, parse_url, request_bytes
from tests.runtimes.environments import free_ports
from tests.runtimes.http_client.test_closed_loop import offline
from tests.runtimes.http_client.test_faults import FAULTS, X, client, counts, infer_only, open_loop
from tests.runtimes.servers import Answer, Request, answer, linear, serving

HOUR_NS = 3600 * 10**9
OIP: dict[str, Any] = {"kind": "http", "model_name": "m", "outputs": {"value": "s"}}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    """Of a server on loopback."""
    return _of_server(authority, "127.0.0.1", "localhost")


@pytest.fixture
def ca(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


def _of_server(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


# -- whom it is spoken with ------


def test_a_server_is_asked_over_https(tls: ssl.SSLContext, ca: Path, tmp_path: Path) -> None:
    with serving(tls=tls) as server, client(server, tmp_path, ca=ca.name) as rows:
        assert server.url.startswith("https://")
        assert str(rows.loaded.observed["encryption"]).startswith("TLSv1.")
        answers = rows.answers(rows.serve(rows.take(np.arange(5))))
    np.testing.assert_allclose(answers, X[:5].sum(axis=1, dtype=np.float64), rtol=1e-5)


def test_a_certificate_that_a_server_has_signed_itself_is_trusted_where_it_is_named(tmp_path: Path) -> None:
    own = _signed_by_itself(tmp_path)
    with serving(tls=own) as server, client(server, tmp_path, ca="self.pem") as rows:
        rows.serve(rows.take(np.arange(2)))
    with serving(tls=own) as server, pytest.raises(InputError, match="self-signed"), client(server, tmp_path):
        pass


def _signed_by_itself(folder: Path) -> ssl.SSLContext:
    """A server with a certificate for 127.0.0.1 that no authority knows; the certificate lies in self.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "self.pem").write_bytes(certificate.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(certificate.public_bytes(pem) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return context


@pytest.mark.parametrize("stated", [True, False], ids=["another authority", "the system's own"])
def test_a_certificate_that_is_not_trusted_is_refused(stated: bool, tls: ssl.SSLContext, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    said = r"certificate of https://127.0.0.1:\d+ is not trusted: .*(self-signed|local issuer)"
    with (
        serving(tls=tls) as server,
        pytest.raises(InputError, match=said),
        client(server, tmp_path, **({"ca": "other.pem"} if stated else {})),
    ):
        pass
    assert server.requests == 0


def test_a_certificate_for_another_name_is_refused(authority: trustme.CA, ca: Path, tmp_path: Path) -> None:
    with (
        serving(tls=_of_server(authority, "models.example.com")) as server,
        pytest.raises(InputError, match=r"not trusted: .*127\.0\.0\.1"),
        client(server, tmp_path, ca=ca.name),
    ):
        pass
    assert server.requests == 0


def test_nothing_switches_verification_off(tmp_path: Path, ca: Path) -> None:
    for fields in ({}, {"ca": ca.name}):
        trusted = Http.model_validate(OIP | {"url": "https://127.0.0.1:1"} | fields).trusted(Access(tmp_path))
        assert trusted is not None
        assert trusted.verify_mode == ssl.CERT_REQUIRED and trusted.check_hostname
    assert Http.model_validate(OIP | {"url": "http://127.0.0.1:1"}).trusted(Access(tmp_path)) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.pem", "no file or folder"),
        ("text.pem", "holds no readable certificate"),
        ("../ca.pem", "outside the spec's"),
    ],
)
def test_a_file_that_is_no_authority_is_named_before_anything_is_asked(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("no readable certificate")
    (tmp_path.parent / "ca.pem").write_text("")
    model = Http.model_validate(OIP | {"url": "https://127.0.0.1:1", "ca": name})
    with pytest.raises(InputError, match=words):
        model.files(Access(tmp_path))


def test_a_server_that_speaks_no_https_is_named(ca: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        thread = threading.Thread(target=_refuse_once, args=(plain,))
        thread.start()
        model = Http.model_validate(OIP | {"url": f"https://127.0.0.1:{plain.getsockname()[1]}", "ca": ca.name})
        with pytest.raises(InputError, match=r"https does not work with https://127.0.0.1:\d+: "):
            model.load(Access(tmp_path))
        thread.join(timeout=10)


def _refuse_once(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    connection.close()


def test_ports_and_names() -> None:
    assert (parse_url("https://h").port, parse_url("http://h").port) == (443, 80)
    assert str(parse_url("https://h:1/p")) == "https://h:1/p"
    assert not parse_url("http://h").secure and parse_url("https://h").secure


def test_an_address_is_taken_whoever_answers_there(authority: trustme.CA, tls: ssl.SSLContext) -> None:
    """A server is in the way of another one whether or not its certificate is trusted."""
    with serving(tls=tls) as server:
        model = Http.model_validate(OIP | {"url": server.url, "start": ["python"]})
        with pytest.raises(InputError, match="a different server already answers"):
            check_free("m", model)


# -- one connection ------


def test_a_handshake_that_does_not_end_is_given_up(authority: trustme.CA) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = parse_url(f"https://127.0.0.1:{silent.getsockname()[1]}")
        one = Connection(address, 0.2, trusting(authority))
        with pytest.raises(HttpError, match="timed out") as error:
            one.open(0.2)
        one.close()
    assert error.value.outcome == NOT_CONNECTED


def test_a_connection_that_the_server_closed_is_opened_again(authority: trustme.CA, tls: ssl.SSLContext) -> None:
    def last(request: Request) -> Answer:
        return answer(200, {}, close=True)

    with serving(last, tls) as server:
        one = Connection(parse_url(server.url), 5.0, trusting(authority))
        for _ in range(3):
            assert one.ask(request_bytes(one.address, "/", {}, b"{}")).status == 200
        one.close()
    assert server.seen == ["handshake", "/"] * 3


# -- many connections ------


@pytest.mark.proof
def test_handshakes_come_before_what_is_timed(tls: ssl.SSLContext, ca: Path, tmp_path: Path) -> None:
    """All of them, in an open loop and in a closed one; and no connection is opened twice."""
    with serving(tls=tls) as server, client(server, tmp_path, ca=ca.name) as rows:
        before = len(server.seen)
        samples = open_loop(rows, tmp_path, 40, 400.0, connections=6)
        between = len(server.seen)
        more = offline(rows, tmp_path, queries=40, connections=5)
        seen = server.seen
    assert counts(samples) == counts(more) == {"answered": 40}
    for part, found, connections in ((seen[before:between], samples, 6), (seen[between:], more, 5)):
        assert part[:connections] == ["handshake"] * connections
        assert part.count("handshake") == connections
        assert found.details["connections_open_at_start"] == connections
        assert found.details["connections_opened_again"] == 0


@pytest.mark.proof
def test_connections_that_are_fresh_each_time_pay_for_their_handshake(
    tls: ssl.SSLContext, ca: Path, tmp_path: Path
) -> None:
    """A server that keeps none makes each query wait for one: that wait is in its latency, and is counted."""

    def last(request: Request) -> Answer:
        whole = linear(request)
        assert isinstance(whole, bytes)
        return whole.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)

    with serving(last, tls) as server, client(server, tmp_path, ca=ca.name) as rows:
        samples = open_loop(rows, tmp_path, 20, 100.0, connections=2)
    assert counts(samples) == {"answered": 20}
    assert samples.details["connections_opened_again"] == 18
    assert server.seen.count("handshake") >= 20


def test_large_requests_and_answers_pass_in_pieces(authority: trustme.CA, tls: ssl.SSLContext) -> None:
    body = np.random.default_rng(0).bytes(3_000_000)

    def large(request: Request) -> Answer:
        assert request.body == body
        return answer(200, body)

    with serving(large, tls) as server:
        address = parse_url(server.url)
        one = Client(address, 2, HOUR_NS, trusting(authority))
        assert one.open(10.0) == 2
        found: dict[int, Outcome] = {}
        assert one.run([request_bytes(address, "/", {}, body)] * 4, [now_ns()] * 4, found.__setitem__)
        one.close()
    for outcome in found.values():
        assert outcome.outcome == ANSWERED and outcome.reply is not None
        assert outcome.reply.body == body
        assert outcome.sent_ns <= outcome.first_ns <= outcome.end_ns


@pytest.mark.proof
@pytest.mark.parametrize("fault", ["reset", "closed without an answer", "half a body", "no HTTP", "slow loris", "NaN"])
def test_faults_have_the_names_that_they_have_over_http(
    fault: str, tls: ssl.SSLContext, ca: Path, tmp_path: Path
) -> None:
    handle, outcome = FAULTS[fault]
    with serving(infer_only(handle), tls) as server, client(server, tmp_path, ca=ca.name) as rows:
        samples = open_loop(rows, tmp_path, 30, 200.0, timeout_s=0.25, connections=40)
    assert counts(samples) == {outcome: 30}


def test_a_query_whose_handshake_does_not_end_was_not_connected(authority: trustme.CA) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = parse_url(f"https://127.0.0.1:{silent.getsockname()[1]}")
        one = Client(address, 1, 200_000_000, trusting(authority))
        assert one.open(0.05) == 0
        found: dict[int, Outcome] = {}
        one.run([request_bytes(address, "/", {}, b"")], [now_ns()], found.__setitem__)
        one.close()
    assert found[0].outcome == NOT_CONNECTED and found[0].sent_ns == 0


def test_a_server_that_turns_untrusted_is_not_connected(authority: trustme.CA, tls: ssl.SSLContext) -> None:
    """It dies, and another one with a certificate of somebody else listens in its place."""
    with serving(tls=tls) as first:
        address = parse_url(first.url)
        one = Client(address, 1, HOUR_NS, trusting(authority))
        assert one.open(5.0) == 1
    foreign = _of_server(trustme.CA(), "127.0.0.1")
    with socket.create_server(("127.0.0.1", address.port)) as listener:
        thread = threading.Thread(target=_shake_once, args=(listener, foreign))
        thread.start()
        one.open(5.0)
        thread.join(timeout=10)
    assert one.open(0.1) == 0
    one.close()


def _shake_once(listener: socket.socket, tls: ssl.SSLContext) -> None:
    connection, _ = listener.accept()
    with pytest.raises(ssl.SSLError):
        tls.wrap_socket(connection, server_side=True).recv(1)
    connection.close()


def test_samples_are_read_back(tls: ssl.SSLContext, ca: Path, tmp_path: Path) -> None:
    from evalspec.language.inputs import Schedule

    with serving(tls=tls) as server, client(server, tmp_path, ca=ca.name, binary=True) as rows:
        session = Session(rows, Schedule("single_stream", queries=12, warmup_s=0.0), tmp_path / "s")
        session.warm_up()
        session.block(0, 12, 0.0)
        samples = read_samples(tmp_path / "s", model="m", process=0, details=session.finish())
    assert counts(samples) == {"answered": 12}
    assert server.seen.count("handshake") == 1 and samples.details["connections_opened_again"] == 0


SECURE_SERVER = """
import http.server, ssl, sys


class Ready(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Ready)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("both.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def test_a_server_that_is_started_is_asked_over_https_whether_it_is_ready(tmp_path: Path) -> None:
    _signed_by_itself(tmp_path)
    (port,) = free_ports(1)
    fields = OIP | {"url": f"https://127.0.0.1:{port}", "start": ["python", "-c", SECURE_SERVER, str(port)]}
    server = ServerProcess(
        Http.model_validate(fields | {"ca": "self.pem"}), Access(tmp_path, trust=True), tmp_path / "log"
    )
    try:
        server.wait_ready({}, 60.0)
        server.model = Http.model_validate(fields)
        with pytest.raises(
            InputError, match=r"not ready within 0\.2 s: the certificate of .* is not trusted: self-signed"
        ):
            server.wait_ready({}, 0.2)
    finally:
        server.stop()
