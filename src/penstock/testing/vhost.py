"""One virtual host of a broker for tests: what its queues hold, who waits, pausing, and its end."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from penstock.base.shown_names import shown_name, vhost_and_name

WAIT_S: Final = 10.0
LOOK_S: Final = 0.005
LOOK_S_MAX: Final = 0.05
"""Between two looks: at first and at most."""
ROWS_MAX: Final = 10_000

Ask = Callable[..., dict[str, Any]]


class NotEmptyError(AssertionError):
    """Queues still held messages when the time was over; the text says which."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What a queue holds. messages_unacknowledged: delivered, and not answered yet; state: running,
    paused, deep (it holds its publishers), full or damaged."""

    name: str
    messages_ready: int
    messages_unacknowledged: int
    consumers: int
    state: str

    @property
    def messages(self) -> int:
        """Ready and unacknowledged ones."""
        return self.messages_ready + self.messages_unacknowledged


class VirtualHost:
    """name: of the virtual host; host, port: where its broker listens; paused: queues that were
    paused and not resumed; is_deleted: by `delete`. Everything that asks the broker raises
    penstock.base.errors.OperatorError when it says no, or is gone."""

    def __init__(self, ask: Ask, host: str, port: int, name: str) -> None:
        self._ask = ask
        self.host = host
        self.port = port
        self.name = name
        self.paused: set[str] = set()
        self.is_deleted = False

    @property
    def url(self) -> str:
        """For any AMQP client: `amqp://guest:guest@127.0.0.1:40213/%2F`."""
        return f"amqp://guest:guest@{self.host}:{self.port}/{quote(self.name, safe='')}"

    def queues(self) -> dict[str, Queue]:
        """Its queues by name, at most 10,000 of them."""
        answer = self._ask("queues", do="list", vhost=self.name, sort="name", limit=ROWS_MAX)
        return {one.name: one for one in map(_queue, answer["queues"])}

    def wait_for_empty(self, *queues: str, timeout_s: float = WAIT_S) -> None:
        """Return when these queues, or all of this virtual host, hold nothing, neither ready nor
        unacknowledged. What a publisher has not handed over yet is not seen: publish with confirms.

        Raises: NotEmptyError after `timeout_s`; KeyError for a queue that is not there."""
        for pause_s in self._looks(queues, timeout_s):
            time.sleep(pause_s)

    async def until_empty(self, *queues: str, timeout_s: float = WAIT_S) -> None:
        """The same as a coroutine, for consumers that run in this event loop."""
        for pause_s in self._looks(queues, timeout_s):
            await asyncio.sleep(pause_s)

    def _looks(self, names: tuple[str, ...], timeout_s: float) -> Iterator[float]:
        """One look after the other; yields how long to wait for the next."""
        end_s = time.monotonic() + timeout_s
        pause_s = LOOK_S
        while held := self._held(names):
            if time.monotonic() >= end_s:
                raise NotEmptyError(
                    f"not empty after {timeout_s:g} s:\n" + "\n".join(map(queue_line, held))
                )
            yield pause_s
            pause_s = min(2 * pause_s, LOOK_S_MAX)

    def _held(self, names: tuple[str, ...]) -> list[Queue]:
        found = self.queues()
        wanted = [found[self._there(name, found)] for name in names] if names else found.values()
        return [one for one in wanted if one.messages > 0]

    def _there(self, name: str, found: dict[str, Queue]) -> str:
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise KeyError(f"no queue '{name}' in virtual host '{self.name}'; there is: {known}")
        return name

    def pause(self, queue: str) -> None:
        """Its consumers get nothing more until it is resumed; publishers go on."""
        self._ask("queues", do="pause", name=self._shown(queue))
        self.paused.add(queue)

    def resume(self, queue: str) -> None:
        """Deliver again."""
        self.paused.discard(queue)
        self._ask("queues", do="resume", name=self._shown(queue))

    def _shown(self, queue: str) -> str:
        """The name by which the broker tells it from those of other virtual hosts."""
        return shown_name(self.name, queue)

    def delete(self) -> None:
        """Close its connections, and remove it with its queues and messages, if it is there."""
        if self.is_deleted:
            return
        rows = self._ask("vhosts", do="list", limit=ROWS_MAX)["vhosts"]
        if any(row["name"] == self.name for row in rows):
            self._ask("vhosts", do="delete", name=self.name)
        self.is_deleted = True


def bare_name(row: dict[str, Any]) -> str:
    """The name of the queue in its virtual host. row: of a listing."""
    place = vhost_and_name(str(row["name"]))
    assert place is not None, "listings name the virtual host of a queue"
    return place[1]


def _queue(row: dict[str, Any]) -> Queue:
    return Queue(
        bare_name(row),
        row["messages_ready"],
        row["messages_unacknowledged"],
        row["consumers"],
        row["state"],
    )


def queue_line(queue: Queue) -> str:
    """One line for people."""
    held = f"{queue.messages_ready} ready, {queue.messages_unacknowledged} unacknowledged"
    return f"queue {queue.name}: {held}, {queue.consumers} consumers, {queue.state}"
