"""One client of a node that does not lead, from one leader to the next.

What is passed on and what is said again is decided in forwarding/kept_connection; here are the two
sockets, who leads, and the time that may pass. A client's TLS ends here; between nodes there is the
links' own.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from penstock.base.limits import (
    CLUSTER_FORWARD_BYTES,
    CLUSTER_FORWARD_WAIT_MS,
    FRAME_BYTES_MAX,
)
from penstock.forwarding.asked import Share
from penstock.forwarding.kept_channel import CannotKeep
from penstock.forwarding.kept_connection import TOKEN_BYTES, AttachFault, KeptConnection
from penstock.protocol.constants import HEARTBEAT_FRAME, SHUTDOWN_TEXT
from penstock.protocol.methods import table as m
from penstock.protocol.methods.codec import method_frame
from penstock.replication.seen import NOTHING, Answer, Run, decode_runs, encode_runs
from penstock.server.cluster.link_frames import DATA, END, FORWARD, LinkFault
from penstock.server.cluster.link_io import Client, LinkConnection
from penstock.server.net.proxy_header import header_of
from penstock.server.net.tls import TlsFault, TlsSession

AGAIN_S: Final = 0.05
_BUSY_S: Final = 0.2
"""Until a broker is asked again that still has the connection which was lost."""
_SLICE_BYTES: Final = 4096
"""Between two looks at the clock: some hundred of the smallest frames."""
_SLICE_S: Final = 0.001
_ATTACH_S: Final = 10.0
_ENDED_S: Final = 2.0
"""A broker that ends a connection without a word and leads on has meant it."""
GONE: Final = (OSError, EOFError, LinkFault)
_NOBODY: Final = "CONNECTION_FORCED - no node of the cluster has led for too long"


class Place(NamedTuple):
    """Who leads: his name and address, the epoch, whether that is this node, and of which shard.
    The address is "" where this member is the one that leads."""

    name: str
    address: str
    epoch: int
    is_here: bool = False
    shard: int = 0


class Upstream(Protocol):
    """A connection to the broker that leads."""

    async def read(self) -> bytes:
        """What comes next, b"" at the end. Raises: OSError; EOFError; LinkFault."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def end(self) -> None:
        """The client has said all."""

    def abort(self) -> None: ...


class LinkUpstream:
    """To a broker of another node."""

    def __init__(self, link: LinkConnection) -> None:
        self.link = link

    async def read(self) -> bytes:
        while True:
            kind, data = await self.link.read()
            if kind == END:
                return b""
            if kind == DATA:
                return data

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE):
            self.link.write(DATA, data[at : at + _PIECE])

    async def drain(self) -> None:
        await self.link.drain()

    def end(self) -> None:
        self.link.write(END)

    def abort(self) -> None:
        self.link.abort()


class LocalUpstream:
    """To the broker of this node, which leads meanwhile."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> bytes:
        return await self.reader.read(CLUSTER_FORWARD_BYTES.default)

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def drain(self) -> None:
        await self.writer.drain()

    def end(self) -> None:
        self.writer.write_eof()

    def abort(self) -> None:
        self.writer.transport.abort()


_PIECE: Final = 1 << 20
"""Bytes of one frame between nodes, much less than it may have."""


class Pace:
    """Lets others have a turn after a millisecond of frames."""

    __slots__ = ("began_s", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.began_s = self.loop.time()

    async def rest(self) -> None:
        if self.loop.time() - self.began_s >= _SLICE_S:
            await asyncio.sleep(0)
            self.began_s = self.loop.time()


class Dials(Protocol):
    """As Links."""

    async def forward(
        self,
        name: str,
        address: str,
        client: Client,
        purpose: str = FORWARD,
        unknown: bytes = b"",
    ) -> tuple[LinkConnection, bytes]: ...


class Reach:
    """How clients come to whoever leads. private_path: of the socket of this node's own broker;
    seen: which of some publishes are in the log, asked where this node leads; went_on: times that a
    client has gone on with another broker; dropped: publishes that were not sent again then, as the
    log had them; taken: who leads and has taken a client, tried: who is asked for the first time
    now. See MemberNode."""

    def __init__(
        self,
        links: Dials,
        place: Callable[[], Place | None],
        private_path: Callable[[], str],
        seen: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        self.links = links
        self.place = place
        self.private_path = private_path
        self.seen = seen
        self.went_on = 0
        self.dropped = 0
        self.taken: Place | None = None
        self.tried: Place | None = None

    def may_ask(self, place: Place) -> bool:
        """One client finds out whether there is a broker yet: each attempt is a handshake for the
        node that is to start it."""
        return place == self.taken or place != self.tried

    async def connect(
        self, place: Place, client: Client, unknown: list[Run]
    ) -> tuple[Upstream, Answer]:
        """A connection to the broker there, and which of `unknown` the log holds.
        Raises: OSError; EOFError; LinkFault; ValueError; TimeoutError."""
        is_first = place != self.taken
        if is_first:
            self.tried = place
        try:
            found = await self._connected(place, client, unknown)
        except BaseException:
            if self.taken == place:
                self.taken = None
            raise
        else:
            self.taken = place
            return found
        finally:
            if is_first and self.tried == place:
                self.tried = None

    async def _connected(
        self, place: Place, client: Client, unknown: list[Run]
    ) -> tuple[Upstream, Answer]:
        asked = encode_runs(unknown)
        if not place.is_here or (asked and place.address):
            link, seen = await self.links.forward(place.name, place.address, client, unknown=asked)
            return LinkUpstream(link), Answer(decode_runs(seen))
        answer = Answer(decode_runs(await self.seen(asked)) if asked else ())
        reader, writer = await asyncio.open_unix_connection(
            self.private_path(), limit=CLUSTER_FORWARD_BYTES.default
        )
        writer.write(header_of(client.host, client.port, client.tls))
        return LocalUpstream(reader, writer), answer


class Shards:
    """Virtual hosts are at several leaders. Nominal base; see siblings."""

    def first(self) -> Reach:
        """Whose broker hears a login."""
        raise NotImplementedError

    def of(self, vhost: str) -> Reach | None:
        """Who has a virtual host, None where there is no such one."""
        raise NotImplementedError

    def reaches(self) -> list[Reach]:
        """All of them."""
        raise NotImplementedError


class KeptClient:
    """shards: None where one leader has all; seen: publishes that were in the log of whoever leads
    when the last connection to him was made; is_refused: nobody led for too long."""

    def __init__(
        self,
        reach: Reach,
        client: Client,
        share: Share,
        tls: TlsSession | None = None,
        shards: Shards | None = None,
    ) -> None:
        self.reach = reach
        self.shards = shards
        self.client = client
        self.tls = tls
        self.share = share
        token = secrets.token_bytes(TOKEN_BYTES)
        self.kept = KeptConnection(share, FRAME_BYTES_MAX.highest, token)
        self.seen = NOTHING
        self.place: Place | None = None
        self.upstream: Upstream | None = None
        self.attached = asyncio.Event()
        self.has_said_all = False
        self.is_refused = False

    def look(self, place: Place) -> None:
        """`place` leads."""
        if self.place is not None and place != self.place and self.upstream is not None:
            self.upstream.abort()

    def farewell(self) -> None:
        """This node is stopped."""
        kept = self.kept
        if kept.can_be_told:
            kept.to_client.append(method_frame(0, m.ConnectionClose(320, SHUTDOWN_TEXT, 0, 0)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the client is gone, or his broker is and he cannot be kept."""
        self.writer = writer
        tasks: list[asyncio.Task[None]] = []
        try:
            if self.kept.is_moving:
                upstream = await self._go_on()
            else:
                upstream = await self._connect(self._deadline())
            if upstream is None:
                self.is_refused = True
                return
            self.attached.set()
            tasks = [asyncio.create_task(self._from_client(reader))]
            while upstream is not None:
                has_ended = await self._from_broker(upstream)
                upstream.abort()
                if not await self._is_lost(has_ended=has_ended):
                    break
                self.attached.clear()
                self.kept.lost()
                self._write_client()
                upstream = await self._go_on()
        except CannotKeep:
            return
        except GONE:
            # The client is, and there is nobody to tell.
            return
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self.upstream is not None:
                self.upstream.abort()
            self._write_client()
            if self.tls is not None:
                writer.write(self.tls.farewell())
            writer.close()

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + CLUSTER_FORWARD_WAIT_MS.default / 1000

    # -- the client --------------------------------------------------------------------------------

    async def _from_client(self, reader: asyncio.StreamReader) -> None:
        kept = self.kept
        try:
            while data := await self._read(reader):
                pace = Pace()
                for at in range(0, len(data), _SLICE_BYTES):
                    await self.attached.wait()
                    kept.from_client(data[at : at + _SLICE_BYTES])
                    if self.shards is not None and kept.can_move and not kept.is_moving:
                        self._go_where(self.shards)
                    await pace.rest()
                if self.attached.is_set():
                    self._write_broker()
                with suppress(*GONE):
                    # Whoever reads the broker hears that it is gone.
                    await self._drain_broker()
        except (OSError, TlsFault):
            pass
        self.has_said_all = True
        await self.attached.wait()
        if self.upstream is not None:
            with suppress(*GONE):
                self.upstream.end()

    def _go_where(self, shards: Shards) -> None:
        """The client has said which virtual host it wants: who has that is asked for it."""
        reach = shards.of(self.kept.vhost)
        if reach is not None and reach is not self.reach and self.upstream is not None:
            self.reach = reach
            self.attached.clear()
            self.kept.move()
            self.upstream.abort()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """What the client says next, b"" at the end. Raises: OSError; TlsFault."""
        tls = self.tls
        if tls is None:
            return await reader.read(CLUSTER_FORWARD_BYTES.default)
        # What he said right behind his handshake came with it.
        data = tls.opened(b"")
        while not data and not tls.is_ended:
            sealed = await reader.read(CLUSTER_FORWARD_BYTES.default)
            if not sealed:
                break
            data = tls.opened(sealed)
            if tls.has_answer:
                self.writer.write(tls.to_send())
        return data

    def _write_client(self) -> None:
        if self.kept.to_client:
            self._write(b"".join(self.kept.to_client))
            self.kept.to_client.clear()

    def _write(self, data: bytes) -> None:
        try:
            self.writer.write(data if self.tls is None else self.tls.sealed(data))
        except TlsFault:
            self.writer.transport.abort()

    async def _beat(self) -> None:
        """In the place of a broker that is away."""
        while agreed_s := self.kept.tune_ok.heartbeat:
            await asyncio.sleep(agreed_s / 2)
            self._write(HEARTBEAT_FRAME)

    # -- the broker --------------------------------------------------------------------------------

    def _write_broker(self) -> None:
        out = self.kept.to_broker
        if out and self.upstream is not None:
            self.upstream.write(b"".join(out))
            out.clear()

    async def _drain_broker(self) -> None:
        if self.upstream is not None:
            await self.upstream.drain()

    async def _from_broker(self, upstream: Upstream) -> bool:
        """Pass on what it says. True: it has ended the connection; False: it is gone, or leaves."""
        kept = self.kept
        while not kept.is_leaving:
            try:
                data = await upstream.read()
            except GONE:
                return False
            if not data:
                return True
            pace = Pace()
            for at in range(0, len(data), _SLICE_BYTES):
                kept.from_broker(data[at : at + _SLICE_BYTES])
                await pace.rest()
            self._write_client()
            await self.writer.drain()
        self._write_broker()
        return False

    async def _is_lost(self, *, has_ended: bool) -> bool:
        """Whether there is something to go on with, and nobody meant it to end."""
        if self.kept.is_over or self.kept.is_raw or self.has_said_all:
            return False
        end = asyncio.get_running_loop().time() + _ENDED_S
        while has_ended and self.reach.place() == self.place:
            if asyncio.get_running_loop().time() > end:
                return False
            await asyncio.sleep(AGAIN_S)
        return True

    def _reach_now(self, shards: Shards) -> Reach:
        """Which shard has it may have been known to a broker before it was here."""
        vhost = self.kept.vhost
        if not vhost:
            return shards.first()
        return shards.of(vhost) or self.reach

    async def _connect(self, deadline: float) -> Upstream | None:
        """A connection to whoever leads, None when nobody has for too long."""
        loop = asyncio.get_running_loop()
        while loop.time() < deadline and not self.has_said_all:
            if self.shards is not None:
                self.reach = self._reach_now(self.shards)
            place = self.reach.place()
            if place is not None and self.reach.may_ask(place):
                try:
                    unknown = self.kept.unknown()
                    upstream, self.seen = await self.reach.connect(place, self.client, unknown)
                except (*GONE, ValueError, TimeoutError):
                    # It leads no more, or not yet: nothing of the client has gone there.
                    pass
                else:
                    self.place, self.upstream = place, upstream
                    return upstream
            await asyncio.sleep(AGAIN_S)
        return None

    async def _go_on(self) -> Upstream | None:
        """As `_attach`; the client hears of life meanwhile."""
        beat = asyncio.create_task(self._beat())
        try:
            return await self._attach()
        finally:
            beat.cancel()

    async def _attach(self) -> Upstream | None:
        """Go on with whoever leads; None: the client's connection ends. Raises: CannotKeep."""
        deadline = self._deadline()
        is_again = self.kept.is_known
        while (upstream := await self._connect(deadline)) is not None:
            try:
                async with asyncio.timeout(_ATTACH_S):
                    await self._say_again(upstream)
            except (AttachFault, *GONE, TimeoutError):
                upstream.abort()
                self.kept.lost()
                await asyncio.sleep(_BUSY_S)
            else:
                self.reach.went_on += is_again
                self.reach.dropped += self.kept.dropped
                self.kept.dropped = 0
                self.attached.set()
                return upstream
        if self.kept.can_be_told:
            self.kept.to_client.append(method_frame(0, m.ConnectionClose(320, _NOBODY, 0, 0)))
        return None

    async def _say_again(self, upstream: Upstream) -> None:
        """Raises: AttachFault; CannotKeep; OSError; EOFError; LinkFault."""
        kept = self.kept
        kept.attach(self.seen)
        pace = Pace()
        while True:
            # Not drained: what it says meanwhile has to be read.
            while kept.say_some():
                self._write_broker()
                await pace.rest()
            self._write_broker()
            self._write_client()
            if kept.is_attached or kept.is_over:
                return
            data = await upstream.read()
            if not data:
                raise AttachFault("it has ended the connection")
            kept.from_broker(data)
            await self.writer.drain()
