"""Logging in with a token: what its claims must say, and what they grant.

A client that has fetched an access token (JWT) from an authorisation server shows it as its
password; the user's name that comes with it is not looked at, as in RabbitMQ. The signature is
verified elsewhere (server/net/token_checker). Here is what it signs:

    aud    names the resource server        iss    is the issuer, where one is configured
    exp    is still to come                 nbf    is past, but for SKEW_S
    sub, client_id and preferred claims     the user's name: the first that is there
    scope and others                        see broker/session/scopes

Source: RFC 7519 section 4.1; RabbitMQ's rabbit_auth_backend_oauth2.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import PenstockError
from penstock.base.limits import OAUTH_SCOPES
from penstock.broker.session.scopes import Scopes, scopes_in, values_at, with_aliases

NEVER_S: Final = -1
"""In place of a time: the token does not expire."""
SKEW_S: Final = 30
"""Seconds by which the issuer's clock may be ahead of this machine's."""
ID: Final = "{resource_server_id}"
"""Stands for the id in `oauth_scope_prefix`."""
USER_CLAIMS: Final = ("sub", "client_id")
UNKNOWN_USER: Final = "unknown"
_REQUESTING_PARTY: Final = "authorization.permissions.scopes"
"""Where Keycloak and others put scopes; always looked at, as in RabbitMQ."""
_DEFAULT: Final = Config()
_TOKEN: Final = re.compile(r"eyJ[\w-]*\.[\w-]+\.[\w-]*", re.ASCII)


class TokenFault(PenstockError):
    """A token that is not accepted: one line for the log, without anything secret."""


@dataclass(frozen=True, slots=True)
class TokenUser:
    """Whom a token makes of its bearer, until `expires_s` of the wall clock, NEVER_S for ever."""

    name: str
    tags: tuple[str, ...]
    expires_s: int
    scopes: Scopes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What tokens have to say. Fields as in Config, without `oauth_`."""

    resource_server_id: str
    issuer: str
    verify_aud: bool
    require_exp: bool
    scope_prefix: str
    additional_scopes_key: str
    scope_aliases: Mapping[str, tuple[str, ...]]
    preferred_username_claims: tuple[str, ...]

    @staticmethod
    def of(config: Config) -> "TokenRules":
        return TokenRules(
            config.oauth_resource_server_id,
            config.oauth_issuer,
            config.oauth_verify_aud,
            config.oauth_require_exp,
            config.oauth_scope_prefix.replace(ID, config.oauth_resource_server_id),
            config.oauth_additional_scopes_key,
            config.oauth_scope_aliases,
            config.oauth_preferred_username_claims,
        )

    def user_of(self, claims: Mapping[str, object], now_s: int) -> TokenUser:
        """Whom claims with a good signature make of their bearer. Raises: TokenFault."""
        if self.issuer and claims.get("iss") != self.issuer:
            raise TokenFault(f"iss is {_said(claims, 'iss')}, and oauth_issuer '{self.issuer}'")
        if self.verify_aud and self.resource_server_id not in scopes_in(claims.get("aud"), ""):
            raise TokenFault(
                f"aud is {_said(claims, 'aud')} and does not name oauth_resource_server_id "
                f"'{self.resource_server_id}'"
            )
        begins_s = _seconds(claims, "nbf")
        if begins_s != NEVER_S and begins_s > now_s + SKEW_S:
            raise TokenFault(f"it is good in {begins_s - now_s} s only (nbf)")
        expires_s = _seconds(claims, "exp")
        if expires_s == NEVER_S and self.require_exp:
            raise TokenFault("it has no exp; let the issuer add one, or see oauth_require_exp")
        if expires_s != NEVER_S and expires_s <= now_s:
            raise TokenFault(f"it has expired {now_s - expires_s} s ago")
        scopes = Scopes(self._scopes(claims), claims)
        return TokenUser(self._name(claims), scopes.tags, expires_s, scopes)

    def _name(self, claims: Mapping[str, object]) -> str:
        for name in (*self.preferred_username_claims, *USER_CLAIMS):
            value = claims.get(name)
            if isinstance(value, str) and value:
                return value
        return UNKNOWN_USER

    def _scopes(self, claims: Mapping[str, object]) -> tuple[str, ...]:
        """Without prefix, sorted."""
        found = scopes_in(claims.get("scope"), self.resource_server_id)
        for path in (_REQUESTING_PARTY, *self.additional_scopes_key.split()):
            for value in values_at(claims, path):
                found += scopes_in(value, self.resource_server_id)
        prefix = self.scope_prefix
        own = {
            one.removeprefix(prefix)
            for one in with_aliases(found, self.scope_aliases)
            if one.startswith(prefix)
        }
        if len(own) > OAUTH_SCOPES.default:
            raise TokenFault(f"it has {len(own)} scopes, and {OAUTH_SCOPES.default} are read")
        return tuple(sorted(own))


class TokenChecker:
    """Verifies tokens, in its own time. Nominal base; the server has the real one."""

    __slots__ = ()

    def check(self, token: str, done: Callable[[TokenUser | TokenFault], None]) -> None:
        """Call `done` once, not before this returns."""
        raise NotImplementedError

    def close(self) -> None:
        """Nobody gets an answer any more."""


def is_oauth_wanted(config: Config) -> bool:
    """Whether the configuration says anything about logging in with tokens."""
    return any(
        getattr(config, one.name) != getattr(_DEFAULT, one.name)
        for one in fields(Config)
        if one.name.startswith("oauth_")
    )


def is_token(password: str) -> bool:
    """Whether it has a token's form: three parts of base64, the first of which begins a table."""
    return _TOKEN.fullmatch(password) is not None


def _said(claims: Mapping[str, object], name: str) -> str:
    return f"{claims[name]!r:.200}" if name in claims else "missing"


def _seconds(claims: Mapping[str, object], name: str) -> int:
    """A time of the wall clock, or NEVER_S if there is none. Raises: TokenFault."""
    value = claims.get(name)
    if value is None:
        return NEVER_S
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise TokenFault(f"{name} is {value!r:.100}, and no time in seconds")
    return int(value)
