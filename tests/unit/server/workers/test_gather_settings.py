"""Settings of several workers: one of a virtual host's account is at the worker that has it."""

from pathlib import Path

from penstock.server.workers.gather_settings import vhost_of
from tests.unit.server.workers.workforce import Workforce, workforce


def values(force: Workforce, key: str) -> list[str]:
    return [bed.broker.settings.get(key).read() for bed in force.beds]


async def test_the_limit_of_a_virtual_host_is_set_where_it_is(tmp_path: Path) -> None:
    async with workforce(tmp_path, ("/",), ("a",), ("b",)) as force:
        keys = ["account.vhost.high:a", "rate.burst", "account.user.high:guest@b"]
        changes = dict(zip(keys, ("1MiB", "20ms", "2MiB"), strict=True))
        answer = await force.ask("flow", "set", changes=changes)
        assert sorted(row["key"] for row in answer["changes"]) == sorted(keys)
        assert values(force, "rate.burst") == ["20ms"] * 3
        alone = await force.ask("flow", "set", changes={"account.vhost.high_messages:b": "9"})
        assert [row["key"] for row in alone["changes"]] == ["account.vhost.high_messages:b"]
        rows = (await force.ask("flow", "settings"))["settings"]
        found = {row["key"]: row["value"] for row in rows}
        assert found["account.vhost.high:a"].startswith("1MiB")
        assert found["account.user.high:guest@b"].startswith("2MiB")
        assert len(found) == len(rows) > 30
        families = [row["key"].partition(":")[0] for row in rows]
        assert families == sorted(families)
        said = await force.refusal("flow", "set", changes={"account.vhost.high:none": "1MiB"})
        assert said == "there is no virtual host 'none'"
        await force.stop(1)
        some = await force.ask("flow", "settings")
        assert len(some["missing"]) == 1 and len(some["settings"]) < len(rows)


async def test_a_wrong_value_of_one_changes_nothing(tmp_path: Path) -> None:
    async with workforce(tmp_path, ("/",), ("a",)) as force:
        before = values(force, "rate.burst")
        changes = {"account.vhost.high:a": "lots", "rate.burst": "20ms"}
        assert "lots" in await force.refusal("flow", "set", changes=changes)
        assert values(force, "rate.burst") == before


def test_whose_a_setting_is() -> None:
    assert vhost_of("account.vhost.high:a") == "a"
    assert vhost_of("account.user.high_messages:x@y@/a") == "/a"
    for key in ("account.vhost.high", "account.node.high", "rate.vhost.messages:a"):
        assert vhost_of(key) is None
