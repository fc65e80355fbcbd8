"""Publishes that wait for their queues on the disk: files of the parking lot, and their jobs.

One file is one write: pieces, each of messages of one line, one behind the other. It is never
added to, never synced, and removed when its last piece has left; after a start there are none.

    piece   records, one behind the other
    record  | raw bytes | sequence | body bytes | method bytes | suffix bytes | method suffix raw
              4           4          4            2              2
            method and suffix are of the address (protocol/content); both 0: as in the record before

Its checksum and place are in memory. Source: docs/strategies.md, parking. COMPILED.
"""

from contextlib import suppress
from struct import Struct
from typing import Final
from zlib import crc32

from mypy_extensions import i32, i64

from penstock.protocol.content import Address, Message
from penstock.storage.layout.files import Directory, File, read_fully, write_fully
from penstock.storage.log.job import Job

HEAD: Final = Struct(">IiIHH")
HEAD_BYTES: Final = 16
SUFFIX: Final = ".parked"


def file_name(number: int) -> str:
    """Of the file with this number, 0.. ."""
    return f"{number:012}{SUFFIX}"


def record_bytes(message: Message, before: Address | None) -> i64:
    """What `message` takes in a piece, behind one with the address `before`."""
    size: i64 = HEAD_BYTES + len(message.raw)
    address = message.address
    if address is not before:
        size += len(address.method) + len(address.suffix)
    return size


def encode(messages: list[Message]) -> bytes:
    """The records of a piece."""
    parts: list[bytes] = []
    before: Address | None = None
    for message in messages:
        raw = message.raw
        address = message.address
        method = b""
        suffix = b""
        if address is not before:
            method, suffix = address.method, address.suffix
            before = address
        parts.append(
            HEAD.pack(
                len(raw), int(message.sequence), int(message.body_size), len(method), len(suffix)
            )
        )
        parts.append(method)
        parts.append(suffix)
        parts.append(raw)
    return b"".join(parts)


def decode(data: bytes) -> list[Message]:
    """The messages of a piece that is whole; whose they are is not in it."""
    found: list[Message] = []
    address = Address("", "")
    at: i64 = 0
    end: i64 = len(data)
    while at < end:
        raw_bytes, sequence, body_bytes, method_bytes, suffix_bytes = HEAD.unpack_from(data, at)
        at += HEAD_BYTES
        if suffix_bytes > 0:
            method_end: i64 = at + i64(method_bytes)
            address = _address(data[at:method_end], data[method_end : method_end + suffix_bytes])
            at = method_end + i64(suffix_bytes)
        size: i64 = i64(raw_bytes)
        message = Message(data[at : at + size], i64(body_bytes), address)
        message.sequence = i32(sequence)
        found.append(message)
        at += size
    return found


def _address(method: bytes, suffix: bytes) -> Address:
    middle: i64 = 1 + i64(suffix[0])
    end: i64 = middle + 1 + i64(suffix[middle])
    address = Address(suffix[1:middle].decode(), suffix[middle + 1 : end].decode())
    address.method = method
    return address


class PieceOnDisk:
    """Where the records of one piece are: name of the file, offset, bytes. checksum: CRC-32, known
    when it has been written."""

    __slots__ = ("at", "bytes", "checksum", "name")

    def __init__(self, name: str, at: i64, bytes_: i64) -> None:
        self.name = name
        self.at: i64 = at
        self.bytes: i64 = bytes_
        self.checksum: i64 = 0


class WriteParked(Job):
    """Writes one file, of `places` in it the `messages`. A file that could not be written whole is
    removed again."""

    __slots__ = ("directory", "messages", "name", "places")

    def __init__(self, directory: Directory, name: str) -> None:
        self.directory = directory
        self.name = name
        self.places: list[PieceOnDisk] = []
        self.messages: list[list[Message]] = []

    def add(self, messages: list[Message], bytes_: i64) -> PieceOnDisk:
        """One piece more, of so many `record_bytes`, which are not changed until the job ends."""
        at: i64 = 0
        if self.places:
            last = self.places[-1]
            at = last.at + last.bytes
        place = PieceOnDisk(self.name, at, bytes_)
        self.places.append(place)
        self.messages.append(messages)
        return place

    def run(self) -> None:
        file = self.directory.create(self.name)
        try:
            self._write(file)
        except (OSError, MemoryError):
            with suppress(OSError):
                self.directory.remove(self.name)
            raise
        finally:
            file.close()

    def _write(self, file: File) -> None:
        for index in range(len(self.places)):
            place = self.places[index]
            data = encode(self.messages[index])
            assert len(data) == place.bytes, "because it was counted when it was charged"
            place.checksum = i64(crc32(data))
            write_fully(file, place.at, data)


class ReadParked(Job):
    """Reads one piece. messages: what it has; is_damaged: the bytes are not those that were
    written."""

    __slots__ = ("directory", "is_damaged", "messages", "place")

    def __init__(self, directory: Directory, place: PieceOnDisk) -> None:
        self.directory = directory
        self.place = place
        self.messages: list[Message] = []
        self.is_damaged = False

    def run(self) -> None:
        place = self.place
        file = self.directory.open(place.name)
        try:
            data = read_fully(file, place.at, place.bytes)
        finally:
            file.close()
        if len(data) != place.bytes or i64(crc32(data)) != place.checksum:
            self.is_damaged = True
            return
        self.messages = decode(data)


class RemoveParked(Job):
    """Removes one file. size: bytes that it took."""

    __slots__ = ("directory", "name", "size")

    def __init__(self, directory: Directory, name: str, size: i64) -> None:
        self.directory = directory
        self.name = name
        self.size: i64 = size

    def run(self) -> None:
        self.directory.remove(self.name)


def forget_all(directory: Directory) -> None:
    """Remove what another life has left. Raises: OSError."""
    for name in directory.names():
        if name.endswith(SUFFIX):
            directory.remove(name)
