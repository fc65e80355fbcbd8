"""The one time when nodes see to it by themselves that each leads its part of the shards.

A cluster of shards that begins with nothing is led by whoever started first, all of it. So the node
that leads the first shard moves leaders to the others as they come, as an operator would, and stops
for good when each shard has a node of its own, when an operator moves one, or after FIRST_S: from
then on clients are there who would have to connect again, and nothing moves by itself.
"""

import asyncio
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.broker.actors.log import Log
from penstock.broker.admin.cluster_answers import ClusterAnswer, moves_of
from penstock.server.shards.answers import AT_LEADER, SHARDS, ShardAnswers
from penstock.server.workers.gather_ways import MISSING

FIRST_S: Final = 300.0
"""Since this node was started."""
LOOK_S: Final = 1.0
REST_S: Final = 3.0
"""Between two moves, and from one that has come about to the next look."""
MOVES_PER_SHARD: Final = 2
"""In all: an election may come out otherwise than was asked for."""


def are_settled(shards: list[ClusterAnswer]) -> bool:
    """By the word of their leaders: every node that is online in one of them has all of each, and
    votes."""
    online = {row.name for one in shards for row in one.nodes if row.is_online}
    for one in shards:
        rows = {row.name: row for row in one.nodes}
        there = [rows.get(name) for name in online]
        if not one.leader or one.leader != one.node or not one.is_etcd_reachable:
            return False
        if not all(row is not None and row.is_whole and row.is_voter for row in there):
            return False
    return True


class FirstSpread:
    """answers: about all shards; leads_first: whether this node leads the first one now."""

    def __init__(self, answers: ShardAnswers, log: Log) -> None:
        self.answers = answers
        self.places = answers.places
        self.log = log
        self.leads_first = False
        self.moves_left = answers.places.count * MOVES_PER_SHARD
        self.seen: list[str] = []

    async def run(self) -> None:
        """Until leaders are spread, or are to stay where they are."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + FIRST_S
        while not self.places.agreed.is_spread:
            await asyncio.sleep(LOOK_S)
            if not self.leads_first:
                continue
            try:
                if loop.time() >= end_s or self.moves_left == 0:
                    await self.places.keep_leaders()
                elif await self._move():
                    await asyncio.sleep(REST_S)
            except OperatorError:
                # An election, or an etcd that is away: at another look.
                self.seen = []

    async def _move(self) -> bool:
        """Have one shard led elsewhere, if all is calm. Raises: OperatorError."""
        found = await self.answers.answer({"op": "cluster_status", AT_LEADER: True})
        if found.get(MISSING):
            self.seen = []
            return False
        shards = msgspec.convert(found[SHARDS], list[ClusterAnswer])
        leaders = [one.leader for one in shards]
        before, self.seen = self.seen, leaders if are_settled(shards) else []
        if not self.seen or leaders != before:
            return False
        if len({*leaders}) == len(leaders):
            await self.places.keep_leaders()
            return False
        moves = moves_of(shards)
        if not moves or self.places.agreed.is_spread:
            return False
        shard, node = moves[0]
        self.log.info(f"node '{node}' is to lead shard {shard}: leaders of a new cluster spread")
        self.moves_left -= 1
        self.seen = []
        await self.answers.members.ask(shard, {"op": "cluster_move", "name": node})
        return True
