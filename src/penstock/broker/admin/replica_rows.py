"""Who else has what a node has: rows of a cluster's nodes for listings, in RabbitMQ's words."""

from penstock.broker.admin.definitions_rows import Row
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.queues.mirror_rule import mirror_rule


def node_called(name: str) -> str:
    """The node `name` of a cluster as RabbitMQ's listings would write it."""
    return f"penstock@{name}"


def replicas_of(broker: Broker) -> Row:
    """Who has the messages of a quorum queue or a stream: every node that votes."""
    here = broker.node_name
    others = sorted(broker.context.mirrors.others.values(), key=lambda one: one.name)
    members = sorted([here, *(node_called(one.name) for one in others)])
    online = sorted([here, *(node_called(one.name) for one in others if one.is_online)])
    return {"leader": here, "members": members, "online": online}


def mirrors_of(broker: Broker, actor: QueueActor) -> Row:
    """Who mirrors a classic queue; nothing for one that no policy has mirrored."""
    rule = mirror_rule(actor.applied)
    if rule is None or not actor.durable:
        return {}
    mirrors = broker.context.mirrors
    nodes = mirrors.of(rule, actor.name) if mirrors.own else []
    synced = [node_called(one.name) for one in nodes if one.is_in_sync and one.is_online]
    return {
        "slave_nodes": [node_called(one.name) for one in nodes],
        "synchronised_slave_nodes": synced,
        "recoverable_slaves": synced,
    }


def cluster_of(broker: Broker) -> Row:
    """The other nodes of its cluster; none for a broker alone."""
    mirrors = broker.context.mirrors
    others = sorted(mirrors.others.values(), key=lambda one: one.name)
    return {
        "is_mirrored": mirrors.count > 0,
        "others": [
            {"name": one.name, "is_in_sync": one.is_in_sync, "is_online": one.is_online}
            for one in others
        ],
    }
