"""Definitions over the control socket: in steps, others between them, until the disk has all."""

from collections.abc import Generator
from pathlib import Path
from typing import cast

import msgspec
import pytest

from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.broker import Broker
from penstock.protocol import methods as m
from penstock.server.control.questions import Questions
from penstock.server.control.questions_definitions import DISK_LOOKS, REST_S
from tests.definitions import export_definitions, run_through
from tests.unit.broker.peer import Bed
from tests.unit.server.control.asked import questions
from tests.unit.server.durable_bed import DurableBed

Answer = dict[str, object]


def rows(count: int) -> dict[str, object]:
    """An exchange, and so many queues bound to it."""
    return {
        "exchanges": [{"vhost": "/", "name": "e", "type": "direct"}],
        "queues": [{"vhost": "/", "name": f"q{number}"} for number in range(count)],
        "bindings": [
            {"vhost": "/", "source": "e", "destination": f"q{number}", "routing_key": "k"}
            for number in range(count)
        ],
    }


def importing(broker: Broker, definitions: object) -> Steps[Answer]:
    given = msgspec.Raw(msgspec.json.encode(definitions))
    return asked_steps(questions(broker), {"do": "import", "definitions": given})


def asked_steps(of: Questions, fields: dict[str, object]) -> Steps[Answer]:
    found = of.answer({"op": "definitions", **fields})
    assert isinstance(found, Generator)
    return cast(Steps[Answer], found)


def advance(steps: Steps[Answer], broker: Broker, queues: int) -> None:
    """Until so many queues have been made."""
    while len(broker.vhosts["/"].queues) < queues:
        next(steps)


def notes_of(answer: Answer) -> str:
    return str(answer["notes"])


def test_no_step_makes_more_than_one_thing() -> None:
    bed = Bed()
    steps = importing(bed.broker, rows(50))
    vhost = bed.broker.vhosts["/"]
    before = (0, 0)
    for _ in steps:
        source = vhost.find_exchange("e")
        now = (len(vhost.queues), 0 if source is None else int(source.binding_count))
        assert sum(now) - sum(before) <= 1
        before = now
    assert before == (50, 50)


def test_an_export_is_the_same_in_steps() -> None:
    bed = Bed()
    run_through(importing(bed.broker, rows(20)))
    steps = asked_steps(questions(bed.broker), {"do": "export"})
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = end.value["definitions"]
            break
        count += 1
    assert count > 40
    expected = export_definitions(bed.broker, found["product_version"])[0]
    assert found["queues"] == expected["queues"] and found["bindings"] == expected["bindings"]
    assert len(found["bindings"]) == 20


def test_what_clients_do_between_the_steps() -> None:
    """Declared meanwhile, deleted meanwhile: passed over with a note, and the rest is done."""
    bed = Bed()
    peer = bed.connect()
    steps = importing(bed.broker, rows(6))
    advance(steps, bed.broker, 2)
    peer.call(1, m.QueueDeclare("q4", durable=True), m.QueueDeclareOk)
    peer.call(1, m.QueueDelete("q0"), m.QueueDeleteOk)
    answer = run_through(steps)
    assert answer["imported"]["queues"] == 5  # type: ignore[index]  # an object
    assert answer["imported"]["bindings"] == 5  # type: ignore[index]  # an object
    assert "queue 'q4' was declared by another client" in notes_of(answer)
    assert "'q0', an end of a binding, is gone" in notes_of(answer)
    steps = importing(bed.broker, {**rows(20), "exchanges": []})
    advance(steps, bed.broker, 8)
    peer.call(1, m.ExchangeDelete("e"), m.ExchangeDeleteOk)
    assert "'e', an end of a binding, is gone" in notes_of(run_through(steps))


def test_what_comes_and_goes_while_an_export_is_written() -> None:
    """No binding without its ends."""
    bed = Bed()
    peer = bed.connect()
    run_through(importing(bed.broker, rows(10)))
    steps = asked_steps(questions(bed.broker), {"do": "export"})
    for _ in range(13):
        next(steps)
    peer.call(1, m.QueueDelete("q3"), m.QueueDeleteOk)
    peer.call(1, m.QueueDeclare("late"), m.QueueDeclareOk)
    peer.call(1, m.QueueBind("late", "e", "k"), m.QueueBindOk)
    found = run_through(steps)["definitions"]
    assert isinstance(found, dict)
    names = {row["name"] for row in found["queues"]}
    assert "late" not in names
    assert {row["destination"] for row in found["bindings"]} <= names


def test_it_is_answered_when_the_disk_has_it(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "metadata.sqlite")
    try:
        steps = importing(bed.broker, rows(5))
        rests = 0
        while rests < 10:
            rests += next(steps) == REST_S
        bed.disk.work()
        assert run_through(steps)["notes"] == []
        assert len(bed.database.read().queues) == 5
    finally:
        bed.close()


def test_a_disk_that_does_not_come(tmp_path: Path) -> None:
    bed = DurableBed(tmp_path / "metadata.sqlite")
    try:
        steps = importing(bed.broker, rows(1))
        answer: Answer = {}
        rests = 0
        while not answer:
            try:
                rests += next(steps) > 0
            except StopIteration as end:
                answer = end.value
        assert rests == DISK_LOOKS
        assert "the disk does not have all of it yet" in notes_of(answer)
        bed.disk.work()
    finally:
        bed.close()


def test_one_import_at_a_time() -> None:
    bed = Bed()
    importer = questions(bed.broker)
    given = msgspec.Raw(msgspec.json.encode(rows(2)))
    request: dict[str, object] = {"do": "import", "definitions": given}
    first = asked_steps(importer, request)
    next(first)
    with pytest.raises(OperatorError, match="another import is under way"):
        run_through(asked_steps(importer, request))
    run_through(first)
    run_through(asked_steps(importer, request))


@pytest.mark.parametrize("given", [None, [], 1])
def test_what_is_no_object(given: object) -> None:
    with pytest.raises(OperatorError, match="needs the definitions as an object"):
        run_through(importing(Bed().broker, given))
    with pytest.raises(OperatorError, match=r"queues\[1\]: .*nothing was imported"):
        raw = msgspec.Raw(b'{"queues": [{"vhost": "/", "name": "a"}, {"name": "\xff"}]}')
        run_through(asked_steps(questions(Bed().broker), {"do": "import", "definitions": raw}))
