"""Ids of actors as a person calls them: `queue orders`, `aio-pika-orders-1, channel 1`.

Names come from strangers. What could change the text around them (control characters, marks of
direction) is shown as a box, and a long name loses its middle.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from penstock.spark.blame.blame import ARROW, actor_kind

CHARACTERS_MAX: Final = 48
_MADE_UP: Final = re.compile(r"(?:amq\.)?ctag.*|None\d*|spark-tail-\d+|.{25,}|[0-9a-f-]{16,}")
"""Tags of consumers that a client library chose."""
_ROLES: Final = r"source(?:: partitions)?|tasks|task \d+(?:\.\.\d+)?|sink, (?:driver|partition \d+)"
_SPARK: Final = re.compile(rf"(?:of (?P<application>.+?)|(?P<query>.+?)): (?:{_ROLES})(?:@.*)?")
"""Connections of the connector: `minutes (orders-app): task 3`, `of orders-app: source`."""

_WORDS: Final = {
    "queue": "queue {}",
    "consumers": "consumers of {}",
    "client": "application of {}",
    "socket": "socket of {}",
    "store": "message store {}",
    "alarm": "{} alarm",
    "rate": "rate limit of {}",
    "account": "debt account of {}",
    "exchange": "exchange {}",
    "group": "reader group {}",
    "conn": "{}",
}


def clean(text: str) -> str:
    """`text` without characters that are not seen or that turn others around."""
    return "".join("▯" if unicodedata.category(one) in _UNSEEN else one for one in text)


_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def cut(text: str, characters_max: int = CHARACTERS_MAX) -> str:
    """`text` in at most so many characters, both ends of it."""
    if len(text) <= characters_max:
        return text
    return text[: characters_max // 2] + "…" + text[1 - characters_max // 2 :]


def shown(actor: str, node: str = "") -> str:
    """The id of an actor in words, clean and not long. node: "" where there is but one."""
    return cut(clean(_words(actor))) + on_node(node)


def one_of_each() -> Callable[[str, str], str]:
    """A function that, of all ids (or paths of them) that are shown under one name on a node, gives
    the one it was asked for first: a query that was started again has other connections, and no
    other name."""
    first: dict[tuple[str, ...], str] = {}
    known: dict[tuple[str, str], str] = {}

    def stands_for(actor: str, node: str) -> str:
        if (node, actor) not in known:
            name = (node, *(clean(_words(one)) for one in actor.split(ARROW)))
            known[node, actor] = first.setdefault(name, actor)
        return known[node, actor]

    return stands_for


def on_node(node: str) -> str:
    """What stands behind a name where there are several nodes."""
    return f" on {cut(clean(node))}" if node else ""


def shown_chain(path: str, node: str = "") -> list[str]:
    """Who waits for whom, first to last."""
    found = [shown(actor) for actor in path.split(ARROW)]
    return [*found[:-1], found[-1] + on_node(node)]


def shown_queue(name: str, node: str = "") -> str:
    """A queue with its virtual host, which is left out where it is `/`."""
    return cut(clean(name.removeprefix("/") or name)) + on_node(node)


def _words(actor: str) -> str:
    kind, name = actor_kind(actor), actor.partition(":")[2]
    if kind == "chan":
        connection, _, number = name.rpartition("/")
        return f"{_client(connection)}, channel {number}"
    if kind == "consumer":
        tag, _, connection = name.partition("@conn:")
        tag = "" if _MADE_UP.fullmatch(tag) else tag
        client = _client(connection, tag)
        return f"consumer {client}" if not tag or tag in client else f"consumer {tag} of {client}"
    if kind in ("conn", "client", "socket"):
        name = _client(name.removeprefix("conn:"))
    elif kind in ("queue", "consumers"):
        name = name.removeprefix("/") or name
    return _WORDS.get(kind, actor.replace("{", "{{").replace("}", "}}")).format(name)


def _client(connection: str, tag: str = "") -> str:
    found = _SPARK.fullmatch(connection)
    if found is None:
        return connection
    if found["query"]:
        return f"Spark query {found['query']}"
    return f"Spark query {tag} ({found['application']})" if tag else f"Spark {found['application']}"
