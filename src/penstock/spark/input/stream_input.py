"""Event lines out of the broker's own stream: offsets in the place of positions in files. IO.

    amqp://user:password@host:port/vhost?passwordFile=...

What is new is fetched into files beside the tables, which are taken in as event files are, and are
gone with the next round; the offset behind them is in the same commit as their lines. So what a
crash leaves here is fetched again, and nothing is counted twice. Passwords go no further than the
connection that is made here: tasks are given files.

Every message is a small event file: a header line, which says which life of the broker it is from,
and event lines. Offsets belong to the stream's id; one that was made anew has another, and is read
from its beginning.
"""

import io
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError, ClientError
from penstock.client.io_blocking import Channel, Connection
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.options import Endpoint, parse_source
from penstock.spark.input.intake import ROUND_BYTES, Intake, PipelineInput, Range, whole_file
from penstock.spark.schema.formats import (
    EVENT_FILES,
    EVENT_STREAM,
    EventLog,
    event_header,
    read_events,
)

SCHEMES: Final = ("amqp://", "amqps://")
STREAM: Final = EVENT_STREAM
OPTIONS: Final = ("passwordFile", "passwordEnv", "tls.caFile", "tls.certFile", "tls.keyFile")
"""Parameters of the address that the connector has as options of the same names."""

FETCHED: Final = "fetched"
"""Below the tables; what is there may be removed at any time while no update runs."""

NAME: Final = "penstock pipeline"
CAPABILITY: Final = "penstock.requests"
PREFETCH: Final = 20
"""Messages on their way, of 200 kB at most."""

WAIT_MS: Final = 30_000
_log: Final = logging.getLogger("penstock.spark")


class InputAway(OperatorError):
    """The broker cannot be reached now; it may be there again later."""


class Extent(NamedTuple):
    """What can be read now: offsets first..next-1 of the stream with that id."""

    stream_id: str
    first: int
    next: int


class Fetched(NamedTuple):
    """files: one a life of the broker, in order; next: the offset behind what is in them; lost:
    offsets that were gone, as (first, behind the last), None for none."""

    files: tuple[Path, ...]
    next: int
    lost: tuple[int, int] | None


def is_address(text: str) -> bool:
    """Whether `text` names a stream, and no directory."""
    return text.startswith(SCHEMES)


class StreamInput(PipelineInput):
    """The stream at `address`; see above. fetched_dir: where files are put for a while.

    Raises: OperatorError for an address that is none."""

    def __init__(self, address: str, fetched_dir: Path) -> None:
        url, options = _apart(address)
        self.endpoint: Endpoint = parse_source(
            {"url": url, "mode": "stream", "queue": STREAM, **options}
        ).endpoint
        self._directory = fetched_dir
        self._rounds = 0

    def __str__(self) -> str:
        """Without the password."""
        return f"stream {STREAM} at {self.endpoint.url}"

    def check(self) -> Extent:
        """What is there. Raises: InputAway; OperatorError when it cannot be read."""
        with self._connected() as connection:
            return self._extent(connection.channel())

    def fresh(self, pattern: str, taken: Callable[[str], int]) -> Intake:
        if pattern != EVENT_FILES:
            return Intake((), {})
        self._clear()
        try:
            with self._connected() as connection:
                channel = connection.channel()
                extent = self._extent(channel)
                key = f"stream:{extent.stream_id}"
                start = taken(key)
                if start >= extent.next:
                    return Intake((), {})
                self._directory.mkdir(parents=True, exist_ok=True)
                self._rounds += 1
                place = self._directory / f"round-{self._rounds}"
                place.mkdir()
                found = self._fetch(channel, extent, start, place, ROUND_BYTES)
        except ClientError as error:
            raise self._away(error) from error
        except OSError as error:
            raise OperatorError(
                f"events cannot be put into {self._directory}: {error}; choose another --tables "
                "directory"
            ) from error
        ranges = [one for path in found.files for one in whole_file(path)]
        # Who has read nothing yet has missed nothing.
        if found.lost is not None and start > 0:
            ranges.insert(0, self._lost_line(found.lost, place))
        return Intake(tuple(ranges), {key: found.next}, has_more=found.next < extent.next)

    def events(self) -> EventLog:
        """All that the stream has now."""
        with TemporaryDirectory(prefix="penstock-events-") as name:
            try:
                with self._connected() as connection:
                    channel = connection.channel()
                    self._fetch(channel, self._extent(channel), 0, Path(name), 0)
            except ClientError as error:
                raise self._away(error) from error
            return read_events(Path(name))

    # -- reading ---------------------------------------------------------------------------------

    def _connected(self) -> Connection:
        try:
            connection = open_connection(self.endpoint, NAME)
        except ClientError as error:
            raise self._away(error) from error
        if CAPABILITY not in connection.session.server_capabilities():
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

    def _fetch(
        self, channel: Channel, extent: Extent, start: int, place: Path, bytes_max: int
    ) -> Fetched:
        """Offsets from `start` on into files in `place`, about `bytes_max` bytes, 0 for all.

        Raises: ClientError, OSError; OperatorError when the stream is another one now."""
        files: list[Path] = []
        lost: tuple[int, int] | None = None
        file: BinaryIO | None = None
        boot_id = ""
        size = 0
        expected = start
        try:
            for offset, body in self._messages(channel, extent, max(start, extent.first)):
                if offset > expected:
                    lost = (expected if lost is None else lost[0], offset)
                expected = offset + 1
                head, end, lines = body.partition(b"\n")
                said, _ = event_header(io.BytesIO(head))
                if file is None or said != boot_id:
                    boot_id = said
                    if file is not None:
                        file.close()
                    files.append(place / EVENT_FILES.replace("*", f"{len(files):06d}"))
                    file = files[-1].open("wb")
                    file.write(head + end)
                file.write(lines)
                size += len(body)
                if 0 < bytes_max <= size:
                    break
        finally:
            if file is not None:
                file.close()
        return Fetched(tuple(files), expected, lost)

    def _messages(
        self, channel: Channel, extent: Extent, first: int
    ) -> Iterator[tuple[int, bytes]]:
        """Offset and body of each message of `extent` from `first` on."""
        if first >= extent.next:
            return
        channel.qos(PREFETCH)
        channel.consume(STREAM, arguments={"x-stream-offset": first})
        offset = first - 1
        while offset < extent.next - 1:
            delivery = channel.next_delivery(WAIT_MS)
            if delivery is None:
                raise OperatorError(
                    f"{self}: the message behind offset {offset} did not come within {WAIT_MS} ms"
                )
            headers = delivery.properties.headers or {}
            at = headers.get("x-stream-offset")
            if headers.get("stream_id") != extent.stream_id or not isinstance(at, int):
                raise InputAway(f"{self} was made anew while it was read; read it again")
            channel.ack(delivery)
            offset = at
            yield at, delivery.body

    def _lost_line(self, lost: tuple[int, int], place: Path) -> Range:
        """A line that is no event, among them: it is counted, and stays in the table."""
        first, behind = lost
        text = (
            f"{behind - first} messages of {STREAM} (offsets {first}..{behind - 1}) were gone "
            "before they were read"
        )
        _log.warning("%s: %s; give the stream more room (event_stream_bytes)", self, text)
        path = place / "lost.txt"
        path.write_text(text + "\n", encoding="ascii")
        return Range(str(path.resolve()), 0, len(text) + 1, "", "")

    def _clear(self) -> None:
        """What was fetched before is in the tables now, or was never committed."""
        for path in sorted(self._directory.glob("round-*/*")):
            path.unlink()
        for path in sorted(self._directory.glob("round-*")):
            path.rmdir()

    def _away(self, error: ClientError) -> InputAway:
        return InputAway(f"{self} cannot be read: {error}")


def _apart(address: str) -> tuple[str, dict[str, str]]:
    """The address without our parameters, and those."""
    parts = urlsplit(address)
    given = parse_qsl(parts.query, keep_blank_values=True)
    mine = {name: value for name, value in given if name in OPTIONS}
    rest = [(name, value) for name, value in given if name not in mine]
    return urlunsplit(parts._replace(query=urlencode(rest))), mine
