"""The broker's own stream of events as an input: where it is, whether it is there.

    amqp://user:password@host:port/vhost?passwordFile=...

A query reads it by the connector, in tasks (`sources.py`), with an address that has no password in
it unless the user put it there. Every message is a batch of events
(`telemetry/event_batch.py`), which says which life of the broker it is from.
"""

from importlib.metadata import version
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

import penstock
from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.io_blocking import Channel, Connection
from penstock.spark.connector.common.opening import REQUESTS, open_connection
from penstock.spark.connector.common.options import Endpoint, parse_source
from penstock.spark.input.pipeline_input import PipelineInput, Span
from penstock.spark.schema.formats import EVENT_STREAM, RunDescription

SCHEMES: Final = ("amqp://", "amqps://")
STREAM: Final = EVENT_STREAM
OPTIONS: Final = ("passwordFile", "passwordEnv", "tls.caFile", "tls.certFile", "tls.keyFile")
"""Parameters of the address that the connector has as options of the same names."""

NAME: Final = "penstock pipeline"
RECONNECT: Final = "10s"
"""How long a query waits for its broker before it says that it is away."""


class InputAway(OperatorError):
    """The broker cannot be reached now; it may be there again later."""


class Extent(NamedTuple):
    """What can be read now: offsets first..next-1 of the stream with that id."""

    stream_id: str
    first: int
    next: int


def is_address(text: str) -> bool:
    """Whether `text` names a stream, and no directory."""
    return text.startswith(SCHEMES)


class StreamInput(PipelineInput):
    """The stream at `address`; see above. Raises: OperatorError for an address that is none."""

    def __init__(self, address: str) -> None:
        url, options = _apart(address)
        self._given = {"url": url, "mode": "stream", "queue": STREAM, **options}
        self.endpoint: Endpoint = parse_source(self._given).endpoint
        self._broker = "not known yet"

    def __str__(self) -> str:
        """Without the password."""
        return f"stream {STREAM} at {self.endpoint.url}"

    def options(self) -> dict[str, str]:
        """Of `readStream.format("amqp")`. What retention took before it was read is no fault: the
        sequences of events have a gap, which is counted."""
        return {
            **self._given,
            "columns": "body",
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
            "reconnectTimeout": RECONNECT,
        }

    def query(self) -> str:
        """One that was made anew is another stream, and is read from its beginning."""
        return f"stream-{self.check().stream_id}"

    def span(self) -> Span:
        """In messages."""
        found = self.check()
        return Span({"offset": found.first}, {"offset": found.next})

    def check(self) -> Extent:
        """What is there. Raises: InputAway; OperatorError when it cannot be read."""
        with self._connected() as connection:
            self._broker = f"{connection.session.server_name()}, {self}"
            return self._extent(connection.channel())

    def run(self) -> RunDescription:
        """Which broker the events are of, when it was looked at last, and what has read them."""
        reader = f"Penstock {penstock.__version__} with Spark {version('pyspark')}"
        return RunDescription(facts={"broker": self._broker, "read by": reader})

    def _connected(self) -> Connection:
        try:
            connection = open_connection(self.endpoint, NAME)
        except ClientError as error:
            raise InputAway(f"{self} cannot be read: {error}") from error
        if REQUESTS not in connection.session.server_capabilities():
            connection.close()
            raise OperatorError(
                f"the broker at {self.endpoint.url} is no Penstock, and has no stream of its own "
                "flow events"
            )
        return connection

    def _extent(self, channel: Channel) -> Extent:
        try:
            answer = channel.request("stream.offsets", {"queue": STREAM})
        except ChannelClosedError as error:
            if error.code != 404:
                raise
            raise OperatorError(
                f"{self}: {error.text}; start the broker with --event-stream, or name its virtual "
                "host in the address"
            ) from error
        stream_id, first, behind = (answer.get(key) for key in ("id", "first", "next"))
        assert isinstance(stream_id, str), "nothing else can have that name"
        assert isinstance(first, int) and isinstance(behind, int), "the broker answers so"
        return Extent(stream_id, first, behind)


def _apart(address: str) -> tuple[str, dict[str, str]]:
    """The address without our parameters, and those."""
    place, _, query = address.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    mine = {name: value for name, value in given if name in OPTIONS}
    rest = urlencode([(name, value) for name, value in given if name not in mine])
    return f"{place}?{rest}" if rest else place, mine
