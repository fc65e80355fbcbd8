"""Why memory: who holds it, who is stopped for it, and where it goes."""

from dataclasses import replace

from penstock.explain.asking import explain_memory, render_memory
from penstock.explain.explanation import FREE, THROTTLED, Part
from penstock.telemetry.actor_window import ActorWindow
from tests.unit.explain.scene import actor, held, scene

NODE = actor("node", numbers={"used_bytes": 1.9e9, "limit_bytes": 1.8e9, "memory_bytes": 1e9,
                              "clear_bytes": 1.62e9})  # fmt: skip
ALARM = replace(actor("alarm:memory"), labels={"who": "publishing stopped for 1 of 2 connections"})


def full() -> dict[str, ActorWindow]:
    return scene(
        NODE,
        ALARM,
        actor("conn:a", (2, 0, 8, 0), held("alarm:memory", 8, "alarm"),
              numbers={"memory_bytes": 6e8}),
        actor("conn:b", numbers={"memory_bytes": 2e8}),
        actor("queue:/big", numbers={"bytes": 9e8}),
        actor("queue:/empty", numbers={"bytes": 0}),
        actor("user:guest@/", numbers={"ended_bytes": 2e8}),
    )  # fmt: skip


def test_the_alarm_is_set() -> None:
    answer = explain_memory(full(), 0.9e9, 10)
    assert (answer.state, answer.exit_status(), answer.is_held) == (THROTTLED, 3, True)
    assert answer.stopped == (Part("conn:a", 0.8),)
    assert [(one.name, one.bytes) for one in answer.queues] == [("queue:/big", 900_000_000)]
    assert render_memory(answer).splitlines() == [
        "memory: 1.9 GB of 1.8 GB used (106 %); the alarm is set",
        " effect            publishing stopped for 1 of 2 connections; consumers continue",
        " it ends           below 1.6 GB",
        " stopped           a 80 %",
        " messages hold     1.0 GB; 900.0 MB is the broker itself and what the system has not "
        "taken back",
        " in queues         queue /big 900.0 MB (100 %)",
        " published by      a 600.0 MB (75 %)",
        " published by      b 200.0 MB (25 %)",
        " published by      connections that have ended: 200.0 MB",
        " trend             what messages hold grows by 10.0 MB/s",
        " try       consume from or purge queue /big: it holds 900.0 MB, 100 % of what is in "
        "queues",
        " try       see who keeps up with it: penstock why queue /big",
    ]


def test_a_forecast_before_the_alarm() -> None:
    windows = scene(
        actor("node", numbers={"used_bytes": 1e9, "limit_bytes": 2e9, "memory_bytes": 1e9})
    )
    answer = explain_memory(windows, 0.9e9, 10)
    assert (answer.state, answer.exit_status()) == (FREE, 0)
    assert "the alarm in about 100 s at this rate" in render_memory(answer)
    shrinking = render_memory(explain_memory(windows, 1.1e9, 10))
    assert "shrinks by 10.0 MB/s" in shrinking and "alarm in" not in shrinking
    far = render_memory(explain_memory(windows, 1e9 - 50_000, 10))
    assert "grows by 5.0 kB/s" in far and "alarm in" not in far


def test_nothing_is_known_yet() -> None:
    assert render_memory(explain_memory({}, 0, 0)).startswith("memory: 0 bytes of 0 bytes used")
