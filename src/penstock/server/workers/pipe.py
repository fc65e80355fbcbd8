"""What the parent and a worker say to each other over a stream socket: one JSON object a line.

to the worker   Start; then Told, as often as something has changed; its end: stop in order
to the parent   Ready, once: clients are served, or why the worker ends
"""

import msgspec

from penstock.base.config import Config


class Start(msgspec.Struct):
    """worker: its number; inherited: listening sockets, by name; receive: where connections come
    that other workers hand over; send: where it hands them over, by worker; places: who has which
    virtual host, because it has clients before it is told anything more."""

    config: Config
    worker: int
    inherited: dict[str, int]
    receive: int
    send: dict[int, int]
    places: dict[str, int]


class Ready(msgspec.Struct):
    """fault: why the worker ends, "" when it serves; the rest: what was brought back."""

    fault: str = ""
    queues: int = 0
    exchanges: int = 0
    bindings: int = 0
    messages: int = 0


class Told(msgspec.Struct):
    """places: who has which virtual host; pids: of all workers; config: to be put in force, as
    after SIGHUP. None: as before."""

    places: dict[str, int] | None = None
    pids: list[int] | None = None
    config: Config | None = None


def line_of(said: object) -> bytes:
    """Any of these."""
    return msgspec.json.encode(said) + b"\n"
