"""Dead letters: what is published for a message that died, and the record of its deaths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConnectionFault
from penstock.protocol.content import Address, Message, is_dead_letter, make_content
from penstock.protocol.properties import Properties, decode_properties, encode_header_payload
from penstock.protocol.property_lookup import PROPERTIES_OFFSET
from penstock.protocol.values import Table, decode_table, encode_table
from penstock.queues.dead_letter import Death, deaths_of, is_cycle, obituary, with_death

BODY = b"x" * 20_000


def published(properties: Properties, body: bytes = BODY) -> Message:
    header = encode_header_payload(len(body), properties)
    message = make_content(3, b"", header, body, 8192)
    message.address = Address("orders", "key")
    return message


def headers_of(message: Message) -> Table:
    headers = decode_properties(message.header(), PROPERTIES_OFFSET).headers
    assert headers is not None
    return headers


def test_body_and_properties_stay_and_the_expiration_goes() -> None:
    message = published(Properties(headers={"mine": 1}, content_type="t", expiration="5"))
    letter = obituary(message, "q", "expired", 17, None).message
    assert letter.body() == BODY
    after = decode_properties(letter.header(), PROPERTIES_OFFSET)
    assert (after.content_type, after.expiration) == ("t", None)
    assert after.headers is not None and after.headers["mine"] == 1
    assert deaths_of(after.headers)[0]["original-expiration"] == "5"
    assert letter.raw[: len(message.raw)] != message.raw
    assert letter.header_bytes == len(letter.header()) and letter.channel == message.channel


def test_a_message_without_headers_gets_some() -> None:
    letter = obituary(published(Properties(), b""), "q", "maxlen", 17, None).message
    assert headers_of(letter)["x-first-death-queue"] == "q"
    assert letter.body() == b""


def test_other_headers_stay_to_the_byte() -> None:
    # A 64-bit 7 and a 16-bit 7: both would come back as I if the table were written anew.
    fields = b"\x04longl" + (7).to_bytes(8, "big") + b"\x05shorts\x00\x07"
    header = encode_header_payload(1, Properties(headers={}))
    header = header[: PROPERTIES_OFFSET + 2] + len(fields).to_bytes(4, "big") + fields
    message = make_content(1, b"", header, b"x", 8192)
    letter = obituary(message, "q", "rejected", 17, None).message
    assert fields in letter.header()


def test_a_count_is_written_as_a_64_bit_integer_again_and_again() -> None:
    message: Message = published(Properties())
    for expected in (1, 2, 3):
        message = obituary(message, "q", "rejected", 17, None).message
        message.address = Address("", "q")
        assert b"\x05countl" + expected.to_bytes(8, "big") in message.header()
    message = obituary(message, "other", "expired", 17, None).message
    assert b"\x05countl" + (3).to_bytes(8, "big") in message.header()


def test_cc_is_followed_unless_the_queue_has_a_key() -> None:
    message = published(Properties(headers={"CC": ["a", "b"], "mine": 1}))
    kept = obituary(message, "q", "expired", 17, None)
    assert kept.keys == ["key", "a", "b"] and headers_of(kept.message)["CC"] == ["a", "b"]
    moved = obituary(message, "q", "expired", 17, "there")
    assert moved.keys == ["there"] and "CC" not in headers_of(moved.message)
    for one in (kept, moved):
        assert deaths_of(one.deaths)[0]["routing-keys"] == ["key", "a", "b"]


def test_only_the_broker_is_believed_about_deaths() -> None:
    said: Table = {"x-death": [{"queue": "q", "reason": "expired", "count": 9}], "mine": 1}
    said["x-first-death-queue"] = "never"
    letter = obituary(published(Properties(headers=said)), "q", "expired", 17, None).message
    headers = headers_of(letter)
    assert [death["count"] for death in deaths_of(headers)] == [1]
    assert headers["x-first-death-queue"] == "q" and headers["mine"] == 1
    letter.address = Address("", "q")
    again = obituary(letter, "q", "expired", 18, None)
    assert is_dead_letter(again.message)
    assert [death["count"] for death in deaths_of(headers_of(again.message))] == [2]


def test_the_cause_is_that_of_the_message() -> None:
    message = published(Properties())
    assert obituary(message, "q", "expired", 17, None).message.origin is message.origin


def test_broken_headers_are_a_fault() -> None:
    header = encode_header_payload(1, Properties(headers={"x-death": 1}))
    broken = header.replace(b"x-deathI", b"x-death\xff")
    message = make_content(1, b"", broken, b"x", 8192)
    with pytest.raises(ConnectionFault):
        obituary(message, "q", "expired", 17, None)


def test_a_profile_of_an_older_broker_counts_on_from_what_a_publisher_says() -> None:
    """As recorded from RabbitMQ 3.10.8, but for a count that is none, which breaks its queue, and
    the largest one, which becomes negative there."""
    for said, count in ((5, 6), ("many", 1), ((1 << 63) - 1, (1 << 63) - 1), (None, 1)):
        death: Table = {"queue": "q", "reason": "expired"}
        if said is not None:
            death["count"] = said
        message = published(Properties(headers={"x-death": [death]}))
        written = obituary(message, "q", "expired", 17, None, True)
        headers = headers_of(written.message)
        assert deaths_of(headers) == [{"queue": "q", "reason": "expired", "count": count}]
        assert "x-first-death-queue" not in headers, "there was a death before"
        assert deaths_of(headers_of(obituary(message, "q", "expired", 17, None).message)) != [death]


def test_what_a_publisher_says_of_other_queues_is_kept_behind_by_an_older_broker() -> None:
    other: Table = {"queue": "other", "reason": "rejected", "count": 3}
    said: Table = {"x-death": [other, "junk"], "x-first-death-queue": "mine"}
    message = published(Properties(headers=said))
    headers = headers_of(obituary(message, "q", "expired", 17, None, True).message)
    assert [(one["queue"], one["count"]) for one in deaths_of(headers)] == [("q", 1), ("other", 3)]
    assert headers["x-first-death-queue"] == "mine"


QUEUES = st.sampled_from(["a", "b", "c"])
REASONS = st.sampled_from(["expired", "maxlen", "rejected", "delivery_limit"])


def death(queue: str, reason: str, time_s: int = 1_700_000_000, expiration: str = "") -> Death:
    return Death(queue, reason, time_s, "orders", ["key", "copy"], expiration)


def test_the_first_death_is_recorded_whole() -> None:
    headers = with_death({"mine": 1}, death("q", "expired", 17, "60000"))
    assert headers["mine"] == 1
    assert deaths_of(headers) == [
        {
            "count": 1,
            "reason": "expired",
            "queue": "q",
            "time": 17,
            "exchange": "orders",
            "routing-keys": ["key", "copy"],
            "original-expiration": "60000",
        }
    ]
    assert headers["x-first-death-queue"] == headers["x-last-death-queue"] == "q"


def test_the_same_death_again_counts_up_moves_to_the_front_and_keeps_its_time() -> None:
    headers = with_death({}, death("q", "expired", 17))
    headers = with_death(headers, death("other", "maxlen", 18))
    headers = with_death(headers, death("q", "expired", 19))
    first, second = deaths_of(headers)
    assert (first["queue"], first["count"], first["time"]) == ("q", 2, 17)
    assert (second["queue"], second["count"]) == ("other", 1)
    assert headers["x-first-death-reason"] == "expired"
    assert headers["x-last-death-queue"] == "q"


def test_the_headers_given_are_not_changed() -> None:
    before: Table = {"x-death": [{"queue": "q", "reason": "expired", "count": 1}]}
    with_death(before, death("q", "expired"))
    assert before == {"x-death": [{"queue": "q", "reason": "expired", "count": 1}]}


def test_a_record_that_is_none_is_replaced() -> None:
    assert len(deaths_of(with_death({"x-death": "mine"}, death("q", "expired")))) == 1


def test_a_way_round_without_a_rejection_is_a_cycle() -> None:
    headers = with_death(with_death({}, death("a", "expired")), death("b", "maxlen"))
    assert is_cycle("a", headers)
    assert is_cycle("b", headers)
    assert not is_cycle("c", headers)


def test_a_rejection_on_the_way_makes_it_none() -> None:
    headers = with_death(with_death({}, death("a", "expired")), death("b", "rejected"))
    assert not is_cycle("a", headers)
    assert not is_cycle("b", headers)
    headers = with_death(with_death({}, death("a", "rejected")), death("b", "expired"))
    assert is_cycle("b", headers)
    assert not is_cycle("a", headers)


@given(st.lists(st.tuples(QUEUES, REASONS), max_size=20))
def test_counts_sum_to_the_deaths_and_survive_the_wire(story: list[tuple[str, str]]) -> None:
    headers: Table = {}
    for queue, reason in story:
        headers = with_death(headers, death(queue, reason))
        data = encode_table(headers)
        headers = decode_table(data, 0, len(data))[0]
    found = deaths_of(headers)
    assert sum(int(str(one["count"])) for one in found) == len(story)
    assert len({(one["queue"], one["reason"]) for one in found}) == len(found)
    if story:
        assert (found[0]["queue"], found[0]["reason"]) == story[-1]
