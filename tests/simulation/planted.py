"""Bugs that were made on purpose, each in the place where it could really be made.

Every one is a strategy, an output, a shell, a picker or a broker with one thing wrong, or a fault
(injected_faults.py); `plant` brings it in through what `WorldSetting` makes a world of.
"""

from collections.abc import Callable
from functools import partial

from penstock.base.config import Config
from penstock.base.wire import read_i32_be
from penstock.broker.actors.actor import Actor
from penstock.broker.actors.output import OutputLine
from penstock.broker.broker import Broker, Log
from penstock.broker.connection.connection import Connection
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.hop import Hop
from penstock.flow.profile import Profile
from penstock.simulation.machine.clock import VirtualClock
from penstock.simulation.machine.dice import Dice, SeededPicker
from penstock.simulation.machine.network import (
    Pipe,
    SimulatedOutput,
    SimulatedShell,
)
from penstock.simulation.world.world import SimulatedBroker, WorldSetting

BLOCKED, UNBLOCKED = 0x0A003C, 0x0A003D
DELIVER = 0x3C003C
CONFIRM = 0x3C0050


def plant(setting: WorldSetting, kind: type[object]) -> WorldSetting:
    """`setting` with a bug of this kind in it."""
    setting.steps_max = 60_000
    if issubclass(kind, Faulty):
        setting.broker = partial(broker_of, kind)
    elif issubclass(kind, FaultyOutput):
        setting.output = kind
    elif issubclass(kind, SimulatedShell):
        setting.shell = kind
    elif issubclass(kind, SeededPicker):
        setting.picker = kind
    elif issubclass(kind, SimulatedBroker):
        setting.broker = kind
    else:
        assert issubclass(kind, InjectedFault), kind
        fault = kind()
        setting.broker = fault.enter
        setting.picker = fault.picker
    return setting


class InjectedFault:
    """Changes the state of real actors before every turn. Nominal base."""

    broker: SimulatedBroker

    def enter(
        self, config: Config, clock: VirtualClock, dice: Dice, log: Log, profile: Profile
    ) -> SimulatedBroker:
        """Into a broker."""
        self.broker = SimulatedBroker(config, clock, dice, log, profile)
        return self.broker

    def picker(self, dice: Dice, between_turns: Callable[[], None]) -> SeededPicker:
        """Lets it act before the laws are looked at."""

        def before() -> None:
            self.act(self.broker)
            between_turns()

        return SeededPicker(dice, before)

    def act(self, broker: Broker) -> None:
        raise NotImplementedError


# -- strategies ------------------------------------------------------------------------------------


class Faulty(Credit):
    """Credit with the profile's windows. Nominal base."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(
            "faulty",
            Window(profile.credit_initial, profile.credit_more_after, "messages"),
            Window(profile.credit_bytes_initial, profile.credit_bytes_more_after, "bytes"),
        )
        self.count = 0


class GrantsTwice(Faulty):
    def repay(self, hop: Hop, origin: Account, messages: int, bytes_: int) -> None:
        before = int(hop.balance)
        super().repay(hop, origin, messages, bytes_)
        granted = int(hop.balance) - before
        if granted > 0:
            hop.grant(granted, 0, hop.epoch)


class ForgetsToRepay(Faulty):
    def repay(self, hop: Hop, origin: Account, messages: int, bytes_: int) -> None:
        self.count += 1
        if self.count % 20:
            super().repay(hop, origin, messages, bytes_)


class LosesDeferredGrants(Faulty):
    def repay(self, hop: Hop, origin: Account, messages: int, bytes_: int) -> None:
        super().repay(hop, origin, messages, bytes_)
        if hop.deferred > 0 and hop in hop.receiver_gate.deferred:
            hop.receiver_gate.deferred.remove(hop)


class DoesNotDefer(Faulty):
    def repay(self, hop: Hop, origin: Account, messages: int, bytes_: int) -> None:
        super().repay(hop, origin, messages, bytes_)
        hop.release()


class ChargesSomebodyElse(Faulty):
    def charge(self, hop: Hop, origin: Account, messages: int, bytes_: int) -> None:
        self.count += 1
        payer = origin.parent if self.count % 30 == 0 else origin
        super().charge(hop, payer or origin, messages, bytes_)


class ChargesNoBytes(Faulty):
    def charge(self, hop: Hop, origin: Account, messages: int, bytes_: int) -> None:
        super().charge(hop, origin, messages, 0)


class BlocksLate(Faulty):
    """Closes at one below zero instead of at zero."""

    def charge(self, hop: Hop, origin: Account, messages: int, bytes_: int) -> None:
        hop.balance += 1
        super().charge(hop, origin, messages, bytes_)
        hop.balance -= 1


class NeverBlocks(Faulty):
    def charge(self, hop: Hop, origin: Account, messages: int, bytes_: int) -> None:
        hop.is_spent = True
        super().charge(hop, origin, messages, bytes_)
        hop.is_spent = False


class ForgetsTheDebtOfTheDead(Faulty):
    def forget(self, hop: Hop, origin: Account) -> None:
        messages, bytes_ = int(hop.in_flight), int(hop.in_flight_bytes)
        super().forget(hop, origin)
        origin.charge(messages, bytes_)


class RepaysTheDeadTwice(Faulty):
    def forget(self, hop: Hop, origin: Account) -> None:
        messages, bytes_ = int(hop.in_flight), int(hop.in_flight_bytes)
        super().forget(hop, origin)
        origin.repay(messages, bytes_)


def broker_of(
    kind: type[Faulty], config: Config, clock: VirtualClock, dice: Dice, log: Log, profile: Profile
) -> SimulatedBroker:
    """A broker that works by a faulty strategy."""
    broker = SimulatedBroker(config, clock, dice, log, profile)
    broker.context.strategy = kind(profile)
    return broker


# -- outputs ---------------------------------------------------------------------------------------


def frames(data: bytes) -> list[bytes]:
    """The frames of one send, which are always whole."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        size = int(read_i32_be(data, at + 3)) + 8
        found.append(data[at : at + size])
        at += size
    return found


def is_method(frame: bytes, identity: int) -> bool:
    return frame[0] == 1 and int(read_i32_be(frame, 7)) == identity


class FaultyOutput(SimulatedOutput):
    """An output that spoils frames. Nominal base."""

    def __init__(self, line: OutputLine, high_bytes: int, pipe: Pipe) -> None:
        super().__init__(line, high_bytes, pipe)
        self.count = 0

    def filtered(self, data: bytes) -> bytes:
        return b"".join(self.spoiled(frames(data))) if data.find(b"AMQP", 0, 4) else data

    def spoiled(self, sent: list[bytes]) -> list[bytes]:
        raise NotImplementedError


class LosesAConfirm(FaultyOutput):
    def spoiled(self, sent: list[bytes]) -> list[bytes]:
        kept = []
        for frame in sent:
            self.count += is_method(frame, CONFIRM)
            if not (is_method(frame, CONFIRM) and self.count >= 3):
                kept.append(frame)
        return kept


def twice(sent: list[bytes], method: int) -> list[bytes]:
    return [frame for one in sent for frame in ([one] * (2 if is_method(one, method) else 1))]


class RepeatsAConfirm(FaultyOutput):
    def spoiled(self, sent: list[bytes]) -> list[bytes]:
        return twice(sent, CONFIRM)


class RepeatsBlocked(FaultyOutput):
    def spoiled(self, sent: list[bytes]) -> list[bytes]:
        return twice(sent, BLOCKED)


class ForgetsUnblocked(FaultyOutput):
    def spoiled(self, sent: list[bytes]) -> list[bytes]:
        return [frame for frame in sent if not is_method(frame, UNBLOCKED)]


class ConfirmsBeforeReturns(FaultyOutput):
    def spoiled(self, sent: list[bytes]) -> list[bytes]:
        confirms = [frame for frame in sent if is_method(frame, CONFIRM)]
        return confirms + [frame for frame in sent if not is_method(frame, CONFIRM)]


def first_content(sent: list[bytes]) -> tuple[int, int] | None:
    """Where the first delivery of a send begins and ends."""
    for start, frame in enumerate(sent):
        if is_method(frame, DELIVER):
            stop = start + 1
            while stop < len(sent) and sent[stop][0] in (2, 3):
                stop += 1
            return start, stop
    return None


class LosesADelivery(FaultyOutput):
    def spoiled(self, sent: list[bytes]) -> list[bytes]:
        found = first_content(sent)
        self.count += found is not None
        if found is None or self.count != 5:
            return sent
        return sent[: found[0]] + sent[found[1] :]


class SwapsTwoContents(FaultyOutput):
    """The method frames stay, their contents change places."""

    def spoiled(self, sent: list[bytes]) -> list[bytes]:
        first = first_content(sent)
        if first is None:
            return sent
        second = first_content(sent[first[1] :])
        if second is None or second[0] != 0:
            return sent
        start, middle, stop = first[0], first[1], first[1] + second[1]
        return [
            *sent[: start + 1],
            *sent[middle + 1 : stop],
            sent[middle],
            *sent[start + 1 : middle],
            *sent[stop:],
        ]


# -- shells, pickers, brokers ----------------------------------------------------------------------


class DeafShell(SimulatedShell):
    """Never reads again once it has paused."""

    def resume(self) -> None:
        pass


class CarelessShell(SimulatedShell):
    """Does not tell the broker that its peer has vanished."""

    def lost(self) -> None:
        self.is_closed = True


class UnfairPicker(SeededPicker):
    """Gives one queue no turn as soon as somebody else is ready, and none at all in the end."""

    def can_pick(self, ready: list[Actor]) -> bool:
        self.parked = {"queue:/q1"}
        return super().can_pick(ready)


class ForgetfulBroker(SimulatedBroker):
    """Tells one connection too few that an alarm is over."""

    def clear_alarm(self, resource: str) -> None:
        names = list(self.connections)
        kept = self.connections.pop(names[-1]) if names else None
        super().clear_alarm(resource)
        if kept is not None:
            self.connections[kept.name] = kept


class HastyBroker(SimulatedBroker):
    """Takes the end of one alarm for the end of all."""

    def clear_alarm(self, resource: str) -> None:
        for source in list(self.alarms):
            super().clear_alarm(source.removeprefix("alarm:"))


class SilentBroker(SimulatedBroker):
    """Does not tell a connection that opens of the alarms there are."""

    def opened(self, connection: Connection) -> None:
        super().opened(connection)
        connection.alarms.clear()
