"""Every question has a way, and of one worker alone the answer is that worker's own."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.server.workers.gather_table import WAYS
from tests.unit.broker.stream.test_stream_groups import ask
from tests.unit.broker.stream.test_streams import made
from tests.unit.server.workers.workforce import Row, Workforce, workforce

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo"
RIGHTS = {"configure": "", "write": ".*", "read": ""}
POLICY = {"name": "p", "pattern": "^q", "definition": {"max-length": 1000}}
DEFINITIONS = {
    "vhosts": [{"name": "new"}],
    "users": [{"name": "u9", "password_hash": HASH, "hashing_algorithm": "argon2id", "tags": ""}],
    "queues": [{"vhost": "new", "name": "q", "durable": True, "arguments": {}}],
    "permissions": [{"user": "u9", "vhost": "new", **RIGHTS}],
}

ASKED: dict[str, list[Row]] = {
    "why": [
        {},
        {"kind": "memory"},
        {"kind": "not"},
        {"kind": "queue", "name": "q1"},
        {"kind": "x"},
    ],
    "status": [{}],
    "events": [{}, {"last": 3}, {"since": 2}, {"last": "x"}],
    "log": [{}, {"last": 2}, {"since": 1}, {"level": "error"}, {"last": 0}],
    "store": [{}, {"limit": 1}],
    "connections list": [{}, {"vhost": "/"}, {"vhost": "none"}, {"limit": 0}],
    "connections seek": [{"name": "peer1"}, {"name": "none"}],
    "flow edges": [{}, {"sort": "name", "limit": 2}, {"blocked": True}, {"sort": "x"}],
    "flow accounts": [
        *({}, {"limit": 1}, {"sort": "name"}, {"sort": "name", "limit": 1}, {"vhost": "/"}),
        *({"queue": "q1"}, {"queue": "/q2", "sort": "name"}, {"queue": "none"}, {"sort": "x"}),
    ],
    "flow alarms": [{}],
    "flow settings": [{}],
    "flow set": [{}, {"changes": {"alarm_mode": "all"}}, {"changes": {"none": "1"}}],
    "flow take": [{}, {"changes": {"rate.burst": "20ms", "none": "1"}}],
    "flow top": [{}, {"limit": 1}, {"window_s": 0}],
    "objects connections": [{}, {"limit": 2}, {"name": "peer1"}, {"name": "none"}, {"user": "x"}],
    "objects channels": [{}, {"limit": 2}, {"name": "peer1"}, {"name": "none"}],
    "objects consumers": [{}, {"limit": 1}],
    "objects queues": [{}, {"limit": 1}, {"name": "q1"}, {"name": "none", "vhost": "/"}],
    "objects exchanges": [{}, {"limit": 1}, {"name": "amq.topic"}],
    "objects bindings": [{}, {"limit": 1}, {"source": ""}, {"destination": "q1"}],
    "objects vhosts": [{}],
    "objects node": [{}],
    "objects login": [
        {"user": "guest", "password": "guest", "address": "127.0.0.1"},
        {"user": "guest", "password": "wrong", "address": "127.0.0.1"},
    ],
    "queues list": [{}, {"sort": "name", "limit": 2}, {"name": "q1"}, {"name": "none"}],
    "queues seek": [{"name": "/q1"}, {"name": "none"}],
    "queues pause": [{"name": "q1"}, {"name": "none"}],
    "queues resume": [{"name": "/q1"}],
    "queues release": [{"name": "s", "group": "g1"}, {"name": "q1", "group": "none"}],
    "queues readers": [{}, {"limit": 1}],
    "policies set": [{}, {"policy": POLICY}, {"policy": POLICY | {"vhost": "none"}}],
    "policies list": [{}, {"limit": 1}, {"operator": True}],
    "policies export": [{}],
    "policies clear": [{"name": "p"}, {"name": "p"}],
    "limits set": [
        *({}, {"kind": "user", "name": "guest", "limits": {"max-channels": 9}}),
        *({"kind": "vhost", "name": "/", "limits": {"max-queues": 99}}, {"kind": "vhost"}),
        {"kind": "vhost", "name": "none", "limits": {"max-queues": 99}},
    ],
    "limits list": [{}, {"limit": 1}],
    "limits clear": [{"kind": "vhost", "name": "/"}, {"kind": "x"}],
    "users add": [{"name": "u1", "password_hash": HASH, "hashing_algorithm": "argon2id"}, {}],
    "users change-password": [{"name": "none"}],
    "users set-tags": [{"name": "u1", "tags": ["management"]}, {"name": "u1", "tags": 1}],
    "users list": [{}, {"limit": 1}],
    "users delete": [{"name": "u1"}, {"name": "u1"}],
    "vhosts add": [{"name": "v1"}, {"name": "v1"}, {"name": ""}],
    "vhosts list": [{}, {"limit": 1}],
    "vhosts delete": [{"name": "v1"}, {"name": "v1"}],
    "super-streams add": [{"name": "super", "partitions": 2}, {"name": "super", "vhost": "none"}],
    "super-streams list": [{}, {"limit": 1}],
    "super-streams delete": [{"name": "super"}, {"name": "super"}],
    "permissions set": [{"user": "guest", **RIGHTS}, {"user": "none", **RIGHTS}, {"user": "x"}],
    "permissions set-topic": [
        {"user": "guest", "exchange": "amq.topic", "write": "", "read": ""},
        {"user": "guest", "vhost": "none", "exchange": "amq.topic", "write": "", "read": ""},
    ],
    "permissions list": [{}, {"limit": 1}, {"user": "guest"}],
    "permissions clear-topic": [{"user": "guest", "exchange": ""}],
    "permissions clear": [{"user": "guest"}],
    "definitions export": [{}],
    "definitions check": [{"definitions": DEFINITIONS}, {"definitions": 1}],
    "definitions import": [{"definitions": DEFINITIONS}, {"definitions": {"queues": [{}]}}, {}],
    "record status": [{}],
    "record list": [{}],
    "record part": [{"number": 1}, {"number": "x"}],
    "connections close": [{"name": "peer1"}, {"name": "none"}],
}
"""Questions in the order in which they are asked."""
ELSEWHERE = {"record save", "record round"}
"""These need the rounds of a node, see test_gather_nodes."""
OF_ANOTHER = {"users kept", "users take"}
"""Of the parent itself, which makes workers equal."""


async def test_every_question_has_a_way(tmp_path: Path) -> None:
    async with workforce(tmp_path, ("/",)) as force:
        questions = set(force.questions[0].answers)
    assert questions <= set(WAYS), "say in gather_table how it is answered for several workers"
    assert set(WAYS) <= questions | OF_ANOTHER
    assert set(ASKED) == set(WAYS) - ELSEWHERE - OF_ANOTHER


def fill(force: Workforce) -> None:
    bed = force.beds[0]
    reader = made(bed)
    for number in range(4):
        peer = bed.connect(f"peer{number}")
        peer.call(1, m.QueueDeclare(f"q{number}"), m.QueueDeclareOk)
        peer.publish(f"q{number}", *(b"x" for _ in range(number)))
        peer.say(1, m.BasicConsume("q3"), m.QueueBind("q0", "amq.topic", f"k{number}"))
        ask(reader, "stream.group.register", group=f"g{number}")
        force.logs[0].add(number, 1, "kind", f"line {number}")
    bed.run()


async def outcome(force: Workforce, question: Row, is_gathered: bool) -> Any:
    """The answer, or the words of the refusal."""
    asked = dict(question)
    if "definitions" in asked and is_gathered:
        asked["definitions"] = msgspec.Raw(msgspec.json.encode(asked["definitions"]))
    try:
        found = await (force.ask(**asked) if is_gathered else force.ask_one(0, **asked))
    except OperatorError as error:
        return str(error)
    for row in found.get("items", ()):
        # Open sockets are counted, and there are more of them from one question to the next.
        row.get("machine", {}).pop("fd_used", None)
    return found


@pytest.mark.parametrize("limit", [None, 2])
async def test_of_one_worker_alone_the_answer_is_its_own(tmp_path: Path, limit: int | None) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with workforce(tmp_path / "a", ("/",)) as one, workforce(tmp_path / "b", ("/",)) as other:
        fill(one)
        fill(other)
        for name, many in ASKED.items():
            op, _, do = name.partition(" ")
            for fields in many:
                question = {"op": op, "do": do, **fields}
                if limit is not None and "limit" not in fields:
                    question["limit"] = limit
                gathered = await outcome(one, question, True)
                assert gathered == await outcome(other, question, False), question
                while isinstance(gathered, dict) and isinstance(gathered.get("next"), str):
                    if gathered["next"] == "":
                        break
                    question["after"] = gathered["next"]
                    gathered = await outcome(one, question, True)
                    assert gathered == await outcome(other, question, False), question
        assert one.places.places == {"/": 0, "new": 0}
        made_or_not = ["place v1", "place ", "forget ", "forget v1", "place new"]
        assert one.places.log == made_or_not
