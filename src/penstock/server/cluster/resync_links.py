"""Copies of a directory over links: questions of one that is copied, answers of the leader."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from penstock.server.cluster.link_frames import ANSWER, ASK, SPOILT, packed, unpacked
from penstock.server.cluster.links import Links
from penstock.server.cluster.resync_source import ResyncSource

ANSWER_S: Final = 60.0


class ResyncAsker:
    """The questions of this member that a leader has not answered yet."""

    def __init__(self, links: Links) -> None:
        self.loop = asyncio.get_running_loop()
        self.links = links
        self.number = 0
        self.open: dict[int, tuple[str, asyncio.Future[bytes]]] = {}

    def ask(self, leader: str, request: bytes) -> bytes:
        """In a thread: the answer. Raises: OSError when there is none."""
        asked = asyncio.run_coroutine_threadsafe(self._ask(leader, request), self.loop)
        return asked.result()

    async def _ask(self, leader: str, request: bytes) -> bytes:
        self.number = (self.number + 1) & 0xFFFF_FFFF
        number = self.number
        answer: asyncio.Future[bytes] = self.loop.create_future()
        self.open[number] = (leader, answer)
        try:
            if not self.links.send(leader, ASK, packed(number, request)):
                raise ConnectionError(f"there is no link to node '{leader}'")
            async with asyncio.timeout(ANSWER_S):
                return await answer
        finally:
            del self.open[number]

    def answered(self, name: str, kind: int, payload: bytes) -> None:
        """ANSWER or SPOILT of a leader. Raises: LinkFault."""
        number, rest = unpacked(payload)
        leader, answer = self.open.get(number, ("", None))
        if answer is None or leader != name or answer.done():
            return
        if kind == SPOILT:
            answer.set_exception(ConnectionError(rest.decode(errors="replace")))
        else:
            answer.set_result(rest)

    def lost(self, name: str) -> None:
        """The link to `name` is gone, and so are its answers."""
        for leader, answer in self.open.values():
            if leader == name and not answer.done():
                answer.set_exception(ConnectionError(f"the link to node '{name}' is gone"))


class ResyncServer:
    """At the leader: one directory being read for each follower that is copied."""

    def __init__(self, links: Links, path: Path) -> None:
        self.loop = asyncio.get_running_loop()
        self.links = links
        self.path = path
        self.sources: dict[str, tuple[ResyncSource, ThreadPoolExecutor]] = {}

    def serve(self, peer: str) -> None:
        """From now on `peer` may ask."""
        self.end(peer)
        self.sources[peer] = (ResyncSource(self.path), ThreadPoolExecutor(1, f"resync-{peer}"))

    def asked(self, peer: str, payload: bytes) -> None:
        """ASK of `peer`. Raises: LinkFault."""
        number, request = unpacked(payload)
        found = self.sources.get(peer)
        if found is None:
            self.links.send(peer, SPOILT, packed(number, b"this node copies nothing to you now"))
            return
        source, worker = found

        def answered(done: "asyncio.Future[bytes]") -> None:
            if done.cancelled():
                return
            fault = done.exception()
            if fault is None:
                self.links.send(peer, ANSWER, packed(number, done.result()))
            elif isinstance(fault, OSError | ValueError):
                self.links.send(peer, SPOILT, packed(number, str(fault).encode()))
            else:
                raise fault

        self.loop.run_in_executor(worker, source.answer, request).add_done_callback(answered)

    def end(self, peer: str) -> None:
        found = self.sources.pop(peer, None)
        if found is not None:
            source, worker = found
            worker.submit(source.close)
            worker.shutdown(wait=False)

    def end_all(self) -> None:
        for peer in list(self.sources):
            self.end(peer)
