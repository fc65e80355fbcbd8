"""Property 14: every publish of a confirming channel is answered exactly once, whatever blocks and
unblocks in between; a mandatory one that reaches nobody comes back before its answer.

The real connection, channel and queue actors; holds by alarms, by depth, by a full socket and by
the client's own silence; queues that are deleted with publishes on their way.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from penstock.protocol import methods as m
from tests.unit.broker.peer import ALL_CAPABILITIES, Bed, Peer, publish

QUEUES = ("a", "b", "c")
KEYS = st.sampled_from((*QUEUES, "nobody"))
RESOURCES = st.sampled_from(("memory", "disk"))


class ConfirmsOnce(RuleBasedStateMachine):
    """`waiting`: publish numbers nobody has answered; `owed`: mandatory ones that reach nobody,
    in their order."""

    def __init__(self) -> None:
        super().__init__()
        # Narrow windows, so that publishes are parked often.
        self.bed = Bed(
            queue_depth_bytes=30_000,
            notify_blocked_ms=1000,
            credit_connection_channel="8/4",
            credit_channel_queue="8/4",
        )
        self.peer: Peer = self.bed.connect(
            channels=2, capabilities=(*ALL_CAPABILITIES, "channel.flow")
        )
        self.admin = self.bed.connect("admin")
        for name in QUEUES:
            self._declare(name)
        self.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        self.sequence = 0
        self.waiting: set[int] = set()
        self.mandatory: set[int] = set()
        self.returned = 0

    def _declare(self, name: str) -> None:
        self.admin.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
        self.admin.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)

    @rule(key=KEYS, count=st.integers(1, 30), size=st.sampled_from((1, 10_000)))
    def publish(self, key: str, count: int, size: int) -> None:
        self._say([publish(1, "", key, b"x" * size)] * count)

    @rule(count=st.integers(1, 5))
    def publish_to_all(self, count: int) -> None:
        self._say([publish(1, "amq.fanout", "", b"x" * 3000)] * count)

    @rule(count=st.integers(1, 3))
    def publish_mandatory(self, count: int) -> None:
        """To a name that no queue ever has."""
        for _ in range(count):
            self.mandatory.add(self.sequence + 1)
            self._say([publish(1, "", "never", b"%d" % (self.sequence + 1), mandatory=True)])

    def _say(self, pieces: list[bytes]) -> None:
        for _ in pieces:
            self.sequence += 1
            self.waiting.add(self.sequence)
        self.peer.send(*pieces)
        self._listen()

    @rule(resource=RESOURCES)
    def set_alarm(self, resource: str) -> None:
        self.bed.broker.set_alarm(resource, "2 bytes of 1 are used")
        self._listen()

    @rule(resource=RESOURCES)
    def clear_alarm(self, resource: str) -> None:
        self.bed.broker.clear_alarm(resource)
        self._listen()

    @rule(name=st.sampled_from(QUEUES))
    def drain(self, name: str) -> None:
        self.bed.broker.vhosts["/"].queues[name].purge()
        self._listen()

    @rule(name=st.sampled_from(QUEUES))
    def delete_and_declare(self, name: str) -> None:
        self.admin.call(1, m.QueueDelete(name), m.QueueDeleteOk)
        self._declare(name)
        self._listen()

    @rule(is_taking=st.booleans())
    def fill_socket(self, is_taking: bool) -> None:
        self.peer.take(-1 if is_taking else 0)
        self._listen()

    @rule(ms=st.sampled_from((100, 5000, 11_000)))
    def wait(self, ms: int) -> None:
        self.bed.clock.advance(ms * 1_000_000)
        self.bed.broker.notify_clients(self.bed.clock.monotonic_ns())
        self._listen()

    def _listen(self) -> None:
        self.peer.read_on()
        for one in self.peer.heard():
            method = one.method
            if isinstance(method, m.BasicReturn):
                self.returned = int(one.body)
                assert self.returned in self.waiting, "it came back after its answer"
                self.mandatory.discard(self.returned)
            elif isinstance(method, m.BasicAck):
                # Never a nack: no queue has failed, and one that is deleted has taken them.
                self._answered(method.delivery_tag, method.multiple)
            elif isinstance(method, m.ChannelFlow):
                self.peer.say(one.channel, m.ChannelFlowOk(method.active))
            else:
                assert isinstance(method, m.ConnectionBlocked | m.ConnectionUnblocked), one

    def _answered(self, tag: int, is_multiple: bool) -> None:
        answered = {one for one in self.waiting if one <= tag} if is_multiple else {tag}
        assert answered and answered <= self.waiting, f"{tag} was answered before"
        assert not answered & self.mandatory, "it is answered and has not come back"
        self.waiting -= answered

    def teardown(self) -> None:
        self.peer.take(-1)
        for _ in range(1000):
            for resource in ("memory", "disk"):
                self.bed.broker.clear_alarm(resource)
            for name in QUEUES:
                self.bed.broker.vhosts["/"].queues[name].purge()
            self.bed.run()
            self.wait(100)
            if not self.waiting and not self.peer.unread:
                break
        assert not self.waiting
        assert not self.mandatory
        self.bed.settle()


ConfirmsOnce.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestConfirmsOnce = ConfirmsOnce.TestCase
