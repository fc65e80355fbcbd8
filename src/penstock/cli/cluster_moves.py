"""Who is to lead what, and asking for it until it has come about."""

import time
from contextlib import suppress
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.broker.admin.cluster_answers import ClusterAnswer
from penstock.server.control.control_client import ask

HAND_OVER_S: Final = 60.0
"""For an election or two, on a machine with much else to do."""
ELECTIONS_MAX: Final = 5
"""Of one shard for one command: clients have a pause each time."""


def meant(answer: ClusterAnswer, shard: int | None, vhost: str) -> list[int | None]:
    """Numbers of the shards that are named, of all where none is; [None] where there is one log.
    Raises: OperatorError."""
    if not answer.shards and (shard is not None or vhost):
        raise OperatorError("the nodes of this cluster have one log, and no shards: leave it away")
    if not answer.shards:
        return [None]
    found = [
        one.shard
        for one in answer.shards
        if (shard is None or one.shard == shard) and (not vhost or vhost in one.vhosts)
    ]
    if found:
        return [*found]
    if vhost:
        there = ", ".join(sorted(name for one in answer.shards for name in one.vhosts))
        at = "" if shard is None else f" in shard {shard}"
        raise OperatorError(f"no vhost '{vhost}'{at}; one of: {there}")
    raise OperatorError(f"--shard {shard}: must be 0..{len(answer.shards) - 1}")


def of_shard(number: int | None) -> str:
    return "" if number is None else f" shard {number}"


def cluster_status(path: str) -> ClusterAnswer:
    return msgspec.convert(ask(path, {"op": "cluster_status"}), ClusterAnswer)


def by_leaders(path: str) -> ClusterAnswer:
    """As those that lead see it; as this node does while none leads. Raises: OperatorError."""
    request = {"op": "cluster_status", "at_leader": True}
    with suppress(OperatorError):
        return msgspec.convert(ask(path, request), ClusterAnswer)
    return cluster_status(path)


def shard_status(path: str, number: int | None) -> ClusterAnswer:
    """number: of a shard, None where there is one log. Raises: OperatorError."""
    answer = cluster_status(path)
    if number is None:
        return answer
    for one in answer.shards:
        if one.shard == number:
            return one
    raise OperatorError(f"the member of shard {number} does not answer; see the log of this node")


def hand_over(path: str, to: str = "", away: str = "", number: int | None = None) -> str:
    """Who leads in the end. to: who is asked for, "" for any other than `away`; number: of the
    shard, None where there is one log.

    Who has more of the log leads, so an election may come out otherwise than was asked for, or be
    needed twice: then it is asked for again, once in an epoch. Raises: OperatorError after a while,
    or some elections.
    """
    end = time.monotonic() + HAND_OVER_S
    asked, words, elections = -1, "", 0
    while time.monotonic() < end:
        answer = shard_status(path, number)
        is_there = answer.leader == to if to else answer.leader != away
        if answer.leader and is_there:
            return answer.leader
        if answer.leader and answer.epoch != asked:
            if elections == ELECTIONS_MAX:
                raise OperatorError(
                    f"{elections} elections{of_shard(number)} came out otherwise, the last one "
                    f"for node '{answer.leader}'; look at `penstock cluster status`"
                )
            try:
                which = {} if number is None else {"shard": number}
                ask(path, {"op": "cluster_move", "name": to, **which})
                asked = answer.epoch
                elections += 1
            except OperatorError as error:
                if not answer.is_etcd_reachable:
                    raise
                words = str(error)
        elif not answer.leader and not answer.is_etcd_reachable:
            words = f"no node leads, and none can while etcd does not answer ({answer.etcd})"
        time.sleep(0.1)
    why = f": {words}" if words else ""
    raise OperatorError(
        f"it has not come about within {HAND_OVER_S:.0f} s{why}; look at `penstock cluster status`"
    )


def need_known(answer: ClusterAnswer, name: str) -> None:
    """Raises: OperatorError for a node that there is not."""
    names = [one.name for one in answer.nodes]
    if not names:
        raise OperatorError(
            f"node '{answer.node}' knows of no cluster yet; look at `penstock cluster status`"
        )
    if name not in names:
        raise OperatorError(f"there is no node '{name}'; there are {', '.join(names)}")


def need_online(answer: ClusterAnswer, name: str) -> None:
    """Raises: OperatorError for a node that no leadership can be given to."""
    for one in answer.shards or [answer]:
        row = next((row for row in one.nodes if row.name == name), None)
        if row is not None and not row.is_online:
            why = f" ({row.fault})" if row.fault else ""
            raise OperatorError(
                f"node '{name}' is not there{why}: start it first, or choose another one"
            )


def await_rest(path: str, name: str) -> ClusterAnswer:
    """Wait until the others are a majority that has everything without node `name`; what those say
    that lead. Raises: OperatorError after a while."""
    end = time.monotonic() + HAND_OVER_S
    while True:
        try:
            answer = by_leaders(path)
            words = rest_fault(answer, name)
            if not words:
                return answer
        except OperatorError as error:
            words = str(error)
        if time.monotonic() > end:
            raise OperatorError(f"{words}; look at `penstock cluster status`")
        time.sleep(0.1)


def rest_fault(whole: ClusterAnswer, name: str) -> str:
    """What is against a stop of node `name`, "" for nothing."""
    if whole.missing:
        return "; ".join(whole.missing)
    for answer in whole.shards or [whole]:
        at = of_shard(answer.shard if whole.shards else None)
        if answer.node != answer.leader:
            return f"no node leads{at} now"
        voters = [one for one in answer.nodes if one.is_voter and one.is_online]
        good = [one.name for one in voters if one.is_whole and one.name != name]
        if len(good) < answer.majority:
            of = f" of{at}" if at else ""
            return (
                f"without node '{name}' {len(good)} of {len(answer.voters)} voters{of} have "
                f"everything, and a majority is {answer.majority}: wait until another one is whole"
            )
    return ""
