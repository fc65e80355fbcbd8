"""Commands and the management process ask several workers as they ask one broker."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from starlette.requests import Request
from starlette.responses import Response

from penstock.base.errors import OperatorError
from penstock.cli.main import cli
from penstock.management.access import Logins, Visitor
from penstock.management.broker_link import BrokerGone, BrokerLink
from penstock.management.errors import HttpFault
from penstock.management.requests import Call, Services
from penstock.management.resources.health import aliveness
from penstock.protocol import methods as m
from penstock.server.control.control_socket import ControlSocket
from tests.unit.server.workers.test_gather_records import nodes
from tests.unit.server.workers.workforce import workforce

VHOSTS = (("/", "a"), ("b",), ("c",))


def call(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--control", str(path)])


async def said(path: Path, *words: str) -> str:
    """What a command says that has not failed."""
    result = await asyncio.to_thread(call, path, *words)
    assert result.exception is None or result.exit_code == 3, (words, result.exception)
    return result.output


async def alive(link: BrokerLink, vhost: str) -> Response:
    """What a health check of one virtual host is told."""
    scope = {"type": "http", "headers": [], "query_string": b"", "path_params": {"vhost": vhost}}
    visitor = Visitor("root", "", frozenset({"administrator"}), frozenset())
    nothing: Any = None
    services = Services(link, nothing, nothing, "")
    return await aliveness(Call(services, visitor, Request(scope)))


async def test_commands_show_all_workers(tmp_path: Path) -> None:
    async with workforce(tmp_path, *VHOSTS) as force:
        path = tmp_path / "all.sock"
        gather = force.gather
        control = ControlSocket(str(path), gather.answer, is_change=gather.is_change)
        await control.start()
        for vhost in ("/", "a", "b", "c"):
            peer = force.bed_of(vhost).connect(f"peer-{vhost}", vhost=vhost)
            for number in range(5):
                peer.call(1, m.QueueDeclare(f"q{number}"), m.QueueDeclareOk)
        for command in ("status", "queues", "connections", "channels", "exchanges", "bindings"):
            assert await said(path, command)
        for form in ("table", "json", "csv"):
            listed = await said(path, "queues", "--limit", "7", "--format", form)
            assert "a/q1" in listed and "b/q1" not in listed
            for command in ("connections", "users", "vhosts", "permissions", "consumers"):
                await said(path, command, "--format", form)
            await said(path, "flow", "edges", "--format", form)
            await said(path, "flow", "accounts", "--format", form)
            await said(path, "log", "--format", form)
        rows = json.loads(await said(path, "queues", "--format", "json"))["queues"]
        assert len(rows) == 20 and [one["vhost"] for one in rows[:6]] == ["/"] * 5 + ["a"]
        assert "paused" in await said(path, "queues", "pause", "c/q1")
        assert "vhost 'new' is there" in await said(path, "vhosts", "add", "new")
        file = tmp_path / "definitions.json"
        await said(path, "definitions", "export", str(file))
        assert "imported nothing" in await said(path, "definitions", "import", str(file))
        await said(path, "flow", "top", "--once")
        await said(path, "flow", "alarms")
        await said(path, "store", "stats")
        await said(path, "record", "events", "--last", "3")
        link = BrokerLink(str(path))
        assert (await link.node())["totals"]["queues"] == 20
        assert len(await link.listing("queues")) == 20
        assert len(await link.listing("bindings", vhost="b")) == 5
        assert {one["name"] for one in await link.listing("vhosts")} == {"/", "a", "b", "c", "new"}
        assert [(await alive(link, vhost)).status_code for vhost in "abc"] == [200] * 3
        await force.stop(1)
        assert [(await alive(link, vhost)).status_code for vhost in "ac"] == [200] * 2
        with pytest.raises(BrokerGone, match="worker 1 does not answer"):
            await alive(link, "b")
        result = await asyncio.to_thread(call, path, "queues", "--format", "json")
        assert result.exit_code == 0 and len(json.loads(result.stdout)["queues"]) == 15
        assert result.stderr.startswith(" ! not all of it is there: worker 1: ")
        assert result.stderr.count("\n") == 1
        # Over HTTP it is no fault of the request (400): it can be made again later (503).
        with pytest.raises(BrokerGone, match="worker 1 does not answer"):
            await link.listing("queues", vhost="b")
        with pytest.raises(OperatorError) as fault:
            await link.listing("queues", vhost="none")
        assert not isinstance(fault.value, BrokerGone)
        await control.close()


async def test_who_may_use_what_is_away_is_told_to_ask_again(tmp_path: Path) -> None:
    """Neither that one may, nor that one may not."""
    async with workforce(tmp_path, *VHOSTS) as force:
        path = tmp_path / "all.sock"
        control = ControlSocket(str(path), force.gather.answer)
        await control.start()
        await force.ask("users", "set-tags", name="guest", tags=["policymaker"])
        await force.stop(1)
        visitor = await Logins(BrokerLink(str(path))).login("guest", "guest", "127.0.0.1")
        visitor.need_vhost("a")
        for refused in (visitor.need_vhost, visitor.need_policymaker_of):
            with pytest.raises(HttpFault, match="is not all known: worker 1") as fault:
                refused("b")
            assert fault.value.status == 503
        await control.close()


async def test_a_record_of_each_worker_is_saved(tmp_path: Path) -> None:
    async with nodes(tmp_path) as force:
        path = tmp_path / "all.sock"
        gather = force.gather
        control = ControlSocket(str(path), gather.answer, is_change=gather.is_change)
        await control.start()
        await force.ask("record", "round")
        out = await said(path, "record", "save", "-o", str(tmp_path / "x.pflow"))
        for worker in range(3):
            file = tmp_path / f"x-worker-{worker}.pflow"
            assert f"{file}: " in out
            replayed = await asyncio.to_thread(
                CliRunner().invoke, cli, ["replay", str(file), "why"]
            )
            assert replayed.exit_code == 0
        assert not (tmp_path / "x.pflow").exists()
        refused = await asyncio.to_thread(call, path, "whatif")
        assert isinstance(refused.exception, OperatorError) and "--file" in str(refused.exception)
        await control.close()
