"""What clients of a cluster did and saw, as a file, and what must be true of it.

A line for each thing, in the order in which one client saw it: a publisher sent or got a confirm, a
consumer got a delivery. The checks are those of Jepsen's tests of queues and logs.
"""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

SENT: Final = "sent"
CONFIRMED: Final = "confirmed"
DELIVERED: Final = "delivered"
CONNECTED: Final = "connected"
PAUSE_S: Final = 0.2
"""Between two deliveries of which another leader may have made the second: a failover takes longer,
and what is in its log twice is delivered sooner."""
SETTLED_S: Final = 5.0
"""An acknowledgement that a client wrote so long before it lost its connection has been taken."""


class Happened(msgspec.Struct, frozen=True, array_like=True):
    """at_s: by the clock of the run; kind: connected is of a consumer; publisher, number: of the
    message; offset: in a stream, -1 for a queue; is_again: delivered as one that may have been
    delivered before."""

    at_s: float
    kind: str
    publisher: str
    number: int
    offset: int = -1
    is_again: bool = False


@dataclass(slots=True)
class Verdict:
    """lost: confirmed and never delivered; invented: delivered and never sent; disordered: first
    deliveries behind later ones of their publisher; repeated: delivered again though they were sent
    once, without the mark, and neither because the consumer's connection was lost at that time nor
    early; early: had been delivered before they were confirmed, by a leader that was gone before
    its log had them, and again by the next, which a quorum queue does not do; gaps: places in a
    stream where offsets do not count on; duplicates: deliveries beyond the first, allowed ones
    included."""

    sent: int = 0
    confirmed: int = 0
    delivered: int = 0
    duplicates: int = 0
    early: int = 0
    lost: list[tuple[str, int]] = field(default_factory=list)
    invented: list[tuple[str, int]] = field(default_factory=list)
    disordered: list[tuple[str, int]] = field(default_factory=list)
    repeated: list[tuple[str, int]] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.invented or self.disordered or self.repeated or self.gaps)

    def words(self) -> str:
        """One line."""
        return (
            f"sent {self.sent:,}  confirmed {self.confirmed:,}  delivered {self.delivered:,}  "
            f"lost {len(self.lost)}  invented {len(self.invented)}  out of order "
            f"{len(self.disordered)}  delivered again {self.duplicates}, of which "
            f"{self.early} before they were confirmed, {len(self.repeated)} should not have been"
        )


def judge(history: list[Happened], *, is_stream: bool = False, is_quorum: bool = False) -> Verdict:
    """Look at everything that happened to one queue, drained in the end, or to one stream that was
    read once from its beginning. is_quorum: the queue delivers what is committed."""
    found = Verdict()
    sent: Counter[tuple[str, int]] = Counter()
    confirmed: set[tuple[str, int]] = set()
    delivered: Counter[tuple[str, int]] = Counter()
    unmarked: Counter[tuple[str, int]] = Counter()
    first_s: dict[tuple[str, int], float] = {}
    confirmed_s: dict[tuple[str, int], float] = {}
    again_s: dict[tuple[str, int], float] = {}
    furthest: dict[str, int] = defaultdict(lambda: -1)
    recent: deque[tuple[float, tuple[str, int]]] = deque()
    unsettled: set[tuple[str, int]] = set()
    before = -1
    for one in history:
        message = (one.publisher, one.number)
        if one.kind == SENT:
            sent[message] += 1
        elif one.kind == CONFIRMED:
            confirmed.add(message)
            confirmed_s[message] = one.at_s
        elif one.kind == CONNECTED:
            unsettled.update(message for _, message in recent)
        elif one.kind == DELIVERED:
            delivered[message] += 1
            unmarked[message] += not one.is_again
            recent.append((one.at_s, message))
            while recent[0][0] < one.at_s - SETTLED_S:
                recent.popleft()
            if is_stream and before >= 0 and one.offset != before + 1:
                found.gaps.append(one.offset)
            before = one.offset
            if delivered[message] == 1:
                first_s[message] = one.at_s
                if one.number < furthest[one.publisher]:
                    found.disordered.append(message)
                furthest[one.publisher] = max(furthest[one.publisher], one.number)
            elif not one.is_again and message not in unsettled:
                found.repeated.append(message)
                again_s[message] = one.at_s
    # A publisher and a consumer do not write in one order: what was sent twice is known only now.
    # Each copy of it may come once without the mark, however often both come with it.
    found.repeated = [one for one in found.repeated if unmarked[one] > sent[one]]
    early = {
        one
        for one in found.repeated
        if not is_quorum
        and first_s[one] < confirmed_s.get(one, again_s[one])
        and again_s[one] - first_s[one] >= PAUSE_S
    }
    found.early = len(early)
    found.repeated = [one for one in found.repeated if one not in early]
    found.sent = len(sent)
    found.confirmed = len(confirmed)
    found.delivered = len(delivered)
    found.duplicates = sum(delivered.values()) - len(delivered)
    found.lost = sorted(confirmed - delivered.keys())
    found.invented = sorted(delivered.keys() - sent.keys())
    return found


def write_history(path: Path, history: list[Happened]) -> None:
    """A line of JSON each. Raises: OSError."""
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in history))


def read_history(path: Path) -> list[Happened]:
    """Raises: OSError; msgspec.DecodeError."""
    return [
        msgspec.json.decode(line, type=Happened) for line in path.read_bytes().splitlines() if line
    ]
