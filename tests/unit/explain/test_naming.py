"""Connections are shown by the names they gave, wherever an id stands."""

from penstock.explain.naming import NAME_CHARACTERS_MAX, Names, named, spark_words
from tests.unit.explain.scene import actor, held, scene

WINDOWS = scene(
    actor("conn:1.1.1.1:1", (0, 0, 9, 0), held("chan:1.1.1.1:1/1", 9), labels={"name": "web-7"}),
    actor("chan:1.1.1.1:1/1", (0, 0, 9, 0), held("queue:/q", 9),
          numbers={"credit_now:queue:/q": 0, "credit_initial:queue:/q": 400}),
    actor("conn:1.1.1.1:2", labels={"name": "twin"}),
    actor("conn:1.1.1.1:3", labels={"name": "twin"}),
    actor("conn:1.1.1.1:4", labels={"name": "  "}),
    actor("consumer:c@1@conn:1.1.1.1:1"),
    actor("queue:/q", numbers={"debt:conn:1.1.1.1:1": 3, "sent:conn:1.1.1.1:4": 1},
          rates={"sent:conn:1.1.1.1:1": 9.0}),
)  # fmt: skip


def test_every_id_that_has_a_connection_in_it() -> None:
    windows = named(WINDOWS)
    shown = "conn:web-7 chan:web-7/1 conn:twin@1.1.1.1:2 conn:twin@1.1.1.1:3 conn:1.1.1.1:4"
    assert set(windows) == {*shown.split(), "consumer:c@1@conn:web-7", "queue:/q"}
    assert all(window.actor == name for name, window in windows.items())
    assert windows["conn:web-7"].blocks[0].peer == "chan:web-7/1"
    assert windows["queue:/q"].numbers == {"debt:conn:web-7": 3, "sent:conn:1.1.1.1:4": 1}
    assert windows["queue:/q"].rates == {"sent:conn:web-7": 9.0}
    assert windows["chan:web-7/1"].numbers == WINDOWS["chan:1.1.1.1:1/1"].numbers


def test_a_lease_is_called_by_its_query() -> None:
    """Its group's name may have been made up; two of one name stay two."""
    lease = {"lease": "spark query minutes (app)"}
    windows = named(
        scene(
            actor("conn:1.1.1.1:1", labels={"name": "app: source"}),
            actor("consumer:checkpoint-7b03@conn:1.1.1.1:1", labels=lease),
            actor("consumer:checkpoint-7b04@conn:1.1.1.1:1", labels=lease),
        )
    )
    first = "consumer:spark query minutes (app)@conn:app: source"
    second = "consumer:spark query minutes (app) checkpoint-7b04@conn:app: source"
    assert set(windows) == {"conn:app: source", first, second}


def test_where_a_query_runs_is_said_beside_its_client() -> None:
    said = {"query": "minutes", "query_id": "64a9", "application": "app", "host": "w\x1b1", "x": 5}
    assert spark_words({"spark": said}) == "Spark query minutes, id 64a9, application app, host w?1"
    assert spark_words({"spark": "minutes"}) == "" == spark_words({})


def test_other_ids_stay() -> None:
    names = Names(WINDOWS)
    assert names.of("socket:1.1.1.1:1") == "socket:web-7"
    assert names.of("rate:conn:1.1.1.1:1") == "rate:conn:web-7"
    assert names.of("rate:user:app") == "rate:user:app"
    for other in ("alarm:memory", "queue:/1.1.1.1:1", "others", "consumer:x", "conn:gone", "node"):
        assert names.of(other) == other


def test_a_name_that_is_another_actors_has_the_address_too() -> None:
    windows = named(scene(actor("conn:a", labels={"name": "b"}), actor("conn:b")))
    assert set(windows) == {"conn:b@a", "conn:b"}


def test_a_client_cannot_take_the_place_of_another_that_is_shown_with_its_address() -> None:
    names = {"conn:1:1": "twin", "conn:1:2": "twin", "conn:1:3": "twin@1:1"}
    windows = named(scene(*(actor(one, labels={"name": name}) for one, name in names.items())))
    assert set(windows) == {"conn:twin@1:1", "conn:twin@1:2", "conn:twin@1:1@1:3"}


def test_a_name_is_one_line_and_not_too_long() -> None:
    windows = named(scene(actor("conn:a", labels={"name": "x\n\x1b" + "y" * 500})))
    [name] = windows
    assert name.startswith("conn:x??y") and len(name) == 5 + NAME_CHARACTERS_MAX


def test_without_names_nothing_is_copied() -> None:
    windows = scene(actor("conn:a"), actor("chan:a/1"))
    assert all(named(windows)[name] is window for name, window in windows.items())
