"""A client that consumes: takes deliveries, thinks, answers, sometimes gives one back."""

from dataclasses import dataclass

from penstock.client.events import ChannelClosed, ClientEvent, Delivery, Replied
from penstock.protocol import methods as m
from penstock.simulation.laws.oracle import Identity
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.world.clients import Role
from penstock.simulation.world.publishing import identity_of


@dataclass(frozen=True, slots=True)
class Habit:
    """How one consumer behaves. prefetch: deliveries, 0 for no limit; is_global: of the whole
    channel; is_auto_ack; think_ns: longest time until an answer, 0 for at once; multiple_percent:
    answers that answer everything before them too; requeue_percent: deliveries given back."""

    queue: str
    prefetch: int = 0
    is_global: bool = False
    is_auto_ack: bool = False
    think_ns: int = 0
    multiple_percent: int = 20
    requeue_percent: int = 0


class ConsumingRole(Role):
    """One consumer on a channel of its own. It never ends by itself, so it is always done."""

    def __init__(self, habit: Habit) -> None:
        super().__init__()
        self.habit = habit
        self.is_done = True
        self.tag = ""
        self.started_after = 0
        self.waiting: dict[int, Identity] = {}
        self.delivered = 0

    def opened(self) -> None:
        super().opened()
        habit = self.habit
        session = self.client.session
        if habit.prefetch:
            session.request(self.channel, m.BasicQos(0, habit.prefetch, habit.is_global))
        self.consume()

    def consume(self) -> None:
        """Start the consumer."""
        habit = self.habit
        self.client.session.request(
            self.channel,
            m.BasicConsume(habit.queue, "", no_ack=habit.is_auto_ack),
        )

    def cancel(self) -> None:
        """End the consumer and keep the channel; what it was given is still to be answered."""
        self.client.session.request(self.channel, m.BasicCancel(self.tag))
        self.tag = ""
        self.client.flush()

    def consume_again(self) -> None:
        """After `cancel`."""
        if self.channel and not self.tag and self.client.is_open():
            self.consume()
            self.client.flush()

    def happened(self, event: ClientEvent) -> None:
        if isinstance(event, Delivery):
            # What was on its way when the channel failed has gone back, perhaps to another one.
            if not self.is_killed:
                self._delivered(event)
        elif isinstance(event, Replied) and isinstance(event.reply, m.BasicConsumeOk):
            self.tag = event.reply.consumer_tag
            self.started_after = max(self.waiting, default=0)
        elif isinstance(event, ChannelClosed) and event.code != 404 and not self.is_killed:
            raise LawBroken(f"{self.client.link.name}: {event.code} {event.text}")

    def _delivered(self, event: Delivery) -> None:
        client = self.client
        habit = self.habit
        identity = identity_of(event.body)
        self.delivered += 1
        client.books.delivered(habit.queue, client.key, identity, event.redelivered)
        tag = event.delivery_tag
        if habit.is_auto_ack:
            client.books.acknowledged(habit.queue, identity, -1)
            return
        self.waiting[tag] = identity
        if habit.prefetch:
            # A new consumer has a window of its own, unless it is the whole channel's.
            mine = sum(habit.is_global or one > self.started_after for one in self.waiting)
            if mine > habit.prefetch:
                raise LawBroken(f"{client.link.name}: {mine} > prefetch {habit.prefetch}")
        if habit.think_ns:
            client.timers.after(client.dice.between(1, habit.think_ns), lambda: self._answer(tag))
        else:
            self._answer(tag)

    def _answer(self, tag: int) -> None:
        client = self.client
        if not self.channel or client.is_over() or client.is_ending or tag not in self.waiting:
            return
        if client.dice.happens(self.habit.requeue_percent):
            del self.waiting[tag]
            client.session.request(self.channel, m.BasicReject(tag, True))
        else:
            is_multiple = client.dice.happens(self.habit.multiple_percent)
            tags = [one for one in self.waiting if one <= tag] if is_multiple else [tag]
            for one in tags:
                identity = self.waiting.pop(one)
                if not self.is_killed:
                    client.books.acknowledged(self.habit.queue, identity, client.key)
            client.session.ack(self.channel, tag, is_multiple)
        client.flush()

    def leaves(self) -> None:
        """It will end before everything is drained: what is on its way to it then is lost, where
        the broker waits for no answer."""
        if self.habit.is_auto_ack:
            self.client.books.leaky.add(self.habit.queue)

    def lost(self) -> None:
        self.waiting.clear()
        if self.habit.is_auto_ack:
            self.client.books.leaky.add(self.habit.queue)
