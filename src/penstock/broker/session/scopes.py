"""Scopes of OAuth 2 tokens as permissions, by RabbitMQ's words.

    PREFIXpermission:VHOST/NAME[/ROUTING KEY]    permission: configure, write or read
    PREFIXtag:TAG                                PREFIX: the resource server's id and a dot

VHOST, NAME and ROUTING KEY are patterns: `*` is any characters, everything else is percent-encoded
as in a query (`+` is a space), and case counts. `{claim}` and `{vhost}` in a scope stand for a
claim of the token and for the virtual host that is asked about. A scope that is none of these
grants nothing. Topics need a scope with a routing key: one without grants nothing about them.
Source: RabbitMQ's rabbit_oauth2_scope, wildcard and the page "OAuth 2"; unlike there, `*b` matches
"abab", as that page says, and what a variable stands for is never a pattern itself.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from penstock.base.limits import RIGHTS_REMEMBERED

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
PERMISSIONS: Final = (CONFIGURE, WRITE, READ)
_TAG: Final = "tag:"
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Pattern:
    """One pattern of a scope. Raises: ValueError for a `%` that is no escape, or no UTF-8."""

    __slots__ = ("_parts",)

    def __init__(self, text: str) -> None:
        if _BROKEN_ESCAPE.search(text):
            raise ValueError(f"{text!r} has a % that is no escape")
        self._parts = text.replace("+", " ").split("*")
        if "%" in text:
            self._parts = [unquote(part, errors="strict") for part in self._parts]

    def matches(self, subject: str) -> bool:
        """Whether the whole of `subject` is like this. Linear in parts and characters."""
        first, *middle = self._parts
        if not middle:
            return subject == first
        last = middle.pop()
        end = len(subject) - len(last)
        if not (subject.startswith(first) and subject.endswith(last)):
            return False
        place = len(first)
        for part in middle:
            found = subject.find(part, place, end)
            if found < 0:
                return False
            place = found + len(part)
        return place <= end


@dataclass(frozen=True, slots=True)
class _Grant:
    """What one scope grants. place: virtual hosts; key: None when it is not about topics."""

    permission: str
    place: Pattern
    name: Pattern
    key: Pattern | None


class ScopeRights:
    """What a token's scopes grant in one virtual host. Bound: the scopes of one token, and
    RIGHTS_REMEMBERED answers."""

    __slots__ = ("_answers", "_grants")

    def __init__(self, grants: list[_Grant]) -> None:
        self._grants = grants
        self._answers: dict[tuple[str, str], bool] = {}

    def may(self, permission: str, name: str) -> bool:
        """Whether the exchange or queue `name` may be configured, written or read."""
        key = (permission, name)
        answer = self._answers.get(key)
        if answer is None:
            answer = any(
                one.permission == permission and one.name.matches(name) for one in self._grants
            )
            if len(self._answers) >= RIGHTS_REMEMBERED.default:
                self._answers.clear()
            self._answers[key] = answer
        return answer

    def may_topic(self, permission: str, exchange: str, routing_key: str) -> bool:
        """Whether this routing key may be written to, or bound with to read from, an exchange of
        topics."""
        return any(
            one.permission == permission
            and one.key is not None
            and one.name.matches(exchange)
            and one.key.matches(routing_key)
            for one in self._grants
        )


class Scopes:
    """The scopes of a token, without their prefix. claims: what variables stand for. Parsed once:
    virtual hosts are asked about on the loop, and what has a variable is parsed there."""

    __slots__ = ("_claims", "_parsed", "_variable", "texts")

    def __init__(self, texts: tuple[str, ...], claims: Mapping[str, object]) -> None:
        self.texts = texts
        self._claims = {name: one for name, one in claims.items() if isinstance(one, str)}
        self._variable = [text for text in texts if "{" in text]
        self._parsed = [one for text in texts if "{" not in text for one in _grants_of(text)]

    @property
    def tags(self) -> tuple[str, ...]:
        """Of the user, sorted."""
        return tuple(
            sorted({one.removeprefix(_TAG) for one in self.texts if one.startswith(_TAG)} - {""})
        )

    def in_vhost(self, vhost: str) -> ScopeRights | None:
        """What they grant there; None if the virtual host may not be entered, which any scope with
        a permission in it allows."""
        known = {**self._claims, "vhost": vhost}
        filled = [_filled(text, known) for text in self._variable]
        parsed = self._parsed + [one for text in filled for one in _grants_of(text)]
        grants = [one for one in parsed if one.place.matches(vhost)]
        return ScopeRights(grants) if grants else None


def _filled(text: str, known: Mapping[str, str]) -> str:
    """With what its variables stand for; one of no claim stands for its own name."""
    return _VARIABLE.sub(lambda found: quote(known.get(found[1], found[1]), safe=""), text)


def _grants_of(text: str) -> list[_Grant]:
    """One, or none."""
    permission, colon, rest = text.partition(":")
    parts = rest.split("/")
    if permission not in PERMISSIONS or not colon or len(parts) not in (2, 3):
        return []
    try:
        place, name, *key = [Pattern(part) for part in parts]
    except ValueError:
        return []
    return [_Grant(permission, place, name, key[0] if key else None)]


def scopes_in(value: object, resource_server_id: str) -> list[str]:
    """The scopes that a claim holds: a text with spaces, a list, or a table by resource server,
    whose scopes are without prefix. Whatever else is in it grants nothing."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [one for one in value if isinstance(one, str)]
    if isinstance(value, dict):
        own = value.get(resource_server_id)
        if isinstance(own, str | list):
            return [f"{resource_server_id}.{one}" for one in scopes_in(own, resource_server_id)]
    return []


def values_at(claims: object, path: str) -> list[object]:
    """What is at `a.b.c` in a token's claims; tables in lists are all looked into."""
    found = [claims]
    for key in path.split("."):
        inside: list[object] = []
        for one in found:
            inside += one if isinstance(one, list) else [one]
        found = [one[key] for one in inside if isinstance(one, dict) and key in one]
    return found


def with_aliases(scopes: Iterable[str], aliases: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The scopes, and what those among them that are aliases stand for."""
    given = list(scopes)
    return given + [scope for one in given for scope in aliases.get(one, ())]
