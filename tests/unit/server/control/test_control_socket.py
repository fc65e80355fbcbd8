"""The control socket and its other end: a line in, a line out, bounded, written in slices."""

import asyncio
import json
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.base.limits import CONTROL_REQUEST_BYTES
from penstock.broker.actors.cooperative import Steps
from penstock.server.control import control_client
from penstock.server.control.control_client import (
    NOBODY_LEADS,
    amqp_socket,
    ask,
    cluster_path,
    control_path,
    find_cluster,
)
from penstock.server.control.control_socket import (
    LINES,
    PIECE_BYTES,
    ROWS,
    ControlSocket,
    in_slices,
    json_steps,
)
from tests.definitions import run_through
from tests.patience import PATIENCE_S
from tests.unit.server.wire import running, until


def answer(request: dict[str, object]) -> dict[str, object]:
    """Echo, refuse, or fail, as asked."""
    if request.get("op") == "refuse":
        raise OperatorError("no")
    if request.get("op") == "fail":
        raise KeyError("a bug")
    return {"echo": request}


async def asked(path: Path, line: bytes) -> dict[str, object]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(line)
    reply = await asyncio.wait_for(reader.readline(), PATIENCE_S)
    writer.close()
    await writer.wait_closed()
    found = json.loads(reply)
    assert isinstance(found, dict)
    return found


async def test_questions_and_answers(tmp_path: Path) -> None:
    path = tmp_path / "new" / "control.sock"
    control = ControlSocket(str(path), answer)
    await control.start()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert await asked(path, b'{"op": "x"}\n') == {"echo": {"op": "x"}}
    assert await asked(path, b'{"op": "refuse"}\n') == {"error": "no"}
    assert "KeyError" in str((await asked(path, b'{"op": "fail"}\n'))["error"])
    for junk in (b"\n", b"[]\n", b"{\n", b"\xff\n", b'"x"\n'):
        assert "not a JSON object" in str((await asked(path, junk))["error"])
    await control.close()
    assert not path.exists()


async def test_a_request_without_an_end_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    control = ControlSocket(str(path), answer)
    await control.start()
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b"x" * (3 * CONTROL_REQUEST_BYTES.default))
    # A reset or a broken pipe is an end too: it may overtake the orderly one.
    with suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
    writer.close()
    await control.close()


async def test_a_socket_left_by_a_crash_is_replaced_and_nothing_else_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    await (first := ControlSocket(str(path), answer)).start()
    with pytest.raises(OperatorError, match="another broker is asked at the control socket"):
        await ControlSocket(str(path), answer).start()
    assert await asked(path, b"{}\n") == {"echo": {}}
    await first.close()
    assert not path.exists()
    other = tmp_path / "file"
    other.write_text("kept")
    with pytest.raises(OperatorError, match="--control"):
        await ControlSocket(str(other), answer).start()
    assert other.read_text() == "kept"


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="penstock serve"):
        ask(str(tmp_path / "none.sock"), {"op": "status"}, 1.0)


def test_the_usual_place_is_named_by_the_port() -> None:
    assert control_path(5673).endswith("penstock-5673.sock")


def test_a_node_of_a_cluster_is_found_as_its_broker_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, session = tmp_path / "run", tmp_path / "session"
    for place in (service, session):
        place.mkdir()
    monkeypatch.setattr(control_client, "SERVICE", service)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    # Where it would be, then where a service has it, by either of its sockets.
    assert find_cluster(5673) == str(session / "penstock-5673-cluster.sock")
    broker = str(service / "control.sock")
    assert find_cluster(5673, broker) == broker
    own = cluster_path(5673, broker)
    assert own == str(service / "control-cluster.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(own)
        assert find_cluster(5673) == find_cluster(5673, broker) == find_cluster(5673, own) == own


async def test_a_node_answers_status_and_why(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        assert node.control is not None
        path = node.control.path
        status = await asked(path, b'{"op": "status"}\n')
        assert status["profile"] == "penstock" and status["alarms"] == {}
        node.tick()
        why = await asked(path, b'{"op": "why", "kind": "publish"}\n')
        assert "explanation" in why and "text" in why
        for bad in (
            b'{"op": "x"}\n',
            b'{"op": "why", "window_s": -1}\n',
            b'{"op": "why", "kind": 1}\n',
        ):
            assert "error" in await asked(path, bad)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_others_have_their_turn() -> None:
    async def scenario() -> None:
        turns = 0

        def steps() -> Steps[str]:
            while turns < 5:
                yield 0.0
            return "done"

        async def other() -> None:
            nonlocal turns
            while turns < 5:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        assert await in_slices(steps()) == "done"
        await task

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


async def test_a_rest_is_a_rest_and_a_fault_is_a_fault() -> None:
    def steps() -> Steps[None]:
        yield 0.01
        raise OperatorError("no")

    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(OperatorError, match="no"):
        await in_slices(steps())
    assert loop.time() - began >= 0.009


@given(PLAIN)
def test_json_in_pieces(value: object) -> None:
    assert b"".join(run_through(json_steps(value))) == msgspec.json.encode(value)


def test_long_lists_in_pieces() -> None:
    value = {"a": {"rows": [{"n": number} for number in range(ROWS * 2 + 1)]}, "b": [], "c": {}}
    assert b"".join(run_through(json_steps(value))) == msgspec.json.encode(value)
    assert sum(1 for _ in json_steps(value)) > 8


async def test_a_very_long_answer_is_sent_in_pieces(tmp_path: Path) -> None:
    """Whoever else the loop has to serve waits for one of them alone."""
    rows = [{"n": number, "text": "x" * 1000} for number in range(5_000)]
    pieces = run_through(json_steps({"rows": rows}))
    assert max(map(len, pieces)) < PIECE_BYTES * 2 and len(pieces) > 20
    path = tmp_path / "control.sock"
    control = ControlSocket(str(path), lambda _: asyncio.sleep(0, {"rows": rows}))
    await control.start()
    reader, writer = await asyncio.open_unix_connection(str(path), limit=1 << 30)
    for _ in range(2):
        writer.write(b"{}\n")
        line = await asyncio.wait_for(reader.readline(), PATIENCE_S)
        assert json.loads(line) == {"rows": rows}
    writer.close()
    await control.close()


async def test_who_is_there_at_the_end_is_no_fault(tmp_path: Path) -> None:
    """A broker that stopped while a page was open, say, wrote a traceback."""
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    path = tmp_path / "control.sock"
    waiting = Waiting()
    control = ControlSocket(str(path), waiting.answer)
    await control.start()
    ends = []
    for line in (b"", b'{"do": "look"}\n'):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(line)
        ends.append((reader, writer))
    await until(lambda: waiting.count == 1 and control.clients == 2)
    await control.close()
    assert control.clients == 0 and waiting.is_given_up
    for reader, writer in ends:
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        writer.close()
    await asyncio.sleep(0)
    assert faults == []


class Counting:
    """Answers without an end, until it is stopped. steps: done so far."""

    def __init__(self) -> None:
        self.steps = 0
        self.is_stopped = False

    def answer(self, request: dict[str, object]) -> Steps[dict[str, object]]:
        try:
            for _ in range(int(str(request["steps"]))):
                self.steps += 1
                yield 0.001
        finally:
            self.is_stopped = True
        return {"steps": self.steps}


@pytest.mark.parametrize("is_change", [False, True], ids=["question", "change"])
async def test_whoever_hangs_up_has_a_question_stopped_and_a_change_done(
    tmp_path: Path, is_change: bool
) -> None:
    counting = Counting()
    told: list[dict[str, object]] = []
    control = ControlSocket(
        str(tmp_path / "control.sock"),
        counting.answer,
        lambda request, _: told.append(request),
        lambda request: request["do"] == "change",
    )
    await control.start()
    _, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
    steps = 200 if is_change else 1_000_000_000
    request = {"do": "change" if is_change else "look", "steps": steps}
    writer.write(json.dumps(request).encode() + b"\n")
    await until(lambda: counting.steps > 3)
    writer.close()
    await until(lambda: counting.is_stopped)
    if is_change:
        await until(lambda: bool(told))
        assert counting.steps == steps and told == [request]
    else:
        assert counting.steps < steps and told == []
    await until(lambda: control.clients == 0)
    await control.close()


async def test_whoever_has_only_said_all_is_answered(tmp_path: Path) -> None:
    """`nc -N` and the like close their end for writing and wait."""
    counting = Counting()
    control = ControlSocket(str(tmp_path / "control.sock"), counting.answer)
    await control.start()
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
    writer.write(b'{"steps": 30}\n')
    writer.write_eof()
    assert json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S)) == {"steps": 30}
    writer.close()
    await control.close()


@pytest.mark.parametrize("count", [1, 3 * ROWS])
def test_a_long_list_below_a_short_one_is_written_in_pieces(count: int) -> None:
    value = {"vhosts": [{"vhost": "/", "queues": list(range(count))}, {"queues": []}]}
    pieces = sum(1 for _ in json_steps(value))
    assert pieces >= count // ROWS
    steps = json_steps(value)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert json.loads(b"".join(end.value)) == value
            break


async def read_lines(path: Path, request: dict[str, object]) -> dict[str, object]:
    """An answer in lines, put together."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(json.dumps(request | {"in_lines": True}).encode() + b"\n")
    found: dict[str, object] = json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S))
    lines = found.pop(LINES)
    assert isinstance(lines, list)
    for place in lines:
        into: object = found
        for name in place:
            assert isinstance(into, dict)
            into = into[name]
        rows = json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S))
        assert isinstance(into, list) and 0 < len(rows) <= ROWS
        into += rows
    writer.close()
    return found


async def test_an_answer_in_lines_has_its_long_lists_in_pieces(tmp_path: Path) -> None:
    rows = [{"n": number, "of": ["a", {"b": []}]} for number in range(2 * ROWS + 1)]
    whole: dict[str, object] = {"rows": rows, "none": [], "of": {"more": rows[:1]}, "next": "z\n"}

    def steps() -> Steps[dict[str, object]]:
        yield 0.0
        return whole

    path = tmp_path / "control.sock"
    seen: list[dict[str, object]] = []
    for is_long in (False, True):
        control = ControlSocket(
            str(path),
            lambda _, is_long=is_long: steps() if is_long else whole,  # type: ignore[misc]
            lambda request, _: seen.append(request),
        )
        await control.start()
        assert await read_lines(path, {"op": "x"}) == whole
        assert await asked(path, b'{"op": "x"}\n') == whole
        await control.close()
    assert seen == [{"op": "x"}] * 4


async def test_a_refusal_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    control = ControlSocket(str(path), answer)
    await control.start()
    line = b'{"op": "refuse", "in_lines": true}\n'
    assert await asked(path, line) == {"error": "no"}
    await control.close()


class Waiting:
    """Waits for others until it is let go, or given up."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.count = 0
        self.is_given_up = False
        self.is_done = False

    async def answer(self, request: dict[str, object]) -> object:
        if request["do"] == "refuse":
            raise OperatorError("no")
        self.count += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.is_given_up = True
            raise
        self.is_done = True
        return msgspec.Raw(b'{"rows":[1,2]}') if request["do"] == "raw" else {"rows": [1, 2]}


async def test_an_answer_may_have_to_be_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    waiting = Waiting()
    control = ControlSocket(str(path), waiting.answer)
    await control.start()
    assert await asked(path, b'{"do": "refuse"}\n') == {"error": "no"}
    asking = [asyncio.create_task(asked(path, b'{"do": "%s"}\n' % do)) for do in (b"raw", b"look")]
    await until(lambda: waiting.count == 2)
    waiting.go.set()
    assert [await one for one in asking] == [{"rows": [1, 2]}] * 2
    await control.close()


@pytest.mark.parametrize("is_change", [False, True], ids=["question", "change"])
async def test_whoever_hangs_up_has_the_waiting_ended_but_for_a_change(
    tmp_path: Path, is_change: bool
) -> None:
    path = tmp_path / "control.sock"
    waiting = Waiting()
    control = ControlSocket(str(path), waiting.answer, is_change=lambda _: is_change)
    await control.start()
    _, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b'{"do": "look"}\n')
    await until(lambda: waiting.count)
    writer.close()
    if is_change:
        await asyncio.sleep(0.3)
        assert not waiting.is_given_up
        waiting.go.set()
        await until(lambda: waiting.is_done)
    else:
        await until(lambda: waiting.is_given_up)
    await until(lambda: control.clients == 0)
    await control.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NOBODY_LEADS, "no node of the cluster leads now"),
        ("unknown question 'amqp'; one of: status", "is of another version"),
    ],
)
async def test_why_nobody_speaks_amqp_there_is_said(tmp_path: Path, error: str, words: str) -> None:
    path = tmp_path / "control.sock"
    control = ControlSocket(str(path), lambda _: {"error": error})
    await control.start()
    try:
        with pytest.raises(OperatorError, match=words):
            await asyncio.to_thread(amqp_socket, str(path))
    finally:
        await control.close()
