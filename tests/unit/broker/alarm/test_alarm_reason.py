"""Clients are told usage, limit and the biggest queue, in a short string after RabbitMQ's words."""

from penstock.broker.alarm.alarm_manager import ResourceLevel, biggest, one, pair, reason

GB = 1_000_000_000


def test_usage_limit_and_the_biggest_queue() -> None:
    levels: dict[str, ResourceLevel | None] = {"memory": ResourceLevel(19 * GB // 10, 2 * GB, GB)}
    queues = {"queue:/events": 71, "queue:/mail": 29}
    assert reason(levels, queues) == "low on memory (1.90/2.00 GB); biggest: queue /events 71 %"


def test_both_resources_in_rabbitmqs_order() -> None:
    levels: dict[str, ResourceLevel | None] = {
        "memory": ResourceLevel(300_000_000, 200_000_000, 0),
        "disk": ResourceLevel(5_000_000, 50_000_000, 0),
    }
    assert reason(levels, {}) == "low on disk & memory (free 5.00/50.00 MB; 300.00/200.00 MB)"


def test_what_is_not_known_is_left_out() -> None:
    assert reason({"disk": None}, {"queue:/q": 0}) == "low on disk"


def test_a_long_name_gives_way_to_the_numbers() -> None:
    levels: dict[str, ResourceLevel | None] = {"memory": ResourceLevel(19 * GB // 10, 2 * GB, GB)}
    text = reason(levels, {"queue:/" + "ü" * 127: 1})
    assert len(text.encode()) <= 255
    assert text.endswith("... 100 %") and "1.90/2.00 GB" in text


def test_sizes_share_the_unit_of_the_greater() -> None:
    assert pair(0, 0) == "0/0 bytes"
    assert pair(512, 2_000) == "0.51/2.00 kB"
    assert one(1_710_000_000) == "1.71 GB" and one(12) == "12 bytes"


def test_nothing_is_biggest_among_empty_queues() -> None:
    assert biggest({"queue:/a": 0}, 255) == "" and biggest({}, 255) == ""
