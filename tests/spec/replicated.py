"""A stand-in for a replicated queue: a leader that applies commands, and its client in a channel.

The leader can be parked, stepped, killed and elected anew, which is all the soft limit needs; there
are no replicas. The client numbers its commands and keeps each until it is applied; a new leader is
sent all of them again, in order, and applies each once, because it knows the highest number it has
applied. Source: flow-semantics 8.1, 8.2; scenarios 77-82.
"""

from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.gate import Gate
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE, Hop
from penstock.flow.pending import SoftLimit


class Command:
    """number: 1.. per client; body: of a publish; settled: numbers of deliveries, of a settle."""

    def __init__(self, number: int, body: bytes, settled: tuple[int, ...]) -> None:
        self.number = number
        self.body = body
        self.settled = settled


class Leader:
    """name: of the queue; bodies: in the queue, in order; settled: deliveries answered."""

    def __init__(self, name: str, gate: Gate) -> None:
        self.name = name
        self.gate = gate
        self.is_alive = True
        self.bodies: list[bytes] = []
        self.settled: list[int] = []
        self.clients: list[ReplicatedClient] = []
        self._inbox: list[tuple[ReplicatedClient, Command]] = []
        self._applied: dict[ReplicatedClient, int] = {}

    def propose(self, client: "ReplicatedClient", command: Command) -> None:
        """A command arrives; it is lost if there is no leader."""
        if self.is_alive:
            self._inbox.append((client, command))

    def step(self, count: int, is_answering: bool = True) -> None:
        """Apply `count` commands; without `is_answering` the answers are lost, as in a crash."""
        batch, self._inbox = self._inbox[:count], self._inbox[count:]
        for client, command in batch:
            if command.number > self._applied.get(client, 0):
                self._applied[client] = command.number
                if command.body:
                    self.bodies.append(command.body)
                self.settled.extend(command.settled)
            if is_answering:
                client.applied(command.number)

    def die(self) -> None:
        """What was not applied is gone; what was is in the log of the others."""
        self.is_alive = False
        self._inbox.clear()

    def elected(self) -> None:
        """A new leader: every client sends again what it has no answer for."""
        self.is_alive = True
        for client in self.clients:
            client.resend()

    def delete(self) -> None:
        """The queue is gone, for good."""
        self.is_alive = False
        self._inbox.clear()
        for client in self.clients:
            client.queue_gone()
        self.clients.clear()


class ReplicatedClient:
    """One channel's side. confirmed, refused: numbers of publishes, in order of answers;
    sent: commands sent so far, again or not; kept: settles that wait while the leader is slow."""

    def __init__(
        self, leader: Leader, sender: Gate, origin: Account, strategy: Strategy, rule: SoftLimit
    ) -> None:
        self.leader = leader
        self.origin = origin
        self.strategy = strategy
        self.rule = rule
        self.hop = Hop(sender.name, LAYER_CHANNEL, sender, leader.name, LAYER_QUEUE, leader.gate)
        self.pending: dict[int, Command] = {}
        self.kept: list[int] = []
        self.confirmed: list[int] = []
        self.refused: list[int] = []
        self.sent = 0
        self._next = 1
        strategy.wire(self.hop)
        leader.clients.append(self)

    def publish(self, body: bytes) -> None:
        """Propose a publish; `body` is not empty. Whoever obeys looks at the gate first."""
        self._send(Command(self._next, body, ()))

    def settle(self, *deliveries: int) -> None:
        """Propose that `deliveries` are answered, or keep them while the leader is slow."""
        if self.rule.is_slow(self.hop):
            self.kept.extend(deliveries)
        else:
            self._send(Command(self._next, b"", deliveries))

    def _send(self, command: Command) -> None:
        self._next += 1
        self.pending[command.number] = command
        self.sent += 1
        self.strategy.charge(self.hop, self.origin, 1, len(command.body))
        self.leader.propose(self, command)

    def applied(self, number: int) -> None:
        """The leader has applied a command; an answer that comes twice is known."""
        command = self.pending.pop(number, None)
        if command is None:
            return
        if command.body:
            self.confirmed.append(number)
        self.strategy.repay(self.hop, self.origin, 1, len(command.body))
        if self.kept and not self.rule.is_slow(self.hop):
            kept, self.kept = self.kept, []
            self.settle(*kept)

    def resend(self) -> None:
        """There is a new leader."""
        for command in self.pending.values():
            self.sent += 1
            self.leader.propose(self, command)

    def queue_gone(self) -> None:
        """No answer will come: publishes are refused, and nobody is held any more."""
        self.refused.extend(number for number, one in self.pending.items() if one.body)
        self.pending.clear()
        self.kept.clear()
        self.strategy.forget(self.hop, self.origin)
