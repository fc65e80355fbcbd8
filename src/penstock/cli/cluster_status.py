"""How `penstock cluster status` shows a cluster, and what it asks for that."""

from contextlib import suppress
from typing import Any, Final

import click
import msgspec

from penstock.base.errors import OperatorError
from penstock.base.printable import printable
from penstock.broker.admin.cluster_answers import ClusterAnswer, NodeRow
from penstock.cli.asking import RunningBroker
from penstock.cli.tables import columns, console, show, table
from penstock.telemetry.words import size

STATUS_COLUMNS: Final = columns(
    "NODE:name ONLINE ROLE POSITION:number:1 LAG:number WHOLE::3 CLIENTS_AT::2"
)
LEADER_S: Final = 3.0
"""For how long `status` waits for the leader's word, which it can do without."""
NAMED_MAX: Final = 5
"""Virtual hosts of a shard that are named to people."""


def show_status(answer: ClusterAnswer, is_leaders: bool) -> None:
    """is_leaders: the nodes' rows are by the one that leads."""
    leads = f"node {answer.leader} leads" if answer.leader else f"none leads ({answer.phase})"
    click.echo(f"cluster {answer.cluster}   epoch {answer.epoch}   {leads}")
    reach = "answers" if answer.is_etcd_reachable else "does not answer"
    click.echo(f"etcd    {reach}: {printable(answer.etcd)}")
    click.echo("")
    _show_nodes(answer, is_leaders)


def _show_nodes(answer: ClusterAnswer, is_leaders: bool) -> None:
    rows = [_status_row(answer, one, is_leaders) for one in answer.nodes]
    show(console(), table(STATUS_COLUMNS, rows))
    if answer.is_mirrored:
        synced = [one.name for one in answer.nodes if one.is_in_sync]
        late = [one.name for one in answer.nodes if one.is_voter and not one.is_in_sync]
        without = f"; without {', '.join(late)}" if late else ""
        click.echo(f"mirrored queues are in sync on {', '.join(synced)}{without}")
    for one in answer.nodes:
        if not one.is_online and one.fault:
            click.echo(f" ! node {one.name}: {printable(one.fault)}")
    if answer.role == "refused" or (answer.words and not answer.leader):
        click.echo(f" ! node {answer.node}: {printable(answer.words)}")
    if answer.quorum_critical:
        click.echo(
            f" ! node-is-quorum-critical: {', '.join(answer.quorum_critical)}; if one of these "
            "stops, nothing is confirmed until it is back"
        )


def _status_row(answer: ClusterAnswer, one: NodeRow, is_leaders: bool) -> tuple[str, ...]:
    role = one.role if one.is_voter or one.is_leader else f"{one.role}, does not vote"
    lag = "-"
    if one.is_leader:
        lag = "0"
    elif one.lag_entries >= 0:
        lag = f"{one.lag_entries:,} ({size(max(one.lag_bytes, 0))})"
    whole = "yes" if one.is_whole else "being copied" if one.is_copied else "no"
    if not is_leaders and one.name != answer.node:
        # Only the leader knows of others.
        whole = "-"
    position = f"{one.persisted_seq:,}" if one.persisted_seq >= 0 else "-"
    online = "yes" if one.is_online else "no"
    return one.name, online, role, position, lag, whole, one.clients


def with_leaders(broker: RunningBroker, found: dict[str, Any]) -> dict[str, Any]:
    """`found` with how far each node is in each shard by the word of who leads it."""
    told: dict[int, dict[str, Any]] = {}
    with suppress(OperatorError):
        asked = broker.ask({"op": "cluster_status", "at_leader": True}, LEADER_S * 2)
        for one in msgspec.convert(asked["shards"], list[dict[str, Any]]):
            if one["node"] == one["leader"]:
                told[one.get("shard", 0)] = of_leader(one)
    shards = [{**one, **told.get(one.get("shard", 0), {})} for one in found["shards"]]
    return {**found, **of_leader(shards[0]), "shards": shards}


def of_leader(answer: dict[str, Any]) -> dict[str, Any]:
    """What the leader alone knows: how far each node is, and so which may not be stopped."""
    return {name: answer[name] for name in ("nodes", "quorum_critical")}


def show_shards(answer: ClusterAnswer) -> None:
    """Each with who leads it, its virtual hosts, and its nodes."""
    click.echo(f"cluster {answer.cluster}   {len(answer.shards)} shards")
    reach = "answers" if answer.is_etcd_reachable else "does not answer"
    click.echo(f"etcd    {reach}: {printable(answer.etcd)}")
    for one in answer.shards:
        leads = f"node {one.leader} leads" if one.leader else f"none leads ({one.phase})"
        names = [printable(name) for name in one.vhosts[:NAMED_MAX]]
        more = len(one.vhosts) - len(names)
        shown = ", ".join(names) + (f" and {more} more" if more else "")
        click.echo("")
        shown = shown or "none yet"
        click.echo(f"shard {one.shard}   epoch {one.epoch}   {leads}   virtual hosts: {shown}")
        is_leaders = any(row.lag_entries >= 0 for row in one.nodes) or one.leader == one.node
        _show_nodes(one, is_leaders)
