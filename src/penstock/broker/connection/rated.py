"""A connection under rate limits: its publishes wait for tokens, and everything else goes on.

    no token, parking      the publish is held beside its channel, one each; reading continues, so
                           acks and methods are handled; the one that would be the second is kept,
                           and the socket is not read until there are tokens
    no token, no parking   reading stops at once, as for an alarm
A method that may not overtake a held publish waits with it. What is forced past (a channel or the
connection is closed) is paid for all the same: the next ones wait longer.
"""

from penstock.broker.actors.lane import Lane
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.holding import HoldingConnection
from penstock.flow.gate import Gate
from penstock.flow.rate import Meter, RatePayer, RateWaiter
from penstock.protocol.content import Message


class ConnectionWaiter(RateWaiter):
    """The connection as a meter sees it."""

    __slots__ = ("connection",)

    def __init__(self, connection: "RatedConnection") -> None:
        self.connection = connection

    def rate_due(self, now_ns: int) -> None:
        self.connection.rate_due(now_ns)


class RatedConnection(HoldingConnection):
    """What the base does for alarms and hops, for rate limits."""

    __slots__ = ()

    def set_meters(self, meters: list[Meter]) -> None:
        """From now on publishes pay at these; [] for no limit. What waits is asked again."""
        payer = self.rated
        if payer is None:
            if meters:
                self.rated = RatePayer(meters, ConnectionWaiter(self))
            return
        payer.leave()
        payer.meters = meters
        payer.paid = 0
        if meters:
            self.rate_due(self.line.clock.monotonic_ns())
            return
        self._blame_rate("")
        self.rated = None
        numbers = list(payer.held)
        # Empty before the reading goes on: nothing waits for this limit any more, and what is
        # still held waits for a hop or an alarm, behind which the next publish will stop.
        payer.held.clear()
        for number in numbers:
            channel = self.channels.get(number)
            if channel is not None and not self.alarms:
                self._release(channel, False)
        self._go_on_after_rate(payer)

    def is_above_rate(self, channel: Channel, lane: Lane, message: Message) -> bool:
        payer = self.rated
        assert payer is not None, "because the base asks only then"
        number = int(channel.number)
        if channel.held is not None:
            if number not in payer.held:
                return False
            self._hold(channel, message, payer.holder, "rate")
            return True
        if self.is_parking and lane.is_closed:
            return False
        now_ns = self.line.clock.monotonic_ns()
        if not payer.is_waiting() and payer.passes(len(message.raw), now_ns):
            return False
        self._wait(payer, now_ns)
        if not self.is_parking:
            self.stopped = message
            self.stopped_on = (payer.holder, "rate")
            self.gate.close(payer.holder, "rate")
            return True
        self._hold(channel, message, payer.holder, "rate")
        if self.stopped is not message:
            payer.held[number] = None
        return True

    def pays_rate(self, channel: Channel, held: Message, is_forced: bool) -> bool:
        payer = self.rated
        assert payer is not None, "because the base asks only then"
        number = int(channel.number)
        is_next = payer.first() == number
        size = len(held.raw)
        now_ns = self.line.clock.monotonic_ns()
        if is_forced:
            payer.pay_anyway(size, is_next and channel.held is held, now_ns)
        elif (payer.held and not is_next) or not payer.passes(size, now_ns):
            # Until now it waited for something else; it stands behind those that wait here.
            payer.held[number] = None
            self._wait(payer, now_ns)
            return False
        self._left_rate(payer, number)
        return True

    def rate_due(self, now_ns: int) -> None:
        """There are tokens: one publish may go, and the reading of others, if it was stopped."""
        payer = self.rated
        if payer is None:
            return
        payer.served_by = payer.waits_at
        payer.waits_at = None
        # What waits when an alarm is set goes when the alarm is over.
        if not self.alarms:
            self._release_next(payer)
        payer.served_by = None
        if self.alarms:
            return
        self._go_on_after_rate(payer)
        if payer.held:
            self._wait(payer, now_ns)
        elif self.stopped_on is None:
            self._blame_rate("")

    def stop_behind_rate(self, channel: Channel) -> bool:
        """A method that no publish may be overtaken by has arrived: if a rate limit holds a publish
        of `channel` read nothing more until it has gone, and say True."""
        payer = self.rated
        if payer is None or int(channel.number) not in payer.held:
            return False
        if self.stopped_on is None:
            self.stopped_on = (payer.holder, "rate")
            self.gate.close(payer.holder, "rate")
        return True

    def is_held_by_rate(self) -> bool:
        """Whether a publish waits for tokens now."""
        payer = self.rated
        return payer is not None and payer.is_waiting()

    def leave_rate(self, channel: Channel) -> None:
        """`channel` is gone, and its held publish with it."""
        payer = self.rated
        if payer is not None:
            self._left_rate(payer, int(channel.number))

    def end_rate(self) -> None:
        """The connection is gone."""
        payer = self.rated
        if payer is not None:
            payer.leave()
            self._blame_rate("")
            self.rated = None

    def gate_closed(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        # Holding for a rate is on record from the first held publish on, read on or not.
        if reason != "rate":
            super().gate_closed(gate, peer, reason, now_ns)

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        if reason != "rate":
            super().gate_opened(gate, peer, reason, now_ns)
        elif gate.is_open:
            self.wake()

    def _release_next(self, payer: RatePayer) -> None:
        """Let the publish go that has waited longest; those whose hop is closed wait for that."""
        while payer.held:
            number = payer.first()
            channel = self.channels.get(number)
            lane = None if channel is None else channel.upstream
            if channel is None or lane is None or lane.is_closed:
                del payer.held[number]
                continue
            self._release(channel, False)
            channel.wake()
            return

    def _go_on_after_rate(self, payer: RatePayer) -> None:
        stopped_on = self.stopped_on
        if stopped_on is None or stopped_on[1] != "rate":
            return
        kept = self.stopped
        if kept is None or int(kept.channel) not in payer.held:
            self._go_on()

    def _left_rate(self, payer: RatePayer, number: int) -> None:
        """The held publish of channel `number` has gone, or never waited here."""
        if number in payer.held:
            if payer.first() == number:
                payer.paid = 0
            del payer.held[number]
        if not payer.held and self.stopped_on is None:
            payer.leave()
            self._blame_rate("")

    def _wait(self, payer: RatePayer, now_ns: int) -> None:
        if payer.waits_at is None:
            self._blame_rate(payer.wait(now_ns).name)

    def _blame_rate(self, meter: str) -> None:
        """From now on the limit `meter` holds this connection; "" for none."""
        payer = self.rated
        if payer is None or payer.holder == meter:
            return
        before = payer.holder
        payer.holder = meter
        now_ns = self.line.clock.monotonic_ns()
        if meter != "":
            self.note_held(meter, "rate", now_ns)
        if before != "":
            self.note_freed(before, "rate", now_ns)
        if meter != "" and self.stopped_on == (before, "rate"):
            self.stopped_on = (meter, "rate")
            self.gate.close(meter, "rate")
            self.gate.open(before, "rate")
