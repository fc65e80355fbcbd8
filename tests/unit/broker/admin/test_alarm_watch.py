"""From readings to alarms: reclaim, the tighter gauge, targets, the disk; and marks as settings."""

import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.admin.alarm_watch import memory_mark_bytes
from penstock.flow.targeting import STEP_NS
from penstock.protocol import methods as m
from tests.unit.broker.alarm_bed import MB, AlarmBed, kinds

MEMORY = ["alarm:memory"]


def test_garbage_alone_stops_nobody() -> None:
    bed = AlarmBed()
    bed.around.garbage_bytes = 50 * MB
    bed.use(420 * MB)
    assert bed.alarms() == []
    assert bed.manager.levels["memory"].now_bytes == 370 * MB


def test_an_alarm_that_lasts_reclaims_at_every_look() -> None:
    bed = AlarmBed()
    bed.use(420 * MB)
    assert bed.alarms() == MEMORY
    bed.around.garbage_bytes = 100 * MB
    bed.use(410 * MB)
    assert bed.alarms() == []


def test_what_a_backlog_left_is_given_back_without_an_alarm() -> None:
    bed = AlarmBed()
    bed.use(50 * MB)
    bed.around.garbage_bytes = 30 * MB
    bed.use(100 * MB)
    assert bed.around.garbage_bytes == 30 * MB, "too little to look for"
    bed.around.garbage_bytes = 100 * MB
    bed.use(160 * MB)
    assert bed.around.garbage_bytes == 100 * MB, "what grows is in use"
    bed.use(160 * MB)
    assert bed.around.garbage_bytes == 0
    bed.around.garbage_bytes = 100 * MB
    bed.use(160 * MB)
    assert bed.around.garbage_bytes == 100 * MB, "not at every look"
    bed.clock.advance(20_000_000_000)
    bed.use(160 * MB)
    assert bed.around.garbage_bytes == 0
    bed.connect("one").hang_up()
    bed.around.garbage_bytes = 100 * MB
    for _ in range(2):
        bed.clock.advance(20_000_000_000)
        bed.use(160 * MB)
    assert bed.around.garbage_bytes == 0
    assert bed.around.looked == 0, "an ended connection leaves nothing to look for"


def test_memory_that_messages_hold_is_not_looked_through() -> None:
    bed = AlarmBed()
    bed.use(50 * MB)
    bed.publisher("one", "q", 30 * MB)
    bed.around.garbage_bytes = 100 * MB
    bed.use(160 * MB)
    assert bed.around.garbage_bytes == 100 * MB


def test_the_tighter_gauge_counts() -> None:
    bed = AlarmBed()
    bed.around.group = (905 * MB, TOTAL := 1000 * MB)
    bed.use(100 * MB)
    assert bed.alarms() == MEMORY
    assert bed.manager.levels["memory"].limit_bytes == TOTAL * 9 // 10
    bed.around.group = (880 * MB, TOTAL)
    bed.use(100 * MB)
    assert bed.alarms() == MEMORY, "within the band of the group's mark"
    bed.around.group = (700 * MB, TOTAL)
    bed.use(390 * MB)
    assert bed.alarms() == MEMORY, "the process is now the tighter one, and within its band"
    bed.use(350 * MB)
    assert bed.alarms() == []


def test_a_configured_mark_or_mode_that_is_none_is_refused_by_its_key() -> None:
    with pytest.raises(OperatorError, match="memory_high: 'much'"):
        AlarmBed(memory_high="much")
    with pytest.raises(OperatorError, match="disk_free_min: 'some'"):
        AlarmBed(disk_free_min="some")
    with pytest.raises(OperatorError, match="alarm mode 'few' is unknown; one of: targeted, all"):
        AlarmBed(alarm_mode="few")


def test_marks_are_text_or_the_old_number() -> None:
    assert AlarmBed().watch.memory_mark == 400 * MB
    assert AlarmBed(memory_high="25%").watch.memory_mark == 250 * MB
    assert memory_mark_bytes(Config(memory_high_bytes=7 * MB), 1000) == 7 * MB
    assert memory_mark_bytes(Config(memory_high="8MB", memory_high_bytes=7), 1000) == 8 * MB
    assert AlarmBed(disk_free_min="mem:0.1").watch.floor.limit_bytes == 100 * MB


def test_only_those_above_their_share_are_stopped_and_one_that_crosses_it_joins() -> None:
    bed = AlarmBed()
    big = bed.publisher("big", "q1", 3 * MB)
    small = bed.publisher("small", "q2", MB)
    bed.squeeze()
    assert bed.manager.named("memory") == {"big"}
    big.publish("q1", b"held")
    small.publish("q2", b"goes on")
    assert isinstance(big.one(m.ConnectionBlocked), m.ConnectionBlocked)
    assert small.heard() == [] and bed.ready("q2") == 12
    for _ in range(60):
        small.publish("q2", b"x" * 100_000)
    bed.use(1_020_000)
    assert "small" in bed.manager.named("memory") and "big" not in bed.manager.named("memory")
    bed.run()
    assert kinds(big) == [m.ConnectionUnblocked]


def test_everybody_is_stopped_where_no_share_is_left_and_it_is_said_once() -> None:
    bed = AlarmBed()
    bed.publisher("big", "q1", 3 * MB)
    small = bed.publisher("small", "q2", MB)
    bed.squeeze()
    bed.use(1_100_000)
    assert bed.state(small) == "running", "it holds less than its share of what is left"
    bed.log.lines.clear()
    bed.use(5_000_000)
    bed.use(5_001_000)
    assert bed.state(small) == "blocking"
    assert bed.log.lines == [
        "memory alarm: 5.00/1.01 MB used; publishing stopped for all, 2 connections publish"
    ]


def test_nobody_is_stopped_for_what_another_process_of_the_node_holds() -> None:
    bed = AlarmBed()
    peer = bed.publisher("small", "q1", MB)
    bed.use(110 * MB)
    bed.around.others = [310 * MB]
    bed.use(420 * MB)
    assert bed.alarms() == MEMORY and bed.manager.named("memory") == frozenset()
    assert bed.state(peer) == "running"


def test_what_another_process_holds_is_no_backlog_to_be_given_back() -> None:
    bed = AlarmBed()
    bed.use(100 * MB)
    bed.around.others = [200 * MB]
    bed.around.garbage_bytes = MB
    for _ in range(30):
        bed.use(300 * MB)
    assert bed.around.garbage_bytes == MB, "it was not asked for"


def test_memory_is_looked_at_when_much_has_come_in() -> None:
    """Not a second passes between the first byte and the alarm."""
    bed = AlarmBed(memory_high="101MB")
    bed.use(100 * MB)
    assert bed.alarms() == []
    peer = bed.publisher("p", "q", 900_000)
    bed.around.used_bytes = 102 * MB
    bed.later(0)
    assert bed.alarms() == [], "a hundredth of the mark may come in unseen"
    peer.publish("q", b"x" * 110_000)
    assert bed.alarms() == [], "not in the middle of a turn"
    bed.later(0)
    assert bed.alarms() == MEMORY


def test_the_profiles_of_rabbitmq_look_once_a_second_only() -> None:
    bed = AlarmBed(profile="rabbitmq-4", memory_high="101MB")
    bed.use(100 * MB)
    bed.publisher("p", "q", MB)
    bed.around.used_bytes = 102 * MB
    bed.later(0)
    assert bed.alarms() == []
    bed.use(102 * MB)
    assert bed.alarms() == MEMORY


def test_when_the_alarm_is_over_they_are_let_on_one_after_the_other() -> None:
    bed = AlarmBed()
    peers = [bed.publisher(f"p{number}", f"q{number}", 3 * MB) for number in range(4)]
    calm = bed.publisher("calm", "q", 10_000)
    bed.squeeze()
    assert bed.manager.named("memory") == {"p0", "p1", "p2", "p3"}
    bed.around.used_bytes = 900_000
    bed.watch.check_memory()
    assert bed.alarms() == MEMORY and bed.state(calm) == "running"
    counts = [len(bed.manager.named("memory"))]
    for _ in range(4):
        bed.later(STEP_NS)
        counts.append(len(bed.manager.named("memory")))
    assert counts == [3, 2, 1, 0, 0]
    assert bed.alarms() == [] and {bed.state(one) for one in peers} == {"running"}


def test_one_that_waits_goes_on_at_once_when_it_is_the_smaller_one() -> None:
    bed = AlarmBed()
    first = bed.publisher("a", "q1", 3 * MB)
    bed.publisher("b", "q2", 3 * MB)
    bed.squeeze()
    bed.around.used_bytes = 900_000
    bed.watch.check_memory()
    assert bed.manager.named("memory") == {"b"}
    for _ in range(10):
        first.publish("q1", b"x" * 100_000)
    bed.watch.check_memory()
    assert bed.alarms() == [], "a holds a third more than b by now"


def test_all_at_once_where_the_mode_says_so_and_back_when_it_changes() -> None:
    bed = AlarmBed(alarm_mode="all")
    bed.publisher("big", "q1", 3 * MB)
    small = bed.publisher("small", "q2", MB)
    bed.squeeze()
    assert bed.state(small) == "blocking"
    bed.around.used_bytes = 1_000_000
    bed.change("alarm.mode", "targeted")
    assert bed.state(small) == "running" and bed.manager.named("memory") == {"big"}
    with pytest.raises(OperatorError):
        bed.change("alarm.mode", "some")


def test_the_profiles_of_rabbitmq_stop_all_and_have_no_band() -> None:
    bed = AlarmBed(profile="rabbitmq-4")
    assert bed.manager.mode == "all"
    bed.use(401 * MB)
    assert bed.alarms() == MEMORY
    bed.use(400 * MB)
    assert bed.alarms() == []


def test_a_coming_alarm_is_forecast_once() -> None:
    bed = AlarmBed()
    bed.publisher("p", "events", MB)
    for second in range(40):
        bed.use(300 * MB + second * 120_000)
    told = [line for line in bed.log.lines if line.startswith("forecast")]
    assert told == [
        "forecast: memory watermark (400.00 MB) in ~14 min at +120.0 kB/s; biggest: queue "
        "/events 100 %"
    ]


def test_f19_a_disk_that_cannot_be_read_sets_nothing_ends_nothing_and_is_said_once() -> None:
    bed = AlarmBed()
    bed.around.is_readable = False
    assert bed.leave(0) == 10_000 and bed.leave(0) == 10_000
    assert bed.alarms() == []
    assert (
        len([line for line in bed.log.lines if "cannot read the free space of /data" in line]) == 1
    )
    bed.around.is_readable = True
    bed.leave(1)
    bed.around.is_readable = False
    bed.leave(500 * MB)
    assert bed.alarms() == ["alarm:disk"]
    bed.around.is_readable = True
    bed.leave(500 * MB)
    assert bed.alarms() == []


def test_a_disk_alarm_stops_everybody_and_is_switched_off_by_zero() -> None:
    bed = AlarmBed()
    peer = bed.publisher("p", "q")
    bed.leave(49 * MB)
    assert bed.state(peer) == "blocking"
    peer.publish("q", b"held")
    assert peer.one(m.ConnectionBlocked).reason == (
        "low on disk (free 49.00/50.00 MB); biggest: queue /q 100 %"
    )
    bed.change("disk.free_min", "0")
    assert kinds(peer) == [m.ConnectionUnblocked]


@pytest.mark.parametrize("mark", ["9000TB", "mem:100000"])
def test_a_mark_above_all_there_is_is_an_alarm(mark: str) -> None:
    bed = AlarmBed()
    bed.leave(500 * MB)
    bed.change("disk.free_min", mark)
    assert bed.alarms() == ["alarm:disk"] and bed.watch.disk_text == mark
    bed.change("disk.free_min", "50MB")
    assert bed.alarms() == []
    assert AlarmBed(disk_free_min=mark).watch.floor.limit_bytes > 500 * MB


def test_the_reserve_is_given_up_under_the_alarm_and_does_not_end_it() -> None:
    bed = AlarmBed()
    bed.around.reserve_bytes = 100 * MB
    bed.leave(500 * MB)
    assert bed.around.has_reserve and bed.around.free_bytes == 400 * MB
    bed.leave(40 * MB)
    assert bed.alarms() == ["alarm:disk"]
    assert not bed.around.has_reserve and bed.around.free_bytes == 140 * MB
    bed.leave(140 * MB)
    assert bed.alarms() == ["alarm:disk"], "140 MB free, 100 of them for the reserve"
    bed.leave(160 * MB)
    assert bed.alarms() == [] and bed.around.has_reserve
    assert bed.around.free_bytes == 60 * MB
    bed.leave(60 * MB)
    assert bed.alarms() == [], "making it again does not set it again"


@pytest.mark.parametrize(
    ("key", "before", "after", "wrong"),
    [
        ("memory.high", "40%", "1.5GB", "lots"),
        ("disk.free_min", "50MB", "mem:1.0", "40%"),
        ("alarm.mode", "targeted", "all", "none"),
        ("alarm.action", "block", "nack", "drop"),
    ],
)
def test_a_setting_is_changed_whole_or_not_at_all(
    key: str, before: str, after: str, wrong: str
) -> None:
    settings = AlarmBed().broker.settings
    assert settings.write(key, after) == (before, after)
    with pytest.raises(OperatorError, match=wrong):
        settings.write(key, wrong)
    assert settings.get(key).read() == after
