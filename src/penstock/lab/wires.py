"""The lab's network: the simulator's pipes, with a trip time and a speed.

    program --outbox--> [ up pipe: on its way | arrived ] --read--> connection
    program <---------- [ down pipe ] <------------------ output
Bytes arrive trip_ns after they were sent, or later where those before them still occupy the wire.
"""

from collections.abc import Callable

from penstock.broker.actors.output import OutputLine
from penstock.broker.broker import Broker
from penstock.lab.model import Network
from penstock.lab.processor import WorkClock
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.network import Link, Pipe, SimulatedOutput, SimulatedShell

READ_BYTES = 65_536


class Wire:
    """One direction: when what is sent now has arrived."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._free_ns = 0

    def arrives_ns(self, now_ns: int, size: int) -> int:
        """Send `size` bytes at `now_ns`."""
        self._free_ns = max(self._free_ns, now_ns) + int(size * self.network.byte_ns)
        return self._free_ns + self.network.trip_ns


class LabLink(Link):
    """One connection. `arrived`: bytes of the up pipe that the broker can read now."""

    def __init__(self, name: str, network: Network, clock: WorkClock) -> None:
        super().__init__(name, network.up_bytes, network.down_bytes)
        self.up_wire = Wire(network)
        self.down_wire = Wire(network)
        self.arrived = 0
        self.clock = clock

    def receive(self, dice: Dice) -> bytes:
        """One read of the socket, which is work."""
        data = self.up.take(min(READ_BYTES, self.arrived))
        self.arrived -= len(data)
        costs = self.clock.costs
        self.clock.charge(costs.read_ns + costs.read_byte_ns * len(data))
        return data


class LabOutput(SimulatedOutput):
    """Sending is work too. `sent`: called with how many bytes the pipe has taken."""

    def __init__(
        self,
        line: OutputLine,
        high_bytes: int,
        pipe: Pipe,
        clock: WorkClock,
        sent: Callable[[int], None],
    ) -> None:
        super().__init__(line, high_bytes, pipe)
        self.clock = clock
        self.sent = sent

    def _offer(self, data: bytes) -> bytes:
        if not data:
            return b""
        rest = super()._offer(data)
        taken = len(data) - len(rest)
        costs = self.clock.costs
        self.clock.charge(costs.send_ns + costs.send_byte_ns * taken)
        if taken > 0:
            self.sent(taken)
        return rest


class LabShell(SimulatedShell):
    """The broker's end. `readable_now`: called when reading may go on."""

    def __init__(self, broker: Broker, link: LabLink, readable_now: Callable[[], None]) -> None:
        super().__init__(broker, link)
        self.lab_link = link
        self.readable_now = readable_now

    def is_readable(self) -> bool:
        return not self.is_closed and self.is_reading and self.lab_link.arrived > 0

    def resume(self) -> None:
        super().resume()
        if self.lab_link.arrived > 0:
            self.readable_now()
