"""Consumers and basic.get: consume, cancel, get, qos, client-side flow, settles, recover.

Reply codes and texts are RabbitMQ's (rabbit_channel).

A basic.get whose message rests on the disk is parked until that is read, and one of a quorum queue
whose messages all wait for the store until it has answered for them. What came behind it on its
channel waits with it, so answers keep their order; publishes go on.
"""

from itertools import islice

from penstock.base.errors import ChannelFault, ConnectionFault
from penstock.base.limits import CONSUMERS_PER_CHANNEL
from penstock.broker.actors.cleanup import QUEUE_UNITS
from penstock.broker.actors.confirms import Commits
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.content_rules import PropertyRules
from penstock.broker.channel.settling import unknown_tag
from penstock.broker.channel.transactions import ACK, DROP, REQUEUE, Transaction
from penstock.broker.lease.lease_actor import LeaseReads
from penstock.broker.lease.lease_manager import GROUP_ARGUMENT
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.queue.uncommitted import ReadWaiter
from penstock.broker.session.declare import Declarations
from penstock.broker.session.lease_requests import read_lease
from penstock.broker.session.piecewise import (
    REFUSING,
    commit_some,
    look_at_commits,
    perform_again,
)
from penstock.broker.session.session import Session
from penstock.broker.vhost.queue_arguments import check_consumer
from penstock.broker.vhost.vhost import REPLY_TO_NAME
from penstock.protocol import methods as m
from penstock.protocol.content import write_content
from penstock.protocol.methods.codec import method_frame
from penstock.queues.consumers import Consumer
from penstock.telemetry.answer_times import TX_COMMIT

PRIORITY_MAX = (1 << 62) - 1
"""Of a consumer, either way: compiled code counts in 64 bits."""


class GetWaiter(ReadWaiter):
    """The channel that asked."""

    __slots__ = ("channel",)

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def go_on(self) -> None:
        self.channel.inbox.unpark()
        self.channel.wake()

    def is_gone(self) -> bool:
        return self.channel.inbox.is_ending or not self.channel.is_alive


def wait_for_first(channel: Channel, actor: QueueActor) -> bool:
    """Park the basic.get that `channel` is about, if `actor` has its message on the disk, or has
    nothing but what its store has not answered for; False if there is none to wait for, or the
    channel is about to end."""
    inbox = channel.inbox
    if inbox.is_ending:
        return False
    paging = actor.paging
    uncommitted = actor.uncommitted
    if paging is not None and paging.is_read_awaited():
        paging.wait(GetWaiter(channel))
    elif (
        uncommitted is not None
        and uncommitted.count > 0
        and not inbox.has_waited
        and not actor.is_paused
        and actor.messages.ready_count() == 0
    ):
        # For what was published before, as in RabbitMQ, and not for what consumers are given.
        inbox.has_waited = True
        uncommitted.wait(GetWaiter(channel))
    else:
        return False
    inbox.is_parked = True
    return True


class Consuming:
    """The verbs on consumers for one session."""

    __slots__ = ("declarations", "session")

    def __init__(self, session: Session, declarations: Declarations) -> None:
        self.session = session
        self.declarations = declarations

    def consume(self, channel: Channel, q: m.BasicConsume) -> m.Method | None:
        name = self.declarations.named(int(channel.number), q.queue, 60, 20)
        tag = q.consumer_tag
        if tag == "":
            tag = self.session.host.fresh_name("amq.ctag-")
        elif tag in channel.consumers:
            raise ConnectionFault(530, f"attempt to reuse consumer tag '{tag}'", 60, 20)
        if len(channel.consumers) >= CONSUMERS_PER_CHANNEL.default:
            raise ConnectionFault(
                530,
                f"consumer limit per channel ({CONSUMERS_PER_CHANNEL.default}) is reached",
                60,
                20,
            )
        if name == REPLY_TO_NAME:
            actor = self._reply_queue(channel, q)
        else:
            actor = self.declarations.readable(int(channel.number), name, 60, 20)
        check_consumer(actor.name, actor.vhost, actor.arguments, q, channel.prefetch)
        is_single = actor.choice is not None and actor.choice.is_single
        if actor.exclusive_consumer is not None or (q.exclusive and (is_single or actor.consumers)):
            raise _in_exclusive_use(actor)
        consumer = Consumer(
            tag,
            actor.client,
            channel.sink,
            channel.unsent_of(actor.name),
            q.no_ack,
            q.exclusive,
            channel.prefetch,
            dict(q.arguments),
        )
        consumer.prefetch_bytes = channel.prefetch_bytes
        priority = q.arguments.get("x-priority", 0)
        assert isinstance(priority, int), "because check_consumer has looked at it"
        consumer.priority = max(-PRIORITY_MAX, min(PRIORITY_MAX, priority))
        consumer.holder = self.session.connection.identity
        consumer.started_ns = channel.line.clock.monotonic_ns()
        is_of_lease = GROUP_ARGUMENT in q.arguments
        if is_of_lease:
            read_lease(self.session.host.leases, actor, consumer)
        channel.add_consumer(consumer, actor)
        if len(channel.consumers) == 1:
            look_at_commits(self.session.connection)
        channel.parking.lot.share()
        # consume-ok first: a delivery for a tag the client does not know yet would be a fault.
        if not q.no_wait:
            _send(channel, m.BasicConsumeOk(tag))
        if not is_of_lease:
            actor.add_consumer(consumer)
        return None

    def _reply_queue(self, channel: Channel, q: m.BasicConsume) -> QueueActor:
        """Direct reply-to: a queue of this channel alone, under a name that cannot be guessed."""
        publisher = channel.publisher
        rules = publisher.rules
        assert isinstance(rules, PropertyRules), "the broker gives channels these rules"
        if not q.no_ack:
            raise ChannelFault(406, "reply consumer cannot acknowledge", 60, 20)
        if rules.reply_queue != "":
            raise ChannelFault(406, "reply consumer already set", 60, 20)
        name = self.session.host.fresh_name(REPLY_TO_NAME + ".")
        actor = self.session.host.make_queue(
            self.session.vhost, name, False, True, self.session.owner, {}
        )
        self.session.vhost.add_queue(actor)
        publisher.rules = PropertyRules(rules.rights, rules.frame_bytes_max)
        publisher.rules.reply_queue = name
        return actor

    def cancel(self, channel: Channel, q: m.BasicCancel) -> m.Method | None:
        self.remove(channel, q.consumer_tag)
        return None if q.no_wait else m.BasicCancelOk(q.consumer_tag)

    def remove(self, channel: Channel, tag: str) -> None:
        """Take a consumer away; an auto-delete queue that loses its last one goes too."""
        consumer = channel.consumers.pop(tag, None)
        actor = channel.queues_of.pop(tag, None)
        if consumer is not None and isinstance(consumer.queue, LeaseReads):
            consumer.queue.actor.end_read(consumer)
        if consumer is None or actor is None or consumer not in actor.consumers:
            return
        actor.remove_consumer(consumer)
        rules = channel.publisher.rules
        if isinstance(rules, PropertyRules) and rules.reply_queue == actor.name:
            rules.reply_queue = ""
        if actor.auto_delete and actor.had_consumers and not actor.consumers:
            self.session.vhost.remove_queue(actor)

    def remove_some(self, channel: Channel, left: int) -> int:
        """Take consumers away, the oldest first, as far as `left` units go, see actors/cleanup; the
        units that are left."""
        for tag in list(islice(channel.consumers, max(0, left))):
            if left <= 0:
                break
            actor = channel.queues_of.get(tag)
            ends = actor is not None and actor.auto_delete and len(actor.consumers) == 1
            self.remove(channel, tag)
            left -= QUEUE_UNITS if ends else 1
        return left

    def get(self, channel: Channel, q: m.BasicGet) -> m.Method | None:
        actor = self.declarations.readable(int(channel.number), q.queue, 60, 70)
        actor.check_verb("basic.get", 60, 70)
        message = actor.get()
        if message is None:
            if wait_for_first(channel, actor):
                return None
            channel.inbox.has_waited = False
            actor.got_empty_count += 1
            return m.BasicGetEmpty()
        redelivered = actor.messages.redelivered
        channel.inbox.has_waited = False
        channel.parking.lot.share()
        if q.no_ack:
            actor.get_done(message)
            actor.auto_got_count += 1
            tag = channel.table.skip()
        else:
            actor.get_unacked(message)
            actor.got_count += 1
            # Prefetch counts deliveries to consumers alone, as in RabbitMQ.
            tag = channel.table.add(message, actor.client, None, actor.messages.position)
            if channel.table.count == 1:
                look_at_commits(self.session.connection)
        _send(
            channel,
            m.BasicGetOk(
                int(tag),
                redelivered,
                message.address.exchange,
                message.address.routing_key,
                int(actor.ready_behind()),
            ),
        )
        shown = actor.client.shown(message)
        write_content(channel.output.writer, shown, channel.number, channel.frame_bytes_max)
        channel.output.note_answered(message.origin, len(message.raw))
        return None

    def qos(self, channel: Channel, q: m.BasicQos) -> m.Method | None:
        """Windows for the channel (global=true), or for its consumers started from now on (89)."""
        if q.prefetch_size != 0 and self.session.is_emulating:
            raise ConnectionFault(540, f"prefetch_size!=0 ({q.prefetch_size})", 60, 10)
        if q.global_:
            channel.sink.prefetch = q.prefetch_count
            channel.sink.prefetch_bytes = q.prefetch_size
            # qos-ok first, as in RabbitMQ: it is not to wait behind all that may come now.
            _send(channel, m.BasicQosOk())
            channel.offer_consumers()
            return None
        else:
            channel.prefetch = q.prefetch_count
            channel.prefetch_bytes = q.prefetch_size
        return m.BasicQosOk()

    def flow(self, channel: Channel, q: m.ChannelFlow) -> m.Method | None:
        """The client pauses or resumes its deliveries, as the specification says (61), or means
        by it the flow-ok that it owes us (59)."""
        if self.session.connection.notifier.takes_as_reply(channel, q.active):
            return None
        if not q.active and self.session.host.context.profile.broadcasts_flow:
            # RabbitMQ 1.5 answered so, and did nothing.
            return m.ChannelFlowOk(True)
        if not q.active and self.session.is_emulating:
            raise ConnectionFault(540, "active=false", 20, 20)
        channel.sink.is_flow_active = q.active
        if q.active:
            channel.offer_consumers()
        return m.ChannelFlowOk(q.active)

    # -- settles ---------------------------------------------------------------------------------

    def acknowledge(self, channel: Channel, tag: int, is_multiple: bool) -> None:
        """basic.ack within a transaction."""
        self._settle(channel, tag, is_multiple, ACK, 80)

    def reject(self, channel: Channel, q: m.BasicReject) -> m.Method | None:
        self._settle(channel, q.delivery_tag, False, REQUEUE if q.requeue else DROP, 90)
        return None

    def nack(self, channel: Channel, q: m.BasicNack) -> m.Method | None:
        self._settle(channel, q.delivery_tag, q.multiple, REQUEUE if q.requeue else DROP, 120)
        return None

    def _settle(
        self, channel: Channel, tag: int, is_multiple: bool, action: int, method_id: int
    ) -> None:
        if tag >= 1 << 63:
            # Compiled code counts tags in 64 bits with sign.
            tag -= 1 << 64
        transaction = channel.transaction
        if transaction is None:
            apply_settle(channel, tag, is_multiple, action, method_id)
            return
        if is_multiple and tag == 0:
            # All there are now; what is delivered before the commit is not meant.
            tag = int(channel.table.next_tag) - 1
        elif transaction.is_settled(tag) or not channel.table.is_known(tag):
            raise unknown_tag(tag, method_id)
        transaction.settle(tag, is_multiple, action)

    def recover(self, channel: Channel, requeue: bool, method_id: int) -> m.Method | None:
        if not requeue:
            raise ConnectionFault(540, "requeue=false", 60, method_id)
        transaction = channel.transaction
        if transaction is None:
            deliveries = channel.table.take_up_to(0)
        else:
            # What has its answer within the transaction waits for the commit, or the rollback.
            found = channel.table.remembered()
            deliveries = [one for one in found if not transaction.is_settled(int(one.tag))]
            for delivery in deliveries:
                channel.table.take(delivery.tag)
        channel.settle_all(deliveries, REQUEUE, "basic.recover", method_id)
        return m.BasicRecoverOk() if method_id == 110 else None

    # -- transactions ----------------------------------------------------------------------------

    def tx_select(self, channel: Channel) -> m.Method | None:
        publisher = channel.publisher
        if channel.transaction is None:
            if publisher.confirms is not None:
                raise ChannelFault(406, "cannot switch from confirm to tx mode", 90, 10)
            channel.transaction = Transaction()
            publisher.begin_confirms()
            confirms = publisher.confirms
            assert confirms is not None, "it has just begun"
            confirms.commits = ChannelCommits(channel)
            channel.times.awaited = TX_COMMIT
        return m.TxSelectOk()

    def tx_commit(self, channel: Channel) -> m.Method | None:
        transaction = _transaction(channel, 20)
        if commit_some(channel, transaction.committing or transaction.begin_commit()):
            perform_again(channel)
            return None
        transaction.committing = None
        if transaction.fault is not None:
            raise transaction.fault
        confirms = channel.publisher.confirms
        assert confirms is not None and confirms.commits is not None, "tx.select has made them"
        confirms.commits.lasts.append(int(confirms.next_sequence) - 1)
        # The answer is written like confirms: when all that was published is as safe as those.
        confirms.is_dirty = True
        channel.output.note_answering(channel.answering)
        return None

    def tx_rollback(self, channel: Channel) -> m.Method | None:
        _transaction(channel, 30).clear()
        return m.TxRollbackOk()

    def confirm_select(self, channel: Channel, q: m.ConfirmSelect) -> m.Method | None:
        if channel.transaction is not None:
            raise ChannelFault(406, "cannot switch from tx to confirm mode", 85, 10)
        publisher = channel.publisher
        publisher.begin_confirms()
        return None if q.no_wait else m.ConfirmSelectOk()


class ChannelCommits(Commits):
    """Those of `channel`."""

    __slots__ = ("channel",)

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel

    def failed(self) -> None:
        fault = ChannelFault(406, "partial tx completion", 90, 20)
        self.channel.host.channel_failed(self.channel, fault)


def apply_settle(
    channel: Channel, tag: int, is_multiple: bool, action: int, method_id: int
) -> None:
    """Do what one settle says. Raises: ChannelFault 406 for a tag that no delivery waits under."""
    if is_multiple:
        channel.settle_all(channel.take_many(tag, method_id), action, REFUSING, 120)
        return
    delivery = channel.table.take(tag)
    if delivery is None:
        raise unknown_tag(tag, method_id)
    channel.settle([delivery], action, REFUSING, 120)


def _in_exclusive_use(actor: QueueActor) -> ChannelFault:
    text = f"queue '{actor.name}' in vhost '{actor.vhost}' in exclusive use"
    return ChannelFault(403, text, 60, 20)


def _transaction(channel: Channel, method_id: int) -> Transaction:
    if channel.transaction is None:
        raise ChannelFault(406, "channel is not transactional", 90, method_id)
    return channel.transaction


def _send(channel: Channel, method: m.Method) -> None:
    channel.output.writer.write(method_frame(int(channel.number), method))
    channel.output.mark()
