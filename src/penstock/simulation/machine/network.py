"""The simulated network: bounded pipes in both directions, cut at random places.

    client  --outbox-->  [ up pipe ]  --receive-->  connection
    client  <---------- [ down pipe ] <--pending--  SimulatedOutput
A pipe is what two kernels buffer: when it is full, the writer keeps the rest, exactly as a real
non-blocking socket makes it do. `SimulatedOutput` and `SimulatedShell` do for the simulator what
server/net/sockets does for real ones, in the same order.
"""

from penstock.broker.actors.output import Output, OutputLine, Shell
from penstock.broker.broker import Broker
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import ENDS, PHASE_CLOSED
from penstock.simulation.machine.dice import Dice


class Pipe:
    """Bytes on their way in one direction. `capacity`: bytes, 1.. ."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.is_ended = False
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def room(self) -> int:
        """Bytes it takes now; none after its end."""
        return 0 if self.is_ended else self.capacity - len(self._data)

    def put(self, data: bytes) -> bytes:
        """Take what there is room for; the rest."""
        room = self.room()
        self._data += data[:room]
        return data[room:]

    def take(self, count: int) -> bytes:
        """Up to `count` bytes, oldest first."""
        data = bytes(self._data[:count])
        del self._data[:count]
        return data

    def clear(self) -> int:
        """Lose what is on its way; how many bytes."""
        count = len(self._data)
        self._data.clear()
        return count


class SimulatedOutput(Output):
    """One connection's output into its down pipe. `pending`: bytes the pipe would not take yet."""

    def __init__(self, line: OutputLine, high_bytes: int, pipe: Pipe) -> None:
        super().__init__(line, high_bytes)
        self.pipe = pipe
        self.pending = b""
        self.is_closing = False
        self.shell: SimulatedShell | None = None

    def _send(self) -> None:
        data = self.filtered(self.writer.getvalue())
        self.writer.truncate(0)
        self.pending = self._offer(self.pending + data)
        self.held_bytes = len(self.pending)
        if not self.pending and self.is_closing and self.shell is not None:
            self.shell.close()

    def filtered(self, data: bytes) -> bytes:
        """What really goes out; planted bugs lose and repeat frames here."""
        return data

    def _offer(self, data: bytes) -> bytes:
        if self.pipe.is_ended:
            if data and self.shell is not None:
                self.shell.lost()
            return b""
        return self.pipe.put(data)

    def is_writable(self) -> bool:
        """Whether the pipe would take some of what is pending, or says that it has ended."""
        return len(self.pending) > 0 and (self.pipe.is_ended or self.pipe.room() > 0)

    def writable(self) -> None:
        """The peer has read: the pipe takes more."""
        self.pending = self._offer(self.pending)
        self.held_bytes = len(self.pending)
        has_sent_all = not self.pending and len(self.writer) == 0
        if has_sent_all and self.is_closing and self.shell is not None:
            self.shell.close()
        self.settle()


class SimulatedShell(Shell):
    """Owns one link's broker end until it is closed."""

    def __init__(self, broker: Broker, link: "SimulatedConnection") -> None:
        self.broker = broker
        self.link = link
        self.is_closed = False
        self.is_reading = True
        self.output = link.output
        self.output.shell = self
        self.connection: Connection = broker.accept("127.0.0.1", link.name, self.output, self)

    def is_readable(self) -> bool:
        """Whether a readiness loop would call `readable` and it would do something."""
        if self.is_closed or not self.is_reading:
            return False
        if len(self.link.up) == 0 and not self.link.is_vanished:
            return False
        return self.connection.can_receive() or not self.connection.gate.is_open

    def readable(self, dice: Dice) -> None:
        """There is input, or its end."""
        if not self.connection.can_receive():
            self.is_reading = False
            return
        data = self.link.receive(dice)
        if data:
            self.connection.receive(data)
        else:
            self.lost()

    def resume(self) -> None:
        if not self.is_closed:
            self.is_reading = True

    def close_after_output(self) -> None:
        self.output.is_closing = True
        self.output.mark()

    def lost(self) -> None:
        """The peer is gone."""
        self.close()

    def close(self) -> None:
        """Close the link and everything that hangs on it; again does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self.output.close()
        self.link.down.is_ended = True
        self.link.up.clear()
        if self.connection.phase != PHASE_CLOSED:
            self.connection.move(ENDS)
            self.broker.lost(self.connection)


class SimulatedConnection:
    """One client's connection to the broker: two pipes, the broker's shell and output.

    is_vanished: the client went without a word. The pipes never lose bytes while both ends live.
    """

    def __init__(self, name: str, up_bytes: int, down_bytes: int) -> None:
        self.name = name
        self.up = Pipe(up_bytes)
        self.down = Pipe(down_bytes)
        self.is_vanished = False
        self.output: SimulatedOutput
        self.shell: SimulatedShell

    def receive(self, dice: Dice) -> bytes:
        """Some of what the client has sent: the network cuts where it likes."""
        return self.up.take(dice.skewed(max(1, len(self.up))) if dice.happens(70) else 65_536)

    def vanish(self, is_reset: bool) -> None:
        """The client is gone; with `is_reset` what it had sent last may never arrive."""
        self.is_vanished = True
        if is_reset:
            self.up.clear()
        self.up.is_ended = True
        self.down.clear()
        self.down.is_ended = True
