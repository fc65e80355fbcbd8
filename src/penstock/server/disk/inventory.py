"""What the stores had at the last clean stop, so that a file that is gone is missed.

    DIR/INVENTORY    a checksum, and JSON: files of every virtual host, and where its streams end

It is written when everything else is safe, and the next start keeps only the ends of streams of it,
before it changes anything: after a kill nobody knows which files there should be, but an offset
that was given once stays taken (reliability F14).
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from penstock.base.errors import OperatorError
from penstock.server.disk.local_files import LOCAL, LocalFiles
from penstock.storage.layout.format import OUTBOX_QUEUE_ID, acks_name, log_name
from penstock.storage.log.log import MessageLog
from penstock.streams.format import file_name
from penstock.streams.log import StreamLog

INVENTORY: Final = "INVENTORY"
NAMED_MAX: Final = 20
"""Files that are named one by one when they are gone; of more, how many they are."""
IS_GONE: Final = "is not there, and was at the last clean stop"
BACK: Final = "put it back from a copy while the broker is stopped"


class StreamFile(Struct):
    """queue_id: of its stream; first, next: its first offset, and the one behind its last."""

    queue_id: int
    first: int
    next: int


class VhostFiles(Struct):
    """Of one virtual host. segments: messages that count, by file and queue number; acks: files;
    streams: by file; ends: the offset a stream gives next, by queue number."""

    segments: dict[str, dict[int, int]] = msgspec.field(default_factory=dict)
    acks: list[str] = msgspec.field(default_factory=list)
    streams: dict[str, StreamFile] = msgspec.field(default_factory=dict)
    ends: dict[int, int] = msgspec.field(default_factory=dict)


Inventory = dict[str, VhostFiles]
"""By virtual host."""


@dataclass(slots=True)
class Missing:
    """What an inventory has and a folder has not. lost: messages, by queue number; offsets: of each
    stream, by queue number, first ones and those behind the last; files: name, and what is said of
    it."""

    lost: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    files: list[tuple[str, str]] = field(default_factory=list)

    def words(self) -> list[str]:
        """For the log, a line each."""
        lines = [f"{name} {text}" for name, text in self.files[:NAMED_MAX]]
        if len(self.files) > NAMED_MAX:
            lines.append(f"{len(self.files) - NAMED_MAX} more files are not there")
        return lines


def missing_segments(files: VhostFiles, path: Path) -> Missing:
    """What `files` has and the folder `path` of a message store has not."""
    found = Missing()
    for name, messages in files.segments.items():
        if (path / name).exists():
            continue
        for queue_id, count in messages.items():
            found.lost[queue_id] = found.lost.get(queue_id, 0) + count
        gone = f"up to {sum(messages.values())} messages of {len(messages)} queues are gone"
        found.files.append((name, f"{IS_GONE}: {gone}; {BACK}"))
    for name in files.acks:
        if not (path / name).exists():
            gone = "messages of its segment that were acknowledged come again"
            found.files.append((name, f"{IS_GONE}: {gone}; {BACK}"))
    return found


def missing_streams(files: VhostFiles, path: Path) -> Missing:
    """What `files` has and the folder `path` of streams has not; where all of them end."""
    found = Missing()
    for name, one in files.streams.items():
        if not (path / name).exists():
            found.lost[one.queue_id] = found.lost.get(one.queue_id, 0) + one.next - one.first
            found.offsets.setdefault(one.queue_id, []).append((one.first, one.next))
            gone = f"messages {one.first}..{one.next - 1} of a stream are gone"
            found.files.append((name, f"{IS_GONE}: {gone}; {BACK}"))
    for queue_id, end in files.ends.items():
        # Nothing is lost by this one, but its offsets were given.
        found.offsets.setdefault(queue_id, []).append((end, end))
    return found


def no_folder(path: Path, queues: int) -> str:
    """What people should know of a virtual host that has durable queues and no folder."""
    return (
        f"{path} is not there, and {queues} durable queues had their messages in it; put the "
        "directory back from a copy while the broker is stopped, or go on without them"
    )


# -- the file --------------------------------------------------------------------------------------


def read_inventory(directory: Path) -> Inventory:
    """{} if there is none. Raises: OSError; OperatorError for one that is damaged."""
    path = directory / INVENTORY
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    checksum, _, rest = data.partition(b"\n")
    try:
        if int(checksum, 16) != zlib.crc32(rest):
            raise ValueError
        return msgspec.json.decode(rest, type=Inventory)
    except (ValueError, msgspec.DecodeError) as error:
        raise OperatorError(
            f"{path} is damaged, so nobody can tell whether files of messages are gone; `penstock "
            "store check` reads those that are there"
        ) from error


def write_inventory(directory: Path, inventory: Inventory, files: LocalFiles = LOCAL) -> None:
    """Raises: OSError."""
    data = msgspec.json.encode(inventory)
    files.write_whole(directory / INVENTORY, b"%08x\n" % zlib.crc32(data) + data)


def take_inventory(directory: Path, files: LocalFiles = LOCAL) -> Inventory:
    """What the last clean stop has left; from here on the file has the ends of streams alone.

    Raises: OSError; OperatorError for one that is damaged."""
    found = read_inventory(directory)
    if found:
        ends = {name: VhostFiles(ends=one.ends) for name, one in found.items()}
        write_inventory(directory, ends, files)
    return found


# -- at a clean stop -------------------------------------------------------------------------------


def store_files(log: MessageLog, path: Path) -> VhostFiles:
    """What the message store `log`, which is closed, has in its folder `path`."""
    files = VhostFiles()
    for number, segment in sorted(log.segments.items()):
        if not (path / log_name(number)).exists():
            continue
        counts: dict[int, int] = {}
        for run in segment.runs:
            queue_id = int(run.table.queue_id)
            if run.live > 0 and queue_id < OUTBOX_QUEUE_ID:
                counts[queue_id] = counts.get(queue_id, 0) + int(run.live)
        files.segments[log_name(number)] = counts
        if (path / acks_name(number)).exists():
            files.acks.append(acks_name(number))
    return files


def stream_files(logs: Iterable[StreamLog], path: Path) -> VhostFiles:
    """What the streams `logs`, which are closed, have in their folder `path`."""
    files = VhostFiles()
    for log in logs:
        queue_id = int(log.queue_id)
        if log.next > 0:
            files.ends[queue_id] = int(log.next)
        for segment in log.segments:
            name = file_name(queue_id, segment.first)
            if segment.next > segment.first and (path / name).exists():
                files.streams[name] = StreamFile(queue_id, int(segment.first), int(segment.next))
    return files
