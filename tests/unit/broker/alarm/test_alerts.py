"""When an alert is sent, and what becomes of those that are not."""

from penstock.broker.alarm.alerts import Alert, AlertPacer
from tests.unit.broker.alarm_bed import MB, AlarmBed

PAUSE_NS = 60_000_000_000


def test_one_at_a_time_and_the_rest_are_counted() -> None:
    pacer = AlertPacer(PAUSE_NS)
    assert pacer.due(0, True) is None, "nothing has happened"
    pacer.note("memory alarm", "first")
    pacer.note("disk alarm", "in the same round")
    assert pacer.due(5, True) == Alert("memory alarm", "first", 1)
    assert pacer.due(6, True) is None, "it is sent once"
    pacer.note("memory alarm", "second")
    assert pacer.due(4 + PAUSE_NS, True) is None
    assert pacer.due(5 + PAUSE_NS, True) is None, "it is not sent later either"
    pacer.note("memory alarm", "third")
    assert pacer.due(5 + PAUSE_NS, True) == Alert("memory alarm", "third", 1)


def test_a_receiver_that_hangs_gets_no_second_one() -> None:
    pacer = AlertPacer(0)
    pacer.note("memory alarm", "1")
    assert pacer.due(1, False) is None
    pacer.note("memory alarm", "2")
    assert pacer.due(1, True) == Alert("memory alarm", "2", 1)
    pacer.note("memory alarm", "3")
    assert pacer.due(1, True) == Alert("memory alarm", "3", 0), "a pause of 0 is none"


def test_alarms_and_the_forecast_are_told_with_their_line_in_the_log() -> None:
    bed = AlarmBed()
    told: list[tuple[str, str]] = []
    bed.manager.tell = lambda title, text: told.append((title, text))
    bed.publisher("p", "events", MB)
    for second in range(40):
        bed.use(300 * MB + second * 120_000)
    bed.use(500 * MB)
    bed.use(501 * MB)
    bed.leave(49 * MB)
    assert [title for title, _ in told] == ["memory forecast", "memory alarm", "disk alarm"]
    assert all(text in bed.log.lines for _, text in told)
