"""Policies that come and go under load lose nothing uncounted, and leave every book balanced.

conservation   published = taken + resting + dropped, by reason, whatever was in force when
order          what is taken came in that order (no priorities, nothing is put back)
arguments      rules without policies are again what the arguments alone say
"""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.policy import Policy
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.queues.rules import rules_from, rules_in_words
from tests.unit.broker.peer import Bed, Peer

MS = 1_000_000
DEFINITIONS: tuple[dict[str, object], ...] = (
    {"max-length": 2},
    {"max-length": 3, "overflow": "backpressure"},
    {"max-length": 2, "overflow": "reject-publish"},
    {"max-length-bytes": 5},
    {"max-length-bytes": 4, "overflow": "backpressure"},
    {"message-ttl": 5},
    {"message-ttl": 0},
    {"delivery-limit": 1},
    {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"},
    {"last-value-key": "routing-key"},
)
definitions = st.lists(st.sampled_from(DEFINITIONS), min_size=1, max_size=3).map(
    lambda found: {key: value for one in found for key, value in one.items()}
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("get"), st.integers(1, 3)),
        st.tuples(st.just("wait"), st.integers(1, 6)),
        st.tuples(st.just("set"), definitions),
        st.tuples(st.just("operate"), st.sampled_from([{"max-length": 1}, {"message-ttl": 3}])),
        st.tuples(st.just("clear"), st.booleans()),
    ),
    max_size=25,
)


class Story:
    """One queue whose policies change while it is used. taken: bodies, in the order of coming."""

    def __init__(self, arguments: dict[str, object]) -> None:
        self.bed = Bed()
        self.peer: Peer = self.bed.connect()
        self.getter: Peer = self.bed.connect("getter")
        self.arguments = arguments
        table = {"x-" + key: value for key, value in arguments.items()}
        self.peer.say(1, m.QueueDeclare("q", arguments=table), m.QueueDeclare("dead"))  # type: ignore[arg-type]  # plain values
        self.bed.run()
        self.published = 0
        self.taken: list[int] = []

    @property
    def queue(self) -> QueueActor:
        return self.bed.broker.vhosts["/"].queues["q"]

    def do(self, verb: str, with_what: object) -> None:
        verbs: dict[str, Callable[[], None]] = {
            "publish": lambda: self._publish(int(str(with_what))),
            "get": lambda: self._get(int(str(with_what))),
            "wait": lambda: self._wait(int(str(with_what))),
            "set": lambda: self._set(with_what, False),
            "operate": lambda: self._set(with_what, True),
            "clear": lambda: self._clear(with_what is True),
        }
        verbs[verb]()
        self.bed.run()
        self.peer.read_on()

    def _publish(self, count: int) -> None:
        for _ in range(count):
            self.peer.publish("q", f"{self.published:03}".encode())
            self.published += 1

    def _get(self, count: int) -> None:
        for _ in range(count):
            self.getter.heard()
            self.getter.say(1, m.BasicGet("q", True))
            found = self.getter.heard()
            if found and found[0].header:
                self.taken.append(int(found[0].body))

    def _wait(self, ms: int) -> None:
        self.bed.clock.advance(ms * MS)
        self.bed.broker.dues.fire(self.bed.clock.monotonic_ns())

    def _set(self, definition: object, is_operator: bool) -> None:
        assert isinstance(definition, dict), "the strategies say so"
        self.bed.broker.policy_manager.set(Policy("/", "p", "^q$", definition), is_operator)

    def _clear(self, is_operator: bool) -> None:
        policies = self.bed.broker.policies
        if policies.listing(is_operator):
            self.bed.broker.policy_manager.clear("/", "p", is_operator)

    def end(self) -> None:
        """No policy is left, and everything that waited has gone on."""
        for is_operator in (False, True):
            self._clear(is_operator)
        self.bed.run()
        self.peer.read_on()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([{}, {"max-length": 4}, {"message-ttl": 4}, {"max-length-bytes": 9}]), steps)
def test_nothing_is_lost_uncounted_while_policies_change(
    arguments: dict[str, object], told: list[tuple[str, object]]
) -> None:
    story = Story(arguments)
    for verb, with_what in told:
        story.do(verb, with_what)
    story.end()
    queue = story.queue
    queue_limits = queue.queue_limits
    dropped = 0 if queue_limits is None else sum(queue_limits.drops)
    resting = int(queue.messages.ready_count())
    assert story.published == len(story.taken) + resting + dropped
    assert story.taken == sorted(story.taken)
    rules = {} if queue_limits is None else rules_in_words(queue_limits.rules)
    assert rules == rules_in_words(rules_from(arguments))
    assert queue.stop_reason() == "" and queue.applied is None
    story.do("get", resting)
    assert len(story.taken) + dropped == story.published and queue.messages.ready_count() == 0
    story.bed.settle()
