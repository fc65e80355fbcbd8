"""AnswerTimes: what a client waits for is ours, the rest is its own."""

from penstock.telemetry.answer_times import (
    BASIC_ACK,
    BASIC_RETURN,
    RUNNING_NS,
    STAGE_NAMES,
    TX_COMMIT,
    AnswerEntry,
    AnswerTimes,
)

US = 1_000
MS = 1_000_000
QUEUE_DECLARE = 0x32000A


def of(times: AnswerTimes, kind: int = BASIC_ACK, now_ns: int = 0) -> AnswerEntry:
    return next(one for one in times.totals(now_ns) if one.kind == kind)


def stages(one: AnswerEntry) -> dict[str, int]:
    return {name: ns for name, ns in zip(STAGE_NAMES, one.stages, strict=True) if ns}


def one_by_one(times: AnswerTimes, count: int) -> int:
    """Publish and wait for the disk, 4 ms each of which 200 µs are the client's; when it ended."""
    at = 1 * MS
    for _ in range(count):
        times.heard(at, at + 20 * US, at)
        times.note_unanswered(1)
        times.synced(at + 40 * US, at + 60 * US, at + 100 * US, at + 3_700 * US)
        times.answered(BASIC_ACK, 1, 0, at + 3_800 * US)
        at += 4 * MS
    times.heard(at, at, at)
    return at


def test_who_publishes_one_by_one_waits_for_the_disk() -> None:
    times = AnswerTimes(None)
    end = one_by_one(times, 250)
    found = of(times, now_ns=end)
    assert (found.count, found.flying, found.most) == (250, 250, 1)
    assert found.ns == 250 * 3_800 * US
    assert stages(found) == {
        "read": 250 * 20 * US,
        "channel": 250 * 20 * US,
        "queue": 250 * 20 * US,
        "store": 250 * 40 * US,
        "sync": 250 * 3_600 * US,
        "answer": 250 * 100 * US,
    }


def test_who_sends_on_while_confirms_are_due_does_not_wait() -> None:
    times = AnswerTimes(None)
    now = MS
    for _ in range(100):
        for _ in range(40):
            times.heard(now, now, now)
            times.note_unanswered(1000)
            now += 100 * US
        times.synced(now - 5 * MS, now - 5 * MS, now - 4 * MS, now - 50 * US)
        times.answered(BASIC_ACK, 1000, 900, now)
    assert of(times, now_ns=now).ns <= 100 * 100 * US, "of 400 ms"


def test_who_has_reached_its_own_bound_waits() -> None:
    """It sends 500 for 1 ms, and then waits for the sync."""
    times = AnswerTimes(None)
    now = MS
    for _ in range(10):
        for _ in range(10):
            times.heard(now, now, now)
            now += 100 * US
        times.note_unanswered(500)
        now += 3 * MS
        times.synced(now - 4 * MS, now - 4 * MS, now - 3 * MS, now)
        times.answered(BASIC_ACK, 500, 0, now)
        now += 50 * US
    found = of(times, now_ns=now)
    assert found.ns == 10 * (3 * MS + 100 * US)
    assert (found.flying, found.most) == (5000, 500)
    assert stages(found) == {"store": 10 * 100 * US, "sync": 10 * 3 * MS}


def test_what_was_there_at_once_had_been_sent_before() -> None:
    times = AnswerTimes(None)
    now = MS
    for _ in range(100):
        times.heard(now, now, now - 2 * US)
        times.note_unanswered(30)
        times.queued(now + 100 * US)
        now += 400 * US
        times.answered(BASIC_ACK, 30, 0, now)
        now += 5 * US
    times.heard(now, now, now - 2 * US)
    assert times.totals(now) == []


def test_one_at_a_time_is_a_wait_however_fast_the_client_is() -> None:
    times = AnswerTimes(None)
    times.heard(MS, MS, MS)
    times.note_unanswered(1)
    times.answered(BASIC_ACK, 1, 0, 2 * MS)
    times.heard(2 * MS + US, 2 * MS + US, 2 * MS)
    assert of(times).ns == MS


def test_who_has_sent_more_than_was_read_does_not_wait() -> None:
    times = AnswerTimes(None)
    times.heard(MS, MS, MS)
    times.is_sending = True
    times.answered(BASIC_ACK, 100, 0, 6 * MS)
    times.heard(8 * MS, 8 * MS, 8 * MS)
    assert times.totals(9 * MS) == []


def test_each_answer_has_its_own_books() -> None:
    times = AnswerTimes(None)
    now = MS
    for kind in (QUEUE_DECLARE, BASIC_RETURN, TX_COMMIT, QUEUE_DECLARE):
        times.heard(now, now + 10 * US, now - 900 * US)
        times.queued(now + 20 * US)
        times.answered(kind, 7, 0, now + 50 * US)
        now += MS
    kinds = {one.kind: (one.count, one.ns, one.flying) for one in times.totals(now)}
    assert kinds == {
        QUEUE_DECLARE: (2, 100 * US, 2),
        BASIC_RETURN: (1, 50 * US, 7),
        TX_COMMIT: (1, 50 * US, 7),
    }
    assert stages(of(times, QUEUE_DECLARE)) == {"read": 20 * US, "channel": 80 * US}
    assert stages(of(times, TX_COMMIT)) == {"read": 10 * US, "channel": 10 * US, "queue": 30 * US}


def test_a_method_that_waits_for_the_disk_is_waited_for_from_its_beginning() -> None:
    times = AnswerTimes(None)
    times.heard(MS, MS, MS)
    times.is_asked = True
    # It is tried again when the disk has read, which is no new request.
    times.heard(5 * MS, 5 * MS, 5 * MS)
    times.answered(QUEUE_DECLARE, 1, 0, 6 * MS)
    assert of(times, QUEUE_DECLARE).ns == 5 * MS


def test_a_connection_waits_when_none_of_its_channels_sends() -> None:
    above = AnswerTimes(None)
    first, second = AnswerTimes(above), AnswerTimes(above)
    first.heard(MS, MS, MS)
    first.note_unanswered(1)
    second.heard(2 * MS, 2 * MS, 2 * MS)
    second.note_unanswered(1)
    first.answered(BASIC_ACK, 1, 0, 5 * MS)
    second.answered(BASIC_ACK, 1, 0, 5 * MS)
    assert [of(one).ns for one in (first, second, above)] == [4 * MS, 3 * MS, 3 * MS]
    assert (of(above).count, of(above).flying) == (1, 2)
    assert not above.is_waiting()


def test_the_most_in_flight_is_that_since_the_books_were_read() -> None:
    times = AnswerTimes(None)
    now = MS
    seen = []
    for flying in (7, 3, 0, 2):
        if flying:
            times.heard(now, now, now - MS)
            times.answered(BASIC_ACK, flying, 0, now + MS)
            now += 2 * MS
        seen.append(of(times).most)
    assert seen == [7, 3, 3, 2], "who asks twice hears the same"


def test_a_wait_that_runs_for_long_counts_already() -> None:
    times = AnswerTimes(None)
    times.heard(MS, 2 * MS, MS)
    times.note_unanswered(3)
    assert times.totals(MS + RUNNING_NS - 1) == []
    for _ in range(2):
        running = of(times, now_ns=MS + RUNNING_NS)
        assert (running.ns, running.most) == (RUNNING_NS, 3)
        assert stages(running) == {"read": MS, "queue": RUNNING_NS - MS}
