"""Addresses become names, and only whole addresses do."""

import time
import tracemalloc

from penstock.spark.blame.blame import counted_once
from penstock.spark.schema.rows import (
    BlameRow,
    BlockedByRow,
    Tables,
    client_names,
    renamed,
    renamer,
)


def test_an_address_that_is_part_of_another_is_left_alone() -> None:
    rename = renamer({"127.0.0.1:551": "a", "127.0.0.1:5512": "b"})
    assert rename("conn:127.0.0.1:551") == "conn:a"
    assert rename("chan:127.0.0.1:5512/1") == "chan:b/1"
    assert rename("conn:127.0.0.1:55123") == "conn:127.0.0.1:55123"
    assert rename("conn:227.0.0.1:551") == "conn:227.0.0.1:551"


def test_actors_peers_and_paths_are_renamed() -> None:
    tables = Tables(
        (BlockedByRow(0, "conn:h:1", "chan:h:1/1", "credit", 5),),
        (BlameRow(0, "conn:h:1", "chan:h:1/1", "broker work", "conn:h:1 → chan:h:1/1", 5),),
        (),
        (),
        (),
        (),
        (),
        (),
        (),
    )
    other = tables.who_blocked_whom[0]._replace(node="m")
    tables = tables._replace(who_blocked_whom=(*tables.who_blocked_whom, other))
    found = renamed(tables, {"": {"h:1": "web"}, "n": {"h:1": "other"}})
    assert found.who_blocked_whom[0][1:3] == ("conn:web", "chan:web/1")
    assert found.who_blocked_whom[1] == other
    assert found.root_cause[0].path == "conn:web → chan:web/1"
    assert renamed(tables, {}) is tables


def test_a_client_that_calls_itself_as_another_is_shown_is_not_taken_for_it() -> None:
    found = client_names(
        [("n", "conn:h:1", "twin"), ("n", "conn:h:2", "twin"), ("n", "conn:h:3", "twin@h:1")]
    )
    assert found == {"n": {"h:1": "twin@h:1", "h:2": "twin@h:2", "h:3": "twin@h:1@h:3"}}


def test_clients_are_called_what_they_call_themselves() -> None:
    found = client_names(
        [
            ("n", "conn:h:1", "shop"),
            ("n", "conn:h:2", "worker"),
            ("n", "conn:h:3", "worker"),
            ("n", "conn:h:4", ""),
            ("n", "conn:h:5", "early"),
            ("n", "conn:h:5", "late"),
            ("n", "queue:/q", "no client"),
            ("m", "conn:h:1", "worker"),
        ]
    )
    assert found == {
        "n": {"h:1": "shop", "h:2": "worker@h:2", "h:3": "worker@h:3"},
        "m": {"h:1": "worker"},
    }


def test_days_of_short_connections_cost_no_more_than_their_addresses() -> None:
    ups = (("n", f"conn:h:{number % 50}", f"task {number}") for number in range(10_000))
    tracemalloc.start()
    try:
        assert client_names(ups) == {"n": {}}
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 200_000


def test_no_client_adds_to_the_way_of_a_wait_by_its_name() -> None:
    """One that is called as a chain would be taken for a connection that waits for its channel,
    whose time counts once, as that of the channel."""
    row = BlameRow(0, "conn:h:1", "queue:/q", "broker work", "conn:h:1 → queue:/q", 7)
    tables = Tables((), (row,), (), (), (), (), (), (), ())
    found = renamed(tables, {"": {"h:1": "shop → chan:x/1"}}).root_cause
    assert counted_once(found) == [
        row._replace(victim="conn:shop -> chan:x/1", path="conn:shop -> chan:x/1 → queue:/q")
    ]


def test_a_report_of_many_connections_does_not_look_for_each_in_every_text() -> None:
    """It took eight seconds for these, and four times as long for twice as many."""
    names = {f"10.0.{at % 7}.1:{1024 + at}": f"app-{at}" for at in range(32_000)}
    began_s = time.process_time()
    rename = renamer(names)
    found = [rename(f"conn:{address} → chan:{address}/1 → queue:/q") for address in names]
    assert time.process_time() - began_s < 3
    assert found[9] == "conn:app-9 → chan:app-9/1 → queue:/q"
