"""Tokens checked on threads, with keys from files and from a real server that changes them."""

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import jwt
import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.limits import OAUTH_JWKS_BYTES, OAUTH_TOKEN_BYTES, OAUTH_TOKENS
from penstock.broker.session.tokens import TokenFault, TokenUser
from penstock.cli.certificates import make_authority, make_server
from penstock.server.machine.clock import SystemClock
from penstock.server.net import token_checker
from penstock.server.net.token_checker import JwtChecker
from tests.patience import PATIENCE_S
from tests.unit.broker.peer import LogBook
from tests.unit.server.net.test_token_keys import rsa_jwk, rsa_key

SECRET = "s" * 32
CONFIG = Config(oauth_resource_server_id="rs", oauth_secret=SECRET)
Found = TokenUser | TokenFault


class Issuer:
    """A server of keys. body: what it answers; asked: how often it was; certificate: its files
    without suffix, None for a server without TLS."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.body = b""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.wait = threading.Event()
        self.wait.set()
        self.asked = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                issuer.wait.wait(PATIENCE_S)
                self.send_response(issuer.status)
                for name, value in issuer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(issuer.body)))
                self.end_headers()
                self.wfile.write(issuer.body)

            def log_message(self, *_: object) -> None:
                """Nothing on the terminal of the tests."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(
                certificate.with_suffix(".pem"), certificate.with_suffix(".key")
            )
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://localhost:{self.server.server_port}/keys"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def shows(self, **numbers: int) -> None:
        self.body = jwks(**numbers)

    def close(self) -> None:
        self.wait.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    one = Issuer()
    yield one
    one.close()


def jwks(**numbers: int) -> bytes:
    """Keys by kid; number: which of several."""
    keys = [rsa_jwk(rsa_key(2048, number), kid=kid) for kid, number in numbers.items()]
    return json.dumps({"keys": keys}).encode()


def token(kid: str = "", number: int = 0, **claims: object) -> str:
    said = {"aud": "rs", "exp": time.time() + 600, "sub": "bob", **claims}
    if kid:
        return jwt.encode(said, rsa_key(2048, number), "RS256", {"kid": kid})
    return jwt.encode(said, SECRET, "HS256")


class Bench:
    """A checker on the running loop. afters: how often it has said that something was done."""

    def __init__(self, config: Config) -> None:
        self.log = LogBook()
        self.afters = 0
        loop = asyncio.get_running_loop()
        self.checker = JwtChecker(config, loop, SystemClock(), self.log, self._after)

    def _after(self) -> None:
        self.afters += 1

    def ask(self, text: str) -> "asyncio.Future[Found]":
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self.checker.check(text, answer.set_result)
        assert not answer.done()
        return answer

    async def found(self, text: str) -> Found:
        return await asyncio.wait_for(self.ask(text), PATIENCE_S)

    async def reads(self, count: int) -> None:
        """The keys were read so often."""
        end = time.monotonic() + PATIENCE_S
        while self.checker.reads < count:
            assert time.monotonic() < end, self.log.lines
            await asyncio.sleep(0.005)


async def test_a_secret() -> None:
    bench = Bench(CONFIG)
    found = await bench.found(token(scope="rs.read:*/* rs.tag:monitoring"))
    assert isinstance(found, TokenUser)
    assert (found.name, found.tags) == ("bob", ("monitoring",)) and bench.afters == 1
    assert isinstance(await bench.found(token(aud="other")), TokenFault)
    assert isinstance(await bench.found(token(exp=time.time() - 1)), TokenFault)
    assert isinstance(await bench.found("eyJ0.eyJ0.x"), TokenFault)
    bench.checker.close()


async def test_a_file_of_keys_is_read_again_for_a_new_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(jwks(a=0))
    bench = Bench(replace(CONFIG, oauth_secret="", oauth_jwks_file=str(path)))
    assert isinstance(await bench.found(token("a")), TokenUser)
    path.write_bytes(jwks(b=1))
    assert isinstance(await bench.found(token("b", 1)), TokenUser)
    # What was taken out of the file is not accepted any more.
    assert isinstance(await bench.found(token("a")), TokenFault)
    assert bench.checker.reads == 1, "whoever asks, once in PAUSE_S"
    monkeypatch.setattr(token_checker, "PAUSE_S", 0.0)
    path.write_text("broken")
    assert isinstance(await bench.found(token("a")), TokenFault)
    assert "cannot be read" in bench.log.lines[-1] and "no JSON" in bench.log.lines[-1]
    assert isinstance(await bench.found(token("b", 1)), TokenUser)
    bench.checker.close()


async def test_an_address_of_keys(issuer: Issuer) -> None:
    issuer.shows(a=0)
    config = replace(CONFIG, oauth_secret="", oauth_jwks_url=issuer.url)
    bench = Bench(config)
    assert isinstance(await bench.found(token("a")), TokenUser)
    assert issuer.asked == 1
    for _ in range(20):
        assert isinstance(await bench.found(token("a")), TokenUser)
        assert isinstance(await bench.found(token("stranger", 1)), TokenFault)
    assert issuer.asked == 1, "no stranger makes us ask again and again"
    bench.checker.close()


async def test_keys_grow_old(issuer: Issuer) -> None:
    issuer.shows(a=0)
    config = replace(CONFIG, oauth_secret="", oauth_jwks_url=issuer.url, oauth_jwks_age_s=0)
    bench = Bench(replace(config, oauth_jwks_age_s=1))
    await bench.reads(1)
    issuer.shows(b=1)
    await bench.reads(2)
    assert isinstance(await bench.found(token("b", 1)), TokenUser)
    assert isinstance(await bench.found(token("a")), TokenFault)
    bench.checker.close()


async def test_while_the_issuer_is_away_the_keys_of_before_are_good(issuer: Issuer) -> None:
    issuer.shows(a=0)
    config = replace(CONFIG, oauth_secret="", oauth_jwks_url=issuer.url, oauth_jwks_age_s=1)
    bench = Bench(config)
    await bench.reads(1)
    issuer.status = 500
    await bench.reads(2)
    assert "500" in bench.log.lines[-1] and "the 1 of before" in bench.log.lines[-1]
    assert isinstance(await bench.found(token("a")), TokenUser)
    bench.checker.close()


async def test_a_slow_issuer_delays_only_those_whose_key_is_not_known(issuer: Issuer) -> None:
    issuer.shows(a=0)
    issuer.wait.clear()
    bench = Bench(replace(CONFIG, oauth_jwks_url=issuer.url))
    waits = bench.ask(token("a"))
    unknown = token("stranger", 1)
    strangers = [bench.ask(unknown) for _ in range(OAUTH_TOKENS.default - 1)]
    while sum(one.done() for one in strangers) < OAUTH_TOKENS.default // 2:
        await asyncio.sleep(0.005)
    for _ in range(10):
        assert isinstance(await bench.found(token()), TokenUser)
    assert not waits.done()
    assert sum(one.done() for one in strangers) == OAUTH_TOKENS.default // 2
    issuer.wait.set()
    assert isinstance(await asyncio.wait_for(waits, PATIENCE_S), TokenUser)
    bench.checker.close()


async def test_an_issuer_that_takes_too_long_is_given_up(issuer: Issuer) -> None:
    issuer.wait.clear()
    config = replace(CONFIG, oauth_jwks_url=issuer.url, oauth_jwks_timeout_ms=100)
    bench = Bench(config)
    assert isinstance(await bench.found(token("a")), TokenFault)
    assert "timed out" in bench.log.lines[-1]
    bench.checker.close()


async def test_an_issuer_that_drips_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            sock = server.accept()[0]
            with sock:
                sock.recv(65_536)
                try:
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                    for _ in range(1000):
                        sock.sendall(b" ")
                        time.sleep(0.02)
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        bench = Bench(replace(CONFIG, oauth_jwks_url=url, oauth_jwks_timeout_ms=200))
        await bench.reads(1)
        assert "took more than 0.2 s" in bench.log.lines[-1]
        bench.checker.close()
        thread.join()


async def test_keys_come_from_where_the_configuration_says(issuer: Issuer) -> None:
    issuer.shows(a=0)
    issuer.status, issuer.headers = 302, {"Location": f"{issuer.url}/elsewhere"}
    bench = Bench(replace(CONFIG, oauth_jwks_url=issuer.url))
    await bench.reads(1)
    assert issuer.asked == 1 and len(bench.checker.keys) == 1
    bench.checker.close()


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_an_issuer_has_to_show_a_good_certificate(tmp_path: Path, is_trusted: bool) -> None:
    now = datetime.now(UTC)
    make_authority(tmp_path, 2, now)
    make_server(tmp_path, "issuer", ["localhost"], 2, now)
    issuer = Issuer(tmp_path / "issuer")
    issuer.shows(a=0)
    config = replace(CONFIG, oauth_secret="", oauth_jwks_url=issuer.url)
    if is_trusted:
        config = replace(config, oauth_jwks_ca=str(tmp_path / "ca.pem"))
    bench = Bench(config)
    try:
        assert isinstance(await bench.found(token("a")), TokenUser) == is_trusted
        assert ("CERTIFICATE_VERIFY_FAILED" in " ".join(bench.log.lines)) != is_trusted
    finally:
        bench.checker.close()
        issuer.close()


async def test_an_answer_without_end_is_not_read(issuer: Issuer) -> None:
    issuer.body = b" " * (OAUTH_JWKS_BYTES.default + 1)
    bench = Bench(replace(CONFIG, oauth_jwks_url=issuer.url))
    await bench.reads(1)
    assert f"more than {OAUTH_JWKS_BYTES.default} bytes" in bench.log.lines[-1]
    bench.checker.close()


async def test_how_many_are_checked_at_once_is_bounded() -> None:
    bench = Bench(CONFIG)
    good = token()
    answers = [bench.ask(good) for _ in range(OAUTH_TOKENS.default + 1)]
    found = await asyncio.wait_for(asyncio.gather(*answers), PATIENCE_S)
    refused = [one for one in found if isinstance(one, TokenFault)]
    assert [str(one) for one in refused] == [
        f"{OAUTH_TOKENS.default} others are being checked; try again later"
    ]
    assert isinstance(await bench.found(good), TokenUser)
    bench.checker.close()


async def test_how_long_a_token_is_is_bounded() -> None:
    bench = Bench(CONFIG)
    found = await bench.found(token(scope="x" * OAUTH_TOKEN_BYTES.default))
    assert isinstance(found, TokenFault) and "bytes, and 16384 are read" in str(found)
    bench.checker.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"oauth_resource_server_id": ""}, "oauth_resource_server_id is missing"),
        ({"oauth_secret": ""}, "oauth has no keys; give oauth_jwks_file"),
        ({"oauth_secret": "short"}, "oauth_secret has 5 bytes, and HS256 needs 32"),
        ({"oauth_algorithms": ("RS256", "none")}, "oauth_algorithms: 'none' is none of RS256"),
        ({"oauth_algorithms": ()}, "oauth_algorithms: are none of"),
        ({"oauth_jwks_url": "http://issuer.example/k"}, "is no address of https"),
        ({"oauth_jwks_url": "file:///etc/passwd"}, "is no address of https"),
        ({"oauth_jwks_url": "issuer"}, "is no address of https"),
        ({"oauth_jwks_url": "https://[issuer"}, "is no address of https"),
        ({"oauth_jwks_file": "/nowhere"}, "/nowhere cannot be read: No such file"),
        (
            {"oauth_jwks_url": "https://x", "oauth_jwks_ca": "/nowhere"},
            "oauth_jwks_ca = '/nowhere' cannot be used",
        ),
    ],
)
async def test_a_wrong_configuration_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(OperatorError) as fault:
        Bench(replace(CONFIG, **settings))  # type: ignore[arg-type]  # fields of Config
    assert said in str(fault.value) and SECRET not in str(fault.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{}", 'no list "keys"'), ('{"keys": []}', "holds no key for RS256, ES256, HS256")],
)
async def test_a_file_without_keys_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(OperatorError) as fault:
        Bench(replace(CONFIG, oauth_secret="", oauth_jwks_file=str(path)))
    assert said in str(fault.value) and str(path) in str(fault.value)
