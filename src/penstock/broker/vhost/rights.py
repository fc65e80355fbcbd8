"""What one user may do in one virtual host: patterns by right, and by topic exchange.

    configure   declare and delete            write   publish, bind something to it
    read        consume, get, purge, bind it to something

A pattern is searched for in the name, as in RabbitMQ, and "" is found in none; of a topic
permission it is found in the empty key. Patterns of a topic
exchange, of which most have none, are searched for in routing keys besides; {vhost} and {username}
stand for the names themselves there, whatever signs are in them (reliability F101).
Texts are RabbitMQ's. Source: rabbit_access_control, rabbit_auth_backend_internal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import re2

from penstock.base.errors import ChannelFault, OperatorError
from penstock.base.limits import RIGHTS_REMEMBERED
from penstock.broker.vhost.patterns import Pattern, compile_pattern

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
RIGHTS: Final = (CONFIGURE, WRITE, READ)
EVERYTHING: Final = ".*"
DEFAULT_EXCHANGE: Final = "amq.default"
QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
TOPIC: Final = "topic"
IMPERSONATOR: Final = "impersonator"
"""The tag of who may publish in the name of others."""


@dataclass(frozen=True, slots=True)
class Permission:
    """A pattern for each right."""

    configure: str = ""
    write: str = ""
    read: str = ""

    def words(self) -> str:
        """For people."""
        return f"configure '{self.configure}', write '{self.write}', read '{self.read}'"


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """Patterns for routing keys of one exchange."""

    write: str = ""
    read: str = ""


FULL: Final = Permission(EVERYTHING, EVERYTHING, EVERYTHING)


def check_permission(permission: Permission) -> None:
    """Whether its patterns are any. Raises: OperatorError."""
    for text in (permission.configure, permission.write, permission.read):
        compile_pattern(text)


def check_topic_permission(permission: TopicPermission) -> None:
    """As `check_permission`."""
    for text in (permission.write, permission.read):
        compile_pattern(_expanded(text, "vhost", "user"))


class Rights:
    """Shared by all connections of `user` to `vhost`, and changed in place. is_impersonator: may
    publish in the name of others. Bound of what is remembered: RIGHTS_REMEMBERED."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "_patterns",
        "_topics",
        "is_impersonator",
        "user",
        "vhost",
    )

    def __init__(self, user: str, vhost: str) -> None:
        self.user = user
        self.vhost = vhost
        self.is_impersonator = False
        self._patterns: dict[str, Pattern | None] = {}
        self._topics: dict[tuple[str, str], Pattern | None] = {}
        self._answers: dict[tuple[str, str, str], bool] = {}

    def change(self, permission: Permission | None, topics: Mapping[str, TopicPermission]) -> None:
        """What is allowed from now on. permission: None for nothing at all; topics: by exchange."""
        self._answers.clear()
        row = Permission() if permission is None else permission
        self._patterns = {
            right: _compiled(text)
            for right, text in zip(RIGHTS, (row.configure, row.write, row.read), strict=True)
            if text != EVERYTHING
        }
        self._topics = {
            # In RabbitMQ a pattern of nothing stands for ^$, which is found in a key of nothing.
            (right, exchange): _compiled(_expanded(text, self.vhost, self.user) or "^$")
            for exchange, topic in topics.items()
            for right, text in ((WRITE, topic.write), (READ, topic.read))
        }

    def may(self, right: str, name: str) -> bool:
        """Whether the queue or exchange `name` may be configured, written or read."""
        if right not in self._patterns:
            return True
        return self._found(right, "", name, self._patterns[right])

    def may_topic(self, right: str, exchange: str, key: str) -> bool:
        """Whether routing key `key` may be used with the topic exchange `exchange`."""
        if (right, exchange) not in self._topics:
            return True
        return self._found(right, exchange, key, self._topics[right, exchange])

    def check(self, right: str, kind: str, name: str, class_id: int, method_id: int) -> None:
        """Raise ChannelFault 403 unless `user` has `right` on `name`, a QUEUE or an EXCHANGE."""
        if name == "" and kind == EXCHANGE:
            name = DEFAULT_EXCHANGE
        if not self.may(right, name):
            text = f"access to {kind} '{name}' in vhost '{self.vhost}' refused for user"
            raise ChannelFault(403, f"{text} '{self.user}'", class_id, method_id)

    def check_topic(
        self, right: str, exchange: str, kind: str, key: str, class_id: int, method_id: int
    ) -> None:
        """Raise ChannelFault 403 unless `key` may be used with `exchange`, which is of `kind`."""
        if kind == TOPIC and not self.may_topic(right, exchange, key):
            raise ChannelFault(
                403,
                f"access to topic '{key}' in exchange '{exchange}' in vhost '{self.vhost}' refused "
                f"for user '{self.user}'",
                class_id,
                method_id,
            )

    def has_topics(self) -> bool:
        """Whether routing keys are looked at, of any exchange."""
        return len(self._topics) > 0

    def _found(self, right: str, exchange: str, text: str, pattern: Pattern | None) -> bool:
        key = (right, exchange, text)
        answer = self._answers.get(key)
        if answer is None:
            answer = pattern is not None and pattern.search(text) is not None
            if len(self._answers) >= RIGHTS_REMEMBERED.default:
                self._answers.clear()
            self._answers[key] = answer
        return answer


def _compiled(text: str) -> Pattern | None:
    """None for a pattern that is found in nothing."""
    if text == "":
        return None
    try:
        return compile_pattern(text)
    except OperatorError:
        # It was checked when it was set; with a long name in it, it may have become too large.
        return None


def _expanded(text: str, vhost: str, user: str) -> str:
    """In one go: a user may be called {vhost}."""
    parts = []
    for piece in text.split("{vhost}"):
        parts.append(piece.replace("{username}", str(re2.escape(user))))
    return str(re2.escape(vhost)).join(parts)
