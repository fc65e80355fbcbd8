"""What alarms do to connections: actions, other nodes, the log, the list."""

import pytest

from penstock.base.config import AlarmAction
from penstock.base.errors import OperatorError
from penstock.broker.admin.alarm_watch import alarm_rows
from penstock.broker.alarm.alarm_manager import (
    AlarmActions,
    ResourceLevel,
    biggest,
    forecast,
    one,
    pair,
    reason,
)
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from tests.unit.broker.alarm_bed import MB, AlarmBed, kinds
from tests.unit.broker.peer import publish


def test_nack_answers_in_the_publishes_place_and_the_queue_takes_none() -> None:
    bed = AlarmBed(alarm_action="nack")
    peer = bed.publisher("p", "q")
    peer.call(1, m.ConfirmSelect(False), m.ConfirmSelectOk)
    peer.publish("q", b"1")
    bed.broker.set_alarm("memory", "low")
    peer.publish("q", b"2", b"3")
    assert bed.state(peer) == "blocking", "nothing of it is held"
    bed.broker.clear_alarm("memory")
    peer.publish("q", b"4")
    assert peer.confirmed() == {1: "ack", 2: "nack", 3: "nack", 4: "ack"}
    assert bed.ready("q") == 3
    bed.settle()


def test_nack_without_confirms_holds() -> None:
    bed = AlarmBed(alarm_action="nack")
    peer = bed.publisher("p", "q")
    bed.broker.set_alarm("memory", "low")
    peer.publish("q", b"2")
    assert kinds(peer) == [m.ConnectionBlocked] and bed.ready("q") == 1
    bed.broker.clear_alarm("memory")
    bed.run()
    assert kinds(peer) == [m.ConnectionUnblocked] and bed.ready("q") == 2
    bed.settle()


def test_nack_answers_a_publish_behind_a_parked_one() -> None:
    """A closed hop keeps publishes back, also those that will only be refused; what no queue has
    been handed when the alarm comes is refused, in its order."""
    bed = AlarmBed(alarm_action="nack", parked_bytes=1)
    peer = bed.publisher("p", "q")
    peer.call(1, m.ConfirmSelect(False), m.ConfirmSelectOk)
    actor = bed.broker.vhosts["/"].queues["q"]
    actor.gate.close("store:/", "disk")
    for _ in range(1200):
        peer.publish("q", b"x")
    bed.broker.set_alarm("memory", "low")
    peer.publish("q", b"refused", b"refused")
    actor.gate.open("store:/", "disk")
    peer.read_on()
    answers = [answer for _, answer in sorted(peer.confirmed().items())]
    taken = bed.ready("q") - 1
    assert 400 <= taken < 1200
    assert answers == ["ack"] * taken + ["nack"] * (1202 - taken)
    bed.broker.clear_alarm("memory")
    bed.settle()


def test_a_barrier_goes_past_a_publish_that_is_refused() -> None:
    bed = AlarmBed(alarm_action="nack")
    peer = bed.publisher("p", "q")
    peer.call(1, m.ConfirmSelect(False), m.ConfirmSelectOk)
    bed.broker.set_alarm("memory", "low")
    bind = method_frame(1, m.QueueBind("q", "amq.direct", "k"))
    peer.send(publish(1, "", "q", b"refused"), bind)
    assert set(kinds(peer)) == {m.BasicNack, m.QueueBindOk}
    bed.broker.clear_alarm("memory")
    bed.settle()


def test_close_ends_the_connection_with_the_reason() -> None:
    bed = AlarmBed(alarm_action="close")
    peer = bed.publisher("p", "q")
    idle = bed.publisher("idle", "q")
    bed.use(500 * MB)
    peer.publish("q", b"2")
    close = peer.one(m.ConnectionClose)
    assert close.reply_code == 320
    assert close.reply_text.startswith(
        "CONNECTION_FORCED - broker forced connection closure with reason 'low on memory (500.00"
    )
    assert bed.state(idle) == "blocking" and idle.heard() == []
    assert bed.ready("q") == 2


def test_an_action_is_by_vhost_and_user_and_changes_while_the_alarm_lasts() -> None:
    rows = (AlarmAction("close", user="nobody"), AlarmAction("nack", vhost="/"))
    bed = AlarmBed(alarm_actions=rows)
    peer = bed.publisher("p", "q")
    bed.broker.set_alarm("disk", "low")
    assert peer.connection.alarm_action == "nack"
    other = AlarmBed()
    peer = other.publisher("p", "q")
    other.broker.set_alarm("disk", "low")
    assert peer.connection.alarm_action == "block"
    other.change("alarm.action", "close")
    assert peer.connection.alarm_action == "close"


def test_the_log_has_one_line_for_the_beginning_and_one_for_the_end() -> None:
    bed = AlarmBed()
    for name in ("a", "b"):
        bed.publisher(name, "q")
    bed.connect("consumer")
    bed.log.lines.clear()
    bed.use(500 * MB)
    bed.use(490 * MB)
    bed.use(100 * MB)
    assert bed.log.lines == [
        "memory alarm: 500.00/400.00 MB used, clears below 360.00 MB; publishing stopped for all, "
        "2 connections publish; consumers continue",
        "memory alarm is over after 2.0 s; publishing goes on",
    ]


def test_the_list_has_both_resources_and_what_other_nodes_have() -> None:
    bed = AlarmBed()
    bed.publisher("p", "q")
    bed.leave(500 * MB)
    bed.around.used_bytes = 500 * MB
    bed.watch.check_memory()
    bed.clock.advance(5)
    bed.manager.node_up("n2", ("memory",))
    rows = {(row.resource, row.node): row for row in alarm_rows(bed.manager, {})}
    assert set(rows) == {("disk", "node"), ("memory", "node"), ("memory", "n2")}
    own = rows[("memory", "node")]
    assert own.is_set and own.stopped == ["p"] and own.set_for_ns == 5
    assert own.now_bytes == 500 * MB
    assert own.limit_bytes == 400 * MB and own.clear_bytes == 360 * MB
    assert own.mode == "targeted" and own.action == "block"
    disk = rows[("disk", "node")]
    assert not disk.is_set and disk.stopped == [] and disk.set_for_ns == 0 and disk.mode == "all"
    assert rows[("memory", "n2")].now_bytes is None and rows[("memory", "n2")].is_set


def test_another_nodes_alarm_stops_everybody_even_while_ours_is_targeted() -> None:
    bed = AlarmBed()
    bed.publisher("big", "q1", 3 * MB)
    small = bed.publisher("small", "q2", MB)
    bed.squeeze()
    assert bed.state(small) == "running"
    bed.manager.node_up("n2", ())
    bed.manager.set("memory", "set on n2", None, "n2")
    bed.use(1_020_000)
    assert bed.state(small) == "blocking"
    bed.manager.node_down("n2")
    bed.use(1_020_000)
    assert bed.state(small) == "running"
    assert bed.alarms() == ["alarm:memory"]


@pytest.mark.parametrize("capabilities", [(), ("connection.blocked",)])
def test_only_clients_that_know_it_are_told(capabilities: tuple[str, ...]) -> None:
    bed = AlarmBed()
    peer = bed.connect("p", capabilities=capabilities)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    bed.broker.set_alarm("memory", "low")
    peer.publish("q", b"held")
    bed.broker.clear_alarm("memory")
    bed.run()
    told = [m.ConnectionBlocked, m.ConnectionUnblocked] if capabilities else []
    assert kinds(peer) == told and bed.ready("q") == 1


# -- actions and words ---------------------------------------------------------------------------


def test_the_first_row_that_fits_decides() -> None:
    actions = AlarmActions(
        "block",
        (
            AlarmAction("close", vhost="web", user="app"),
            AlarmAction("nack", vhost="web"),
            AlarmAction("close", user="etl"),
        ),
    )
    assert actions.of("web", "app") == "close"
    assert actions.of("web", "etl") == "nack"
    assert actions.of("/", "etl") == "close"
    assert actions.of("/", "guest") == "block"


def test_another_action_is_refused_and_changes_nothing() -> None:
    with pytest.raises(OperatorError, match="alarm action 'drop' is unknown; one of: block, nack"):
        AlarmActions("drop", ())
    with pytest.raises(OperatorError, match="'stop'"):
        AlarmActions("block", (AlarmAction("stop"),))
    bed = AlarmBed(alarm_action="nack")
    with pytest.raises(OperatorError):
        bed.change("alarm.action", "x")
    assert bed.manager.actions.default == "nack"


MEMORY = ResourceLevel(1900 * MB, 2000 * MB, 0)
FREE = ResourceLevel(5 * MB, 50 * MB, 0)


@pytest.mark.parametrize(
    ("levels", "queues", "text"),
    [
        (
            {"memory": MEMORY},
            {"queue:/events": 71, "queue:/mail": 29},
            "low on memory (1.90/2.00 GB); biggest: queue /events 71 %",
        ),
        (
            {"memory": MEMORY, "disk": FREE},
            {},
            "low on disk & memory (free 5.00/50.00 MB; 1.90/2.00 GB)",
        ),
        ({"disk": None}, {"queue:/q": 0}, "low on disk"),
    ],
)
def test_clients_are_told_usage_limit_and_the_biggest_queue(
    levels: dict[str, ResourceLevel | None], queues: dict[str, int], text: str
) -> None:
    assert reason(levels, queues) == text


def test_clients_are_told_when_it_ends_at_the_earliest() -> None:
    level = ResourceLevel(1900 * MB, 1850 * MB, 1700 * MB)
    text = "low on memory (1.90/1.85 GB); ends below 1.70 GB, in 20.0 s at the earliest"
    assert reason({"memory": level}, {}, 10.0 * MB) == text
    assert reason({"memory": level}, {"queue:/q": 1}, 0.0) == (
        "low on memory (1.90/1.85 GB); ends below 1.70 GB, and no consumer takes anything now; "
        "biggest: queue /q 100 %"
    )
    assert forecast(None, 1.0) == "" and forecast(ResourceLevel(5, 4, 0), 1.0) == ""


def test_the_forecast_is_of_what_consumers_take() -> None:
    """Ten seconds in which a consumer takes 1 MB a second, then an alarm."""
    bed = AlarmBed()
    peer = bed.publisher("p", "q")
    eater = bed.connect("consumer")
    eater.say(1, m.BasicConsume("q", "t", no_ack=True))
    eater.heard()
    for _ in range(11):
        for _ in range(10):
            peer.publish("q", b"x" * 100_000)
        eater.heard()
        bed.use(100 * MB)
    bed.use(410 * MB)
    peer.publish("q", b"held")
    said = peer.one(m.ConnectionBlocked).reason
    assert said.startswith("low on memory (410.00/400.00 MB); ends below 360.00 MB, in ")
    assert said.endswith(" s at the earliest")
    # 50 MB at 1 MB a second, which has stood for the last one of seven seconds.
    assert 50 <= float(said.split()[-5]) <= 60


def test_a_long_name_gives_way_to_the_numbers() -> None:
    text = reason({"memory": MEMORY}, {"queue:/" + "ü" * 127: 1})
    assert len(text.encode()) <= 255
    assert text.endswith("... 100 %") and "1.90/2.00 GB" in text


def test_sizes_share_the_unit_of_the_greater() -> None:
    assert pair(0, 0) == "0/0 bytes"
    assert pair(512, 2_000) == "0.51/2.00 kB"
    assert one(1_710_000_000) == "1.71 GB" and one(12) == "12 bytes"


def test_nothing_is_biggest_among_empty_queues() -> None:
    assert biggest({"queue:/a": 0}, 255) == "" and biggest({}, 255) == ""
