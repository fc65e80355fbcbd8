"""A member that does what it has to and no more: it takes the entries of a broker, lets a follower
apply them, and says what is committed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from penstock.server.cluster import pipe
from penstock.server.cluster.applier import Applier
from penstock.server.cluster.frame_reader import FrameReader
from penstock.server.cluster.position import PositionFile
from tests.patience import PATIENCE_S


def wait_until(is_there: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_there():
        assert time.monotonic() < end, f"{what} takes too long"
        time.sleep(0.002)


class Follower:
    """A directory to which entries are applied. told: up to which it is safe; failed: words."""

    def __init__(self, directory: Path, is_whole: bool = True) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.told = 0
        self.failed = ""
        self.on_told: Callable[[int], None] = lambda _: None
        self.position = PositionFile(directory)
        if is_whole and self.position.read() is None:
            self.position.write(1, 0, True)
        self.applier = Applier(directory, self.position, self._told, self._failed)

    def _told(self, epoch: int, seq: int) -> None:
        self.told = seq
        self.on_told(seq)

    def _failed(self, words: str) -> None:
        self.failed = words

    def put(self, seq: int, entry: bytes, epoch: int = 1) -> None:
        wait_until(lambda: self.applier.put(epoch, seq, entry) or self.failed != "", "room")

    def wait(self, seq: int) -> None:
        wait_until(lambda: self.told >= seq or self.failed != "", f"entry {seq}")
        assert not self.failed, self.failed

    def close(self) -> None:
        self.applier.close()


class Member:
    """Reads frames on a thread. entries: all of them; frames: the others; commits: whether a
    follower's word commits an entry, or it is committed at once, or not before `commit`;
    publishes: what was said of them, and how many entries had come by then."""

    AT_ONCE = "at once"
    APPLIED = "applied"
    NEVER = "never"

    def __init__(
        self, sock: socket.socket, follower: Follower | None = None, commits: str = AT_ONCE
    ) -> None:
        self.sock = sock
        self.follower = follower
        self.commits = commits
        self.keeps = True
        self.count = 0
        self.entries: list[bytes] = []
        self.frames: list[tuple[int, bytes]] = []
        self.publishes: list[tuple[int, bytes]] = []
        self.is_over = False
        if follower is not None:
            follower.on_told = self._applied
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        reader = FrameReader(pipe.check_frame)
        while True:
            try:
                data = self.sock.recv(262_144)
            except OSError:
                data = b""
            if not data:
                self.is_over = True
                return
            for kind, payload in reader.feed(data):
                if kind == pipe.ENTRY:
                    self._entry(payload)
                elif kind == pipe.PUBLISHES:
                    self.publishes.append((self.count, payload))
                else:
                    self.frames.append((kind, payload))
            if self.commits == self.AT_ONCE and self.count > 0:
                self.commit(self.count)

    def _entry(self, entry: bytes) -> None:
        self.count += 1
        if self.keeps:
            self.entries.append(entry)
        if self.follower is not None:
            self.follower.put(self.count, entry)

    def _applied(self, seq: int) -> None:
        if self.commits == self.APPLIED and seq > 0:
            self.commit(seq)

    def commit(self, count: int) -> None:
        self.send(pipe.count_frame(pipe.COMMITTED, count))

    def send(self, frame: bytes) -> None:
        try:
            self.sock.sendall(frame)
        except OSError:
            self.is_over = True

    def payloads(self, kind: int) -> list[bytes]:
        return [payload for found, payload in list(self.frames) if found == kind]

    def done(self) -> int:
        found = self.payloads(pipe.DONE)
        return pipe.count_of(found[-1]) if found else 0

    def wait_for(self, kind: int) -> bytes:
        wait_until(lambda: bool(self.payloads(kind)) or self.is_over, f"frame {kind}")
        found = self.payloads(kind)
        assert found, f"the broker has ended without frame {kind}: {self.payloads(pipe.FAILED)}"
        return found[0]

    def close(self) -> None:
        # `close` alone does not wake whoever reads.
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.sock.close()


def contents(directory: Path) -> dict[str, bytes]:
    """What a leader and its follower have in common: files of messages, and marks."""
    found: dict[str, bytes] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        parts = name.split("/")
        if parts[0] in ("lock", "cluster", "parked") or parts[0].startswith(("metadata", "audit")):
            continue
        if "transient" in parts[2:3]:
            continue
        found[name] = path.read_bytes() if path.is_file() else b"<folder>"
    return found
