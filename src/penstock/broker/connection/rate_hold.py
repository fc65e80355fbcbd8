"""What rate limits do to the publishes of one connection. COMPILED."""

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.parking import RATE, ParkedPublish
from penstock.broker.connection.reading_stop import ReadingStop
from penstock.flow.rate import RatePayer
from penstock.protocol.content import Message


class RateHold:
    """Has `payer` pay for each publish of a connection, and says which have to wait for tokens.

    connection: on whose record it is who holds it; stop: what it reads nothing for."""

    __slots__ = ("connection", "payer", "stop")

    def __init__(self, connection: Actor, payer: RatePayer, stop: ReadingStop) -> None:
        self.connection = connection
        self.payer = payer
        self.stop = stop

    def holds(self, channel: Channel, lane: Lane, message: Message, is_parking: bool) -> bool:
        """Whether a limit holds `message`, which has just come; False if it is paid for, or waits
        for something else first."""
        payer = self.payer
        if channel.parking.entrance:
            return int(channel.number) in payer.held
        if is_parking and lane.is_closed:
            return False
        now_ns = self.connection.line.clock.monotonic_ns()
        if not payer.is_waiting() and payer.passes(len(message.raw), now_ns):
            return False
        self.wait(now_ns)
        return True

    def parked(self, channel: Channel) -> None:
        """A publish of `channel` that a limit holds is parked."""
        if channel.parking.entrance:
            self.payer.held[int(channel.number)] = None

    def pays(self, channel: Channel, parked: ParkedPublish) -> bool:
        """Whether `parked`, the first of its channel, is paid for and may leave."""
        payer = self.payer
        number = int(channel.number)
        now_ns = self.connection.line.clock.monotonic_ns()
        is_behind = len(payer.held) > 0 and payer.first() != number
        if is_behind or not payer.passes(int(parked.size), now_ns):
            # Until now it waited for something else; it stands behind those that wait here.
            parked.reason = RATE
            payer.held[number] = None
            self.wait(now_ns)
            return False
        self.left(number)
        return True

    def pay_anyway(self, channel: Channel, message: Message, is_first: bool) -> None:
        """`message` goes past every limit, and into debt. is_first: of those of its channel."""
        payer = self.payer
        number = int(channel.number)
        is_next = is_first and payer.first() == number
        payer.pay_anyway(len(message.raw), is_next, self.connection.line.clock.monotonic_ns())
        self.left(number)

    def next_channel(self, channels: dict[int, Channel]) -> Channel | None:
        """Whose publish has waited longest of those that wait for nothing else."""
        held = self.payer.held
        while held:
            number = self.payer.first()
            channel = channels.get(number)
            lane = None if channel is None else channel.upstream
            if lane is not None and not lane.is_closed:
                return channel
            del held[number]
        return None

    def left(self, number: int) -> None:
        """The held publish of channel `number` has gone, or never waited here."""
        payer = self.payer
        if number in payer.held:
            if payer.first() == number:
                payer.paid = 0
            del payer.held[number]
        if not payer.held and self.stop.by is None:
            self.end()

    def wait(self, now_ns: int) -> None:
        """Stand in line at the meter that must be paid next."""
        if self.payer.waits_at is None:
            self.blame(self.payer.wait(now_ns).name)

    def end(self) -> None:
        """Nothing waits for tokens any more."""
        self.payer.leave()
        self.blame("")

    def blame(self, meter: str) -> None:
        """From now on the limit `meter` holds the connection; "" for none."""
        payer = self.payer
        before = payer.holder
        if before == meter:
            return
        payer.holder = meter
        connection = self.connection
        now_ns = connection.line.clock.monotonic_ns()
        if meter != "":
            connection.note_held(meter, RATE, now_ns)
        if before != "":
            connection.note_freed(before, RATE, now_ns)
        if meter != "":
            self.stop.pass_on(before, RATE, meter, RATE)
