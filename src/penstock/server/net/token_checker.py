"""Verifies the tokens that clients log in with, off the loop, and keeps the keys for it fresh.

    token → one thread: signature, then claims → done, on the loop
               └ of a key that is not known: the keys are read again, and it is tried once more

Keys come from a file, an address, or both (oauth_jwks_file, oauth_jwks_url). They are read again
every oauth_jwks_age_s, and when a token names one that is not among them, PAUSE_S apart at least,
whoever asks. While they cannot be read the old ones stay. Reading has a thread of its own, so that
an issuer that is slow delays nobody whose key is known. An address leads nowhere else (no
redirects, no proxy), and has to be https, except on this machine.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    build_opener,
)

from penstock.base.clock import Clock
from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.base.limits import OAUTH_JWKS_BYTES, OAUTH_TOKEN_BYTES, OAUTH_TOKENS
from penstock.broker.actors.log import Log
from penstock.broker.session.access import is_loopback
from penstock.broker.session.tokens import TokenChecker, TokenFault, TokenRules, TokenUser
from penstock.server.net.token_keys import ALGORITHMS, SECRET_BYTES_MIN, TokenKeys, UnknownKey

PAUSE_S: Final = 10.0
"""Between two readings of the keys that tokens have asked for."""
NS_PER_S: Final = 1_000_000_000
READ_BYTES: Final = 65_536

Done = Callable[[TokenUser | TokenFault], None]


class _NoRedirects(HTTPRedirectHandler):
    """Keys come from where the configuration says, and from nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


class JwtChecker(TokenChecker):
    """Owner: the node. Bound: OAUTH_TOKENS. `after`: called once something was done on the loop;
    `keys`: exchanged whole; `reads`: how often they were read."""

    __slots__ = (
        "_after",
        "_clock",
        "_config",
        "_count",
        "_is_reading",
        "_log",
        "_loop",
        "_opener",
        "_read_at",
        "_reader",
        "_rules",
        "_timer",
        "_verifier",
        "_waiting",
        "keys",
        "reads",
    )

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        log: Log,
        after: Callable[[], None],
    ) -> None:
        """Raises: OperatorError, naming the setting, its value and the fix."""
        _check(config)
        self._config = config
        self._loop = loop
        self._clock = clock
        self._log = log
        self._after = after
        self._rules = TokenRules.of(config)
        self._opener = _opener_for(config)
        self.reads = 0
        self._count = 0
        self._waiting: list[tuple[str, Done]] = []
        self._is_reading = False
        self._read_at = -PAUSE_S
        try:
            self.keys = self._made(b"")
        except ValueError as fault:
            raise OperatorError(f"oauth_jwks_file: {fault}") from fault
        if len(self.keys) == 0 and not config.oauth_jwks_url:
            raise OperatorError(
                f"oauth_jwks_file: {config.oauth_jwks_file} holds no key for "
                f"{', '.join(config.oauth_algorithms)}; see oauth_algorithms"
            )
        self._verifier = ThreadPoolExecutor(1, "token-verifier")
        self._reader = ThreadPoolExecutor(1, "token-keys")
        self._timer: asyncio.TimerHandle | None = None
        if config.oauth_jwks_file or config.oauth_jwks_url:
            self._timer = loop.call_later(config.oauth_jwks_age_s, self._grow_old)
        if config.oauth_jwks_url:
            self._read_again()

    def check(self, token: str, done: Done) -> None:
        if len(token) > OAUTH_TOKEN_BYTES.default:
            fault = f"it has {len(token)} bytes, and {OAUTH_TOKEN_BYTES.default} are read"
        elif self._count >= OAUTH_TOKENS.default:
            fault = f"{self._count} others are being checked; try again later"
        else:
            self._count += 1
            self._verify(token, done, False)
            return
        self._loop.call_soon(self._finish, TokenFault(fault), done)

    def close(self) -> None:
        """Nobody gets an answer any more."""
        if self._timer is not None:
            self._timer.cancel()
        for thread in (self._verifier, self._reader):
            thread.shutdown(wait=False, cancel_futures=True)

    # -- verifying -------------------------------------------------------------------------------

    def _verify(self, token: str, done: Done, is_last: bool) -> None:
        keys = self.keys
        judging = self._loop.run_in_executor(self._verifier, self._judged, keys, token)

        def judged(step: "asyncio.Future[TokenUser | TokenFault]") -> None:
            if step.cancelled():
                return
            error = step.exception()
            found = TokenFault("internal error") if error is not None else step.result()
            if error is not None:
                self._log.error("internal error while a token was checked", error)
            if isinstance(found, UnknownKey) and keys is not self.keys:
                # Other keys have come meanwhile.
                self._verify(token, done, is_last)
                return
            if isinstance(found, UnknownKey) and not is_last and self._may_ask_again():
                self._waiting.append((token, done))
                self._read_again()
                return
            self._count -= 1
            self._finish(found, done)

        judging.add_done_callback(judged)

    def _judged(self, keys: TokenKeys, token: str) -> TokenUser | TokenFault:
        """On the thread for it."""
        try:
            return self._rules.user_of(keys.claims_of(token), self._clock.wall_ns() // NS_PER_S)
        except TokenFault as fault:
            return fault

    def _finish(self, found: TokenUser | TokenFault, done: Done) -> None:
        done(found)
        self._after()

    # -- keys ------------------------------------------------------------------------------------

    def _may_ask_again(self) -> bool:
        is_anywhere = self._config.oauth_jwks_file or self._config.oauth_jwks_url
        is_time = self._loop.time() - self._read_at >= PAUSE_S
        # Those whose key is known always have room beside those who wait.
        has_room = len(self._waiting) < OAUTH_TOKENS.default // 2
        return bool(is_anywhere) and has_room and (self._is_reading or is_time)

    def _grow_old(self) -> None:
        self._timer = self._loop.call_later(self._config.oauth_jwks_age_s, self._grow_old)
        self._read_again()

    def _read_again(self) -> None:
        if self._is_reading:
            return
        self._is_reading = True
        self._read_at = self._loop.time()
        reading = self._loop.run_in_executor(self._reader, self._read)

        def read(step: "asyncio.Future[TokenKeys]") -> None:
            if step.cancelled():
                return
            self._is_reading = False
            self.reads += 1
            fault = step.exception()
            if fault is None:
                self.keys = step.result()
            else:
                self._log.warning(
                    f"the keys for tokens cannot be read: {fault}; "
                    f"the {len(self.keys)} of before are used on"
                )
            waiting, self._waiting = self._waiting, []
            for token, done in waiting:
                self._verify(token, done, True)

        reading.add_done_callback(read)

    def _read(self) -> TokenKeys:
        """On the thread for it. Raises: OSError, ValueError."""
        return self._made(self._fetched() if self._config.oauth_jwks_url else b"")

    def _made(self, fetched: bytes) -> TokenKeys:
        """Raises: ValueError."""
        path = self._config.oauth_jwks_file
        sets = [fetched] if fetched else []
        if path:
            try:
                with Path(path).open("rb") as file:
                    sets.append(file.read(OAUTH_JWKS_BYTES.default + 1))
            except OSError as error:
                raise ValueError(f"{path} cannot be read: {error.strerror}") from error
            if len(sets[-1]) > OAUTH_JWKS_BYTES.default:
                raise ValueError(f"{path} has more than {OAUTH_JWKS_BYTES.default} bytes")
        try:
            return TokenKeys(sets, self._config.oauth_secret, self._config.oauth_algorithms)
        except ValueError as fault:
            sources = (self._config.oauth_jwks_url if fetched else "", path)
            raise ValueError(f"{' or '.join(one for one in sources if one)}: {fault}") from fault

    def _fetched(self) -> bytes:
        """What the address gives, whole, within oauth_jwks_timeout_ms. Raises: ValueError."""
        url = self._config.oauth_jwks_url
        patience_s = self._config.oauth_jwks_timeout_ms / 1000
        end = time.monotonic() + patience_s
        body = b""
        try:
            with self._opener.open(url, timeout=patience_s) as answer:
                while part := answer.read1(READ_BYTES):
                    body += part
                    if len(body) > OAUTH_JWKS_BYTES.default:
                        raise ValueError(f"{url} has more than {OAUTH_JWKS_BYTES.default} bytes")
                    if time.monotonic() > end:
                        raise ValueError(f"{url} took more than {patience_s:g} s")
        except HTTPError as error:
            with error:
                raise ValueError(f"{url}: {error}") from error
        except URLError as error:
            raise ValueError(f"{url}: {error.reason}") from error
        except OSError as error:
            raise ValueError(f"{url}: {error}") from error
        return body


def _check(config: Config) -> None:
    """Raises: OperatorError."""
    if not config.oauth_resource_server_id:
        raise OperatorError(
            "oauth_resource_server_id is missing; give what tokens name as their audience (aud)"
        )
    if not (config.oauth_jwks_file or config.oauth_jwks_url or config.oauth_secret):
        raise OperatorError(
            "oauth has no keys; give oauth_jwks_file, oauth_jwks_url, or oauth_secret for HS256"
        )
    if 0 < len(config.oauth_secret.encode()) < SECRET_BYTES_MIN:
        raise OperatorError(
            f"oauth_secret has {len(config.oauth_secret.encode())} bytes, and HS256 needs "
            f"{SECRET_BYTES_MIN}; let the issuer make a longer one"
        )
    unknown = [one for one in config.oauth_algorithms if one not in ALGORITHMS]
    if unknown or not config.oauth_algorithms:
        named = f"'{unknown[0]}' is none" if unknown else "are none"
        raise OperatorError(f"oauth_algorithms: {named} of {', '.join(ALGORITHMS)}")
    try:
        parts = urlsplit(config.oauth_jwks_url)
    except ValueError:
        # A bracket that is not closed, say.
        parts = urlsplit("")
    is_near = parts.hostname == "localhost" or is_loopback(parts.hostname or "0.0.0.0")
    if config.oauth_jwks_url and not (
        parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_near))
    ):
        raise OperatorError(
            f"oauth_jwks_url = '{config.oauth_jwks_url}' is no address of https; "
            "keys that come without TLS may be anybody's"
        )


def _opener_for(config: Config) -> OpenerDirector:
    """Raises: OperatorError."""
    if not config.oauth_jwks_url:
        return build_opener()
    try:
        context = ssl.create_default_context(cafile=config.oauth_jwks_ca or None)
    except (OSError, ssl.SSLError) as error:
        raise OperatorError(
            f"oauth_jwks_ca = '{config.oauth_jwks_ca}' cannot be used: {error}; "
            "give a PEM file with the authorities of the issuer's certificate"
        ) from error
    return build_opener(ProxyHandler({}), _NoRedirects(), HTTPSHandler(context=context))
