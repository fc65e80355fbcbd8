"""RabbitMQ's credit_flow to the letter: what [R] means where we do not copy it.

Transitions: flow-semantics 2.2. Peers are names, messages between processes arrive at once, unless
a test keeps a grant back by `hold_grants`. Our emulation profiles must do the same as this, message
for message (tests/property/test_credit_twin), except in what scenarios 12, 13 and 19 show: those
are faults of it that no operator could want.
"""


class Process:
    """One Erlang process with its dictionary. spec: (initial, more_after); world: all, by name."""

    def __init__(self, name: str, spec: tuple[int, int], world: "dict[str, Process]") -> None:
        self.name = name
        self.initial, self.more = spec
        self.world = world
        self.send_credit: dict[str, int] = {}
        self.receive_count: dict[str, int] = {}
        self.blockers: list[str] = []
        self.deferred: list[str] = []
        self.held_grants: list[str] = []
        self.hold_grants = False
        world[name] = self

    def send(self, peer: str) -> None:
        credit = self.send_credit.get(peer, self.initial)
        if credit == 1:
            self.blockers.insert(0, peer)
        self.send_credit[peer] = credit - 1

    def ack(self, peer: str) -> None:
        """A message from `peer` was taken from the mailbox."""
        count = self.receive_count.get(peer, self.more)
        if count == 1:
            self._grant(peer)
            self.receive_count[peer] = self.more
        else:
            self.receive_count[peer] = count - 1

    def bump(self, peer: str) -> None:
        """A grant from `peer` is here. Nobody knows from which life of `peer`."""
        credit = self.send_credit.get(peer, 0)
        self.send_credit[peer] = credit + self.more
        if credit <= 0 < credit + self.more:
            self.unblock(peer)

    def peer_down(self, peer: str) -> None:
        """Grants deferred for `peer` stay, and are sent one day, to whoever has the name then."""
        self.unblock(peer)
        self.send_credit.pop(peer, None)
        self.receive_count.pop(peer, None)

    def unblock(self, peer: str) -> None:
        if peer in self.blockers:
            self.blockers.remove(peer)
        if not self.blockers:
            deferred, self.deferred = self.deferred, []
            for waiting in deferred:
                self._deliver(waiting)

    def window(self, peer: str) -> int:
        return self.send_credit.get(peer, self.initial)

    def release_grants(self) -> None:
        """What was under way arrives."""
        held, self.held_grants = self.held_grants, []
        for peer in held:
            self.world[peer].bump(self.name)

    def _grant(self, peer: str) -> None:
        if self.blockers:
            self.deferred.insert(0, peer)
        else:
            self._deliver(peer)

    def _deliver(self, peer: str) -> None:
        if self.hold_grants:
            self.held_grants.append(peer)
        else:
            self.world[peer].bump(self.name)
