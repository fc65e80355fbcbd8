"""The HTTP API answers as RabbitMQ 3.10.8 does: the same statuses, at least the same fields of
the same types. What differs is named, with the reason."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.http_contract import answers, missing, shape
from tests.conformance.http_live import Managed, managed_broker

RECORDED: Final = Path(__file__).parents[1] / "fixtures" / "http-rabbitmq-3.10.json"

STATUS: Final = {
    "guest POST /exchanges/t1/none/publish": "404 here; RabbitMQ says 400 with a 404 in its text",
    "guest POST /queues/t1/q1/get": "an unknown ackmode is 400 here, and 500 in RabbitMQ",
    "guest DELETE /queues/t1/qq?if-empty=true": "quorum queues here know if-empty",
}
"""Statuses that differ on purpose."""

ERLANG: Final = (
    *("io_", "mnesia_", "msg_store_", "queue_index_", "gc_", "context_switches", "ra_"),
    *("garbage_collection.", "backing_queue_status", "reductions_details", "reductions"),
    *("exchange_types", "auth_mechanisms", "log_files", "config_files", "db_dir"),
    *("socket_opts", "contexts", "cluster_links", "applications", "enabled_plugins"),
    *("mem_used_details", "fd_used_details", "sockets_used_details", "proc_used_details"),
    *("disk_free_details", "connection_created", "connection_closed", "channel_created"),
    *("channel_closed", "queue_declared", "queue_created", "queue_deleted", "metrics_gc"),
)
"""Fields of RabbitMQ's nodes and queues that are about Erlang, its files or its own statistics."""
COUNTED: Final = ("disk_reads", "disk_reads_details", "disk_writes", "disk_writes_details")
"""What Penstock does not count apart."""
NODE_NAMES: Final = ("cluster_state.",)


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed_broker(tmp_path_factory.mktemp("http")) as found:
        yield found


def is_excused(line: str) -> bool:
    name = line.partition(" is missing")[0]
    parts = name.split(".")
    return (
        any(one in name for one in NODE_NAMES)
        or any(part.startswith(ERLANG) or f"{part}." in ERLANG for part in parts)
        or ("message_stats" in parts and parts[-1] in COUNTED)
        or parts[-1] == "message_stats"
        or "arguments" in parts
        or "value" in parts
    )


def test_answers_have_the_statuses_and_fields_of_rabbitmq(managed: Managed) -> None:
    recorded = json.loads(RECORDED.read_text())
    wrong: list[str] = []
    same_texts = 0
    for said, (name, status, found, where) in zip(recorded, answers(managed.base), strict=True):
        assert said["case"] == name
        if status != said["status"]:
            if name not in STATUS:
                wrong.append(f"{name}: {status} {found}, and {said['status']} in RabbitMQ")
            continue
        if status >= 400:
            same_texts += found == said["text"]
            continue
        faults = [one for one in missing(said["shape"], shape(found)) if not is_excused(one)]
        wrong += [f"{name}: {one}" for one in faults]
        if "~" not in where:
            # The mark of arguments is opaque, and RabbitMQ's a hash.
            assert where == said["location"], name
    assert not wrong, "\n".join(wrong)
    errors = [one for one in recorded if one["status"] >= 400]
    assert same_texts >= len(errors) * 0.6, f"{same_texts} of {len(errors)} texts are the same"
