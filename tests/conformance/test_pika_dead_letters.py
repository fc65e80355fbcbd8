"""pika: what dead-lettering does and writes, as RabbitMQ 3.10.8 answered when asked the same.

Its x-death is compared whole. The three x-last-death headers are of later versions, so only
Penstock is asked for them.
"""

from typing import Any, Final

import pika.data
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.conformance.live import Broker
from tests.conformance.through_pika import counts, publish, take, wait

LAST: Final = ("x-last-death-queue", "x-last-death-reason", "x-last-death-exchange")


class Queues:
    """A queue whose dead letters go to another one."""

    def __init__(self, channel: BlockingChannel, name: str) -> None:
        self.channel = channel
        self.source = name
        self.target = name + ".dead"
        channel.queue_declare(self.target)

    def declare(self, **arguments: Any) -> None:
        """The source; keyword arguments are its x-arguments, with _ for -."""
        table = {"dead-letter-exchange": "", "dead-letter-routing-key": self.target}
        table.update({key.replace("_", "-"): value for key, value in arguments.items()})
        self.channel.queue_declare(
            self.source,
            arguments={f"x-{key}": value for key, value in table.items() if value is not None},
        )

    def letter(self) -> tuple[Any, Any, str]:
        """The first dead letter: method, properties, body."""
        wait(self.channel, lambda: counts(self.channel, self.target)[0] > 0)
        method, properties, body = self.channel.basic_get(self.target, auto_ack=True)
        assert method is not None and properties is not None and body is not None
        return method, properties, body.decode()

    def rejected(self) -> None:
        """Get the first message of the source and reject it for good."""
        method, _, _ = self.channel.basic_get(self.source)
        assert method is not None
        self.channel.basic_reject(method.delivery_tag, requeue=False)


@pytest.fixture
def queues(channel: BlockingChannel, name: str) -> Queues:
    channel.confirm_delivery()
    return Queues(channel, name)


def deaths(properties: Any) -> list[dict[str, Any]]:
    """x-death without the times, which are checked to be there."""
    found = []
    for entry in properties.headers["x-death"]:
        assert entry["time"].year >= 2024
        found.append({key: value for key, value in entry.items() if key != "time"})
    return found


def test_what_expires_with_its_queue_is_dead_lettered(queues: Queues) -> None:
    queues.declare(message_ttl=20)
    publish(queues.channel, queues.source, "a", content_type="text/plain")
    method, properties, body = queues.letter()
    assert (method.exchange, method.routing_key, body) == ("", queues.target, "a")
    assert method.redelivered is False
    assert properties.content_type == "text/plain"
    assert deaths(properties) == [
        {
            "count": 1,
            "reason": "expired",
            "queue": queues.source,
            "exchange": "",
            "routing-keys": [queues.source],
        }
    ]
    assert properties.headers["x-first-death-queue"] == queues.source
    assert properties.headers["x-first-death-reason"] == "expired"
    assert properties.headers["x-first-death-exchange"] == ""


def test_a_count_is_a_64_bit_integer(queues: Queues) -> None:
    queues.declare(message_ttl=20)
    publish(queues.channel, queues.source, "a")
    _, properties, _ = queues.letter()
    assert isinstance(properties.headers["x-death"][0]["count"], pika.data.long)


def test_the_expiration_is_taken_off_and_kept_in_the_record(queues: Queues) -> None:
    queues.declare()
    publish(queues.channel, queues.source, "a", expiration="20", headers={"mine": 7})
    _, properties, _ = queues.letter()
    assert properties.expiration is None
    assert properties.headers["mine"] == 7
    assert deaths(properties)[0]["original-expiration"] == "20"


def test_expiration_0_is_confirmed_and_dead_lettered_at_once(queues: Queues) -> None:
    queues.declare()
    publish(queues.channel, queues.source, "a", expiration="0")
    _, properties, body = queues.letter()
    assert body == "a"
    assert deaths(properties)[0]["reason"] == "expired"
    assert counts(queues.channel, queues.source) == (0, 0)


def test_what_is_rejected_is_dead_lettered(queues: Queues) -> None:
    queues.declare()
    publish(queues.channel, queues.source, "a", "b")
    queues.rejected()
    _, properties, body = queues.letter()
    assert body == "a"
    assert [(death["reason"], death["count"]) for death in deaths(properties)] == [("rejected", 1)]
    assert take(queues.channel, queues.source) == ["b"]


def test_nack_multiple_dead_letters_in_order(queues: Queues) -> None:
    queues.declare()
    publish(queues.channel, queues.source, "a", "b", "c")
    last = 0
    for _ in range(3):
        method, _, _ = queues.channel.basic_get(queues.source)
        assert method is not None
        last = method.delivery_tag
    queues.channel.basic_nack(last, multiple=True, requeue=False)
    assert [queues.letter()[2] for _ in range(3)] == ["a", "b", "c"]


def test_rejections_of_a_transaction_count_at_its_commit(queues: Queues, broker: Broker) -> None:
    queues.declare()
    publish(queues.channel, queues.source, "a")
    other = queues.channel.connection.channel()
    other.tx_select()
    method, _, _ = other.basic_get(queues.source)
    assert method is not None
    other.basic_reject(method.delivery_tag, requeue=False)
    assert counts(queues.channel, queues.target) == (0, 0)
    other.tx_commit()
    assert queues.letter()[2] == "a"


def test_what_is_too_much_is_dead_lettered_from_the_head(queues: Queues) -> None:
    queues.declare(max_length=1)
    publish(queues.channel, queues.source, "a", "b", "c")
    for expected in ("a", "b"):
        _, properties, body = queues.letter()
        assert body == expected
        assert deaths(properties)[0]["reason"] == "maxlen"
    assert take(queues.channel, queues.source) == ["c"]


def test_a_refused_publish_is_dead_lettered_where_asked_for(queues: Queues) -> None:
    queues.declare(max_length=1, overflow="reject-publish-dlx")
    publish(queues.channel, queues.source, "a")
    with pytest.raises(NackError):
        publish(queues.channel, queues.source, "b")
    _, properties, body = queues.letter()
    assert (body, deaths(properties)[0]["reason"]) == ("b", "maxlen")
    assert take(queues.channel, queues.source) == ["a"]


def test_without_a_key_of_the_queue_the_message_keeps_its_own(queues: Queues, name: str) -> None:
    queues.channel.exchange_declare(name, "direct", auto_delete=True)
    queues.channel.queue_bind(queues.target, name, queues.source)
    queues.declare(dead_letter_exchange=name, dead_letter_routing_key=None, message_ttl=20)
    publish(queues.channel, queues.source, "a", headers={"CC": ["nobody"]})
    method, properties, _ = queues.letter()
    assert (method.exchange, method.routing_key) == (name, queues.source)
    assert properties.headers["CC"] == ["nobody"]
    assert deaths(properties)[0]["routing-keys"] == [queues.source, "nobody"]


def test_a_dead_letter_follows_cc_as_well(queues: Queues, name: str) -> None:
    queues.channel.exchange_declare(name, "direct", auto_delete=True)
    queues.channel.queue_bind(queues.target, name, "copy")
    queues.declare(dead_letter_exchange=name, dead_letter_routing_key=None, message_ttl=20)
    publish(queues.channel, queues.source, "a", headers={"CC": ["copy"]})
    assert queues.letter()[0].routing_key == queues.source


def test_a_key_of_the_queue_takes_the_place_of_cc(queues: Queues) -> None:
    queues.declare(message_ttl=20)
    publish(queues.channel, queues.source, "a", headers={"CC": ["nobody"]})
    method, properties, _ = queues.letter()
    assert method.routing_key == queues.target
    assert "CC" not in properties.headers
    assert deaths(properties)[0]["routing-keys"] == [queues.source, "nobody"]


def test_a_second_death_for_the_same_reason_counts_up(queues: Queues) -> None:
    # Round and round by rejection: the target dead-letters back to itself.
    queues.channel.queue_delete(queues.target)
    queues.channel.queue_declare(
        queues.target,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queues.target},
    )
    publish(queues.channel, queues.target, "b")
    for expected in (1, 2, 3):
        method, _, _ = queues.channel.basic_get(queues.target)
        assert method is not None
        queues.channel.basic_reject(method.delivery_tag, requeue=False)
        wait(queues.channel, lambda: counts(queues.channel, queues.target)[0] == 1)
        method, properties, _ = queues.channel.basic_get(queues.target)
        assert method is not None and properties is not None
        assert [death["count"] for death in deaths(properties)] == [expected]
        queues.channel.basic_nack(method.delivery_tag)
        wait(queues.channel, lambda: counts(queues.channel, queues.target)[0] == 1)


def test_a_letter_that_expires_back_into_its_queue_is_dropped(queues: Queues) -> None:
    queues.declare(message_ttl=20, dead_letter_routing_key=queues.source)
    publish(queues.channel, queues.source, "a")
    wait(queues.channel, lambda: counts(queues.channel, queues.source)[0] == 0)
    queues.channel.connection.sleep(0.1)
    assert counts(queues.channel, queues.source) == (0, 0)


def test_a_way_round_with_a_rejection_is_no_cycle(queues: Queues) -> None:
    queues.channel.queue_delete(queues.target)
    queues.channel.queue_declare(
        queues.target,
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": queues.source,
            "x-message-ttl": 20,
        },
    )
    queues.declare()
    publish(queues.channel, queues.source, "a")
    # The usual retry: rejected, waits in the other queue, comes back when its time there is up.
    queues.rejected()
    wait(queues.channel, lambda: counts(queues.channel, queues.source)[0] == 1)
    _, properties, _ = queues.channel.basic_get(queues.source, auto_ack=True)
    assert [death["reason"] for death in deaths(properties)] == ["expired", "rejected"]
    assert properties is not None
    assert properties.headers["x-first-death-reason"] == "rejected"


def test_without_an_exchange_what_dies_is_gone(queues: Queues) -> None:
    queues.declare(dead_letter_exchange="nowhere." + queues.source, message_ttl=20)
    publish(queues.channel, queues.source, "a")
    wait(queues.channel, lambda: counts(queues.channel, queues.source)[0] == 0)
    assert counts(queues.channel, queues.target) == (0, 0)


def test_a_purge_and_a_delete_are_no_deaths(queues: Queues) -> None:
    queues.declare()
    publish(queues.channel, queues.source, "a")
    queues.channel.queue_purge(queues.source)
    publish(queues.channel, queues.source, "b")
    queues.channel.queue_delete(queues.source)
    assert counts(queues.channel, queues.target) == (0, 0)


def test_the_last_death_has_headers_of_its_own(queues: Queues, broker: Broker) -> None:
    if not broker.pid:
        pytest.skip("headers of RabbitMQ 3.13 and later")
    queues.declare(message_ttl=20)
    publish(queues.channel, queues.source, "a")
    _, properties, _ = queues.letter()
    assert [properties.headers[name] for name in LAST] == [queues.source, "expired", ""]


def test_what_a_publisher_says_of_deaths_is_not_believed(queues: Queues, broker: Broker) -> None:
    if not broker.pid:
        pytest.skip("as RabbitMQ 4 does")
    queues.declare(message_ttl=20)
    said = [{"queue": queues.target, "reason": "expired", "count": 3}]
    publish(queues.channel, queues.source, "a", headers={"x-death": said, "mine": 1})
    _, properties, _ = queues.letter()
    assert [death["queue"] for death in deaths(properties)] == [queues.source]
    assert properties.headers["mine"] == 1
