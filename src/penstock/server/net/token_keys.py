"""Keys that tokens are signed with, and whether a token is. Needs PyJWT with cryptography.

A token names its key (kid) and how it is signed (alg). How a key may be used is said by the key:
one for RS256 is never taken as the secret of HS256, and `none` is no algorithm. Keys of a JWKS are
public ones; the secret of HS256 comes from the configuration alone.
Source: RFC 7515, 7517, 7518, 8725.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from penstock.base.limits import OAUTH_KEYS
from penstock.broker.session.tokens import TokenFault

if TYPE_CHECKING:
    from jwt.algorithms import AllowedPublicKeys

RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVES: Final[Mapping[str, str]] = MappingProxyType(
    {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}
)
SECRET: Final = "HS256"
ALGORITHMS: Final = (*RSA, *CURVES.values(), SECRET)
SECRET_BYTES_MIN: Final = 32
"""Of a secret for HS256 (RFC 7518, 3.2)."""
_PRIVATE: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth"))
_ENFORCED: Final = PyJWS(options={"enforce_minimum_key_length": True})


class UnknownKey(TokenFault):
    """The token may be good: the key that it names is not known."""


@dataclass(frozen=True, slots=True)
class _Key:
    """One key. algorithms: that it may be used with."""

    key: "AllowedPublicKeys | bytes"
    algorithms: tuple[str, ...]


class TokenKeys:
    """Some keys, which do not change. algorithms: that are accepted at all; secret: of HS256, ""
    for none. Bound: OAUTH_KEYS."""

    __slots__ = ("_by_id", "_unnamed")

    def __init__(self, sets: Iterable[bytes], secret: str, algorithms: tuple[str, ...]) -> None:
        """sets: documents of keys (JWKS). Raises: ValueError for one that is none."""
        self._by_id: dict[str, _Key] = {}
        self._unnamed: list[_Key] = []
        for document in sets:
            for jwk in _jwks(document):
                self._add(jwk, algorithms)
        if secret and SECRET in algorithms:
            self._unnamed.append(_Key(secret.encode(), (SECRET,)))

    def __len__(self) -> int:
        return len(self._by_id) + len(self._unnamed)

    def _add(self, jwk: dict[str, object], algorithms: tuple[str, ...]) -> None:
        """Keys that are for something else are left out."""
        usable = [one for one in _algorithms_of(jwk) if one in algorithms]
        if not usable or jwk.get("use", "sig") != "sig":
            return
        public = {name: one for name, one in jwk.items() if name not in _PRIVATE}
        try:
            key = _Key(PyJWK(public, usable[0]).key, tuple(usable))
        except PyJWTError as fault:
            raise ValueError(f"key {jwk.get('kid')!r:.100}: {fault!s:.200}") from fault
        kid = jwk.get("kid")
        if isinstance(kid, str):
            self._by_id[kid] = key
        else:
            self._unnamed.append(key)
        if len(self) > OAUTH_KEYS.default:
            raise ValueError(f"it holds more than {OAUTH_KEYS.default} keys for tokens")

    def claims_of(self, token: str) -> dict[str, object]:
        """What the token says, if its signature is good. Raises: TokenFault, UnknownKey."""
        try:
            header = _ENFORCED.get_unverified_header(token)
            key = self._key_of(header.get("kid"), header.get("alg"))
            payload = _ENFORCED.decode(token, key.key, key.algorithms)
            claims = json.loads(payload)
        except PyJWTError as fault:
            raise TokenFault(f"{type(fault).__name__}: {fault!s:.200}") from None
        except (ValueError, RecursionError):
            raise TokenFault("its claims are no JSON") from None
        if not isinstance(claims, dict):
            raise TokenFault("its claims are no table")
        return claims

    def _key_of(self, kid: object, algorithm: object) -> _Key:
        named = self._by_id.get(kid) if isinstance(kid, str) else None
        if named is not None:
            return named
        # Without a name, or with one that a secret of the configuration cannot have.
        known = self._unnamed
        if not isinstance(kid, str):
            known = [*known, *self._by_id.values()]
        fitting = [one for one in known if algorithm in one.algorithms]
        if len(fitting) == 1:
            return fitting[0]
        if isinstance(kid, str):
            raise UnknownKey(f"it is signed with key {kid!r:.100} ({algorithm!r:.20})")
        if not fitting:
            raise UnknownKey(f"no key is for {algorithm!r:.20}, and it names none (kid)")
        raise TokenFault(f"it names no key (kid), and {len(fitting)} are for {algorithm}")


def _jwks(document: bytes) -> list[dict[str, object]]:
    """Raises: ValueError."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        raise ValueError('it is no JSON; a JWKS is {"keys": [...]}') from None
    keys = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(keys, list):
        raise ValueError('it has no list "keys"; a JWKS is {"keys": [...]}')
    return [one for one in keys if isinstance(one, dict)]


def _algorithms_of(jwk: dict[str, object]) -> tuple[str, ...]:
    """What a key is for, by its kind: () for a symmetric one, which belongs into no JWKS."""
    fitting: tuple[str, ...]
    if jwk.get("kty") == "RSA":
        fitting = RSA
    elif jwk.get("kty") in ("EC", "OKP") and jwk.get("crv") in CURVES:
        fitting = (CURVES[str(jwk["crv"])],)
    else:
        return ()
    named = jwk.get("alg")
    return fitting if named is None else tuple(one for one in fitting if one == named)
