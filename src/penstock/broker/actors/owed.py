"""Who pays for the bytes that wait in one connection's output: debt all the way to the socket.

    sum of the runs <= bytes the socket has not taken        (after every send)
Deliveries of one cause in a row are one run: it is charged once, and repaid when the socket has
taken it, or when the socket closes. The buffer is sent in order, so a run is known to have gone
when what came after it is all that can still be waiting. Source: seed S4; scenario 101.
"""

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.protocol.content import NO_CAUSE


class Run:
    """Deliveries in a row that one cause was charged for."""

    __slots__ = ("bytes_", "messages", "origin")

    def __init__(self, origin: Cause, messages: i64, bytes_: i64) -> None:
        self.origin = origin
        self.messages: i64 = messages
        self.bytes_: i64 = bytes_


class Owed:
    """`origin`, `messages`, `bytes_`: the run that is being written and not charged yet, counted up
    by the output; `runs`: those charged, oldest first, `charged_bytes` together."""

    __slots__ = ("bytes_", "charged_bytes", "is_listed", "line", "messages", "origin", "runs")

    def __init__(self, line: "OwingLine") -> None:
        self.line = line
        self.is_listed = False
        self.origin = NO_CAUSE
        self.messages: i64 = 0
        self.bytes_: i64 = 0
        self.runs: list[Run] = []
        self.charged_bytes: i64 = 0

    def begin(self, origin: Cause) -> None:
        """The next delivery is caused by `origin`."""
        self.charge()
        self.origin = origin
        if not self.is_listed:
            self.is_listed = True
            self.line.owing.append(self)

    def charge(self) -> None:
        """Charge for the run that was being written."""
        messages: i64 = self.messages
        if messages == 0:
            return
        bytes_: i64 = self.bytes_
        origin = self.origin
        self.messages = 0
        self.bytes_ = 0
        self.charged_bytes += bytes_
        self.runs.append(Run(origin, messages, bytes_))
        origin.charge(messages, bytes_)

    def repay_down_to(self, waiting_bytes: i64) -> None:
        """The socket has taken all but `waiting_bytes`."""
        runs = self.runs
        count: i64 = len(runs)
        if waiting_bytes == 0:
            self.runs = []
            self.charged_bytes = 0
        else:
            left: i64 = self.charged_bytes
            gone: i64 = 0
            while gone < count and left - runs[gone].bytes_ >= waiting_bytes:
                left -= runs[gone].bytes_
                gone += 1
            if gone == 0:
                return
            count = gone
            self.charged_bytes = left
            self.runs = runs[count:]
        index: i64 = 0
        while index < count:
            run = runs[index]
            run.origin.repay(run.messages, run.bytes_)
            index += 1

    def by_origin(self) -> dict[Cause, tuple[int, int]]:
        """(messages, bytes) that wait for the socket, by who pays for them."""
        sums: dict[Cause, tuple[int, int]] = {}
        for run in self.runs:
            messages, bytes_ = sums.get(run.origin, (0, 0))
            sums[run.origin] = (messages + int(run.messages), bytes_ + int(run.bytes_))
        return sums

    def repay_all(self) -> None:
        """Nothing more will be sent."""
        self.messages = 0
        self.bytes_ = 0
        self.repay_down_to(0)


class OwingLine:
    """The outputs with a run that is not charged; owner: the output line."""

    __slots__ = ("owing",)

    def __init__(self) -> None:
        self.owing: list[Owed] = []

    def charge_all(self) -> None:
        """Charge for everything written until now."""
        owing = self.owing
        if owing:
            self.owing = []
            for owed in owing:
                owed.is_listed = False
                owed.charge()
                owed.origin = NO_CAUSE
