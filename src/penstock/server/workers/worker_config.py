"""The configuration of one worker: the virtual hosts that are its, and its part of what is bounded.

Of the memory that queues may hold before they page each worker has its part, because they page by
what they hold themselves; the alarm looks at the memory of all. A reserve of the disk is divided,
too. Everything else is as it was given; files of flow events have names of their own already.
"""

from dataclasses import replace
from pathlib import Path

from penstock.base.config import Config
from penstock.server.workers.placement import NO_WORKER, Placement, directory_of


def worker_config(config: Config, worker: int, placement: Placement, control: str) -> Config:
    """control: path of this worker's own control socket."""

    def is_ours(vhost: str) -> bool:
        """What names a virtual host that there is not is for worker 0, which says what is wrong."""
        place = placement.worker_of(vhost)
        return place == worker or (worker == 0 and place == NO_WORKER)

    return replace(
        config,
        vhosts=tuple(one for one in config.vhosts if is_ours(one)),
        permissions=tuple(one for one in config.permissions if is_ours(one.vhost)),
        topic_permissions=tuple(one for one in config.topic_permissions if is_ours(one.vhost)),
        policies=tuple(one for one in config.policies if is_ours(one.vhost)),
        operator_policies=tuple(one for one in config.operator_policies if is_ours(one.vhost)),
        vhost_limits=tuple(one for one in config.vhost_limits if is_ours(one.name)),
        data_dir=directory_of(config.data_dir, worker),
        audit_log=_own_file(config.audit_log, worker),
        event_stream=config.event_stream if is_ours(config.event_stream) else "",
        control_socket=control,
        management="off",
        paging_ratio=config.paging_ratio / placement.count,
        disk_reserve_bytes=config.disk_reserve_bytes // placement.count,
    )


def _own_file(path: str, worker: int) -> str:
    """`audit.log` of worker 0, `audit-1.log` of worker 1."""
    if not path or worker == 0:
        return path
    whole = Path(path)
    return str(whole.with_name(f"{whole.stem}-{worker}{whole.suffix}"))
