"""The hop from a stream queue to the stream store, and the requests on it."""

from mypy_extensions import i64

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Answerable
from penstock.broker.store.write_request import WriteLane, WriteRequest
from penstock.flow.account import Account
from penstock.flow.gate import Gate
from penstock.protocol.content import Message
from penstock.streams.log import StreamLog


class StreamLane(WriteLane):
    """log: the stream's."""

    __slots__ = ("log",)

    def __init__(self, queue: Actor, store: str, store_gate: Gate, log: StreamLog) -> None:
        super().__init__(queue, store, store_gate)
        self.log = log


def stream_request(
    lane: StreamLane,
    origin: Account,
    answerable: Answerable | None,
    messages: list[Message],
    bytes_: i64,
) -> WriteRequest:
    """Messages for a stream. All of them are charged on the hop, whether their sender waits for
    confirms or not (flow-semantics 8.3, W13). bytes_: of all their frames."""
    request = WriteRequest(lane, origin, answerable, messages)
    request.count = len(messages)
    request.bytes = bytes_
    return request
