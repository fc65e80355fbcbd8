"""What of the configuration is which worker's."""

from penstock.base.config import Config, EntryLimits, PermissionConfig
from penstock.base.policy import Policy
from penstock.server.workers.placement import Placement
from penstock.server.workers.worker_config import worker_config


def placement() -> Placement:
    found = Placement(2, "")
    found.place("/")
    found.place("a")
    return found


def test_rows_of_a_virtual_host_are_its_workers() -> None:
    config = Config(
        vhosts=("/", "a"),
        policies=(Policy("a", "short", ".*", {"max-length": 1}),),
        permissions=(PermissionConfig("guest", "/", "", "", ""),),
        vhost_limits=(EntryLimits("vhost", "a", {"max-queues": 1}),),
        event_stream="a",
        data_dir="/somewhere",
        audit_log="/logs/audit.log",
        disk_reserve_bytes=1000,
    )
    first, second = (worker_config(config, one, placement(), f"{one}.sock") for one in (0, 1))
    assert (first.vhosts, second.vhosts) == (("/",), ("a",))
    assert (first.policies, second.policies) == ((), config.policies)
    assert (first.permissions, second.permissions) == (config.permissions, ())
    assert (first.vhost_limits, second.vhost_limits) == ((), config.vhost_limits)
    assert (first.event_stream, second.event_stream) == ("", "a")
    assert (first.data_dir, second.data_dir) == ("/somewhere", "/somewhere/workers/1")
    assert (first.audit_log, second.audit_log) == ("/logs/audit.log", "/logs/audit-1.log")
    assert first.users == second.users == config.users
    assert (first.disk_reserve_bytes, second.disk_reserve_bytes) == (500, 500)
    assert first.paging_ratio == second.paging_ratio == config.paging_ratio / 2


def test_rows_of_no_virtual_host_are_for_worker_0_to_refuse() -> None:
    wrong = (PermissionConfig("guest", "nowhere", "", "", ""),)
    config = Config(vhosts=("/", "a"), permissions=wrong)
    assert worker_config(config, 0, placement(), "").permissions == wrong
    assert worker_config(config, 1, placement(), "").permissions == ()
