"""What a node with several members answers about its cluster: all shards, and commands for them."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.server.shards.placement import AgreedPlacement
from penstock.server.workers.gather_ways import MISSING, with_missing
from penstock.server.workers.placement import NO_WORKER
from penstock.server.workers.worker_client import WorkerClient

Row = dict[str, Any]
SHARDS: Final = "shards"
"""In an answer about the cluster: that of each shard, in order; the whole answer is the first's."""
AT_LEADER: Final = "at_leader"


class ShardAnswers:
    """members: of this node, to be asked; places: which shard has which virtual host."""

    def __init__(self, members: WorkerClient, places: AgreedPlacement) -> None:
        self.members = members
        self.places = places

    async def answer(self, fields: Mapping[str, object]) -> Row:
        """Raises: OperatorError."""
        op = fields.get("op")
        shard = fields.get("shard")
        if op == "cluster_keep":
            await self.places.keep_leaders()
            return {"is_done": True}
        if op == "cluster_move":
            # Without etcd the member refuses, in its own words.
            with suppress(OperatorError):
                await self.places.keep_leaders()
        if shard is not None or fields.get("vhost"):
            return await self.members.ask(self._shard(fields), fields)
        if op == "cluster_status":
            return await self._status(fields)
        if op == "cluster_forget":
            return await self._forget(fields)
        return await self.members.ask(0, fields)

    def _shard(self, fields: Mapping[str, object]) -> int:
        """Raises: OperatorError."""
        vhost, count = str(fields.get("vhost", "")), self.places.count
        if vhost:
            found = self.places.worker_of(vhost)
            if found == NO_WORKER:
                there = ", ".join(sorted(self.places.vhosts()))
                raise OperatorError(f"no vhost '{vhost}'; one of: {there}")
            return found
        shard = fields["shard"]
        if not isinstance(shard, int) or not 0 <= shard < count:
            raise OperatorError(f"shard = {shard!r}: must be 0..{count - 1}")
        return shard

    async def _status(self, fields: Mapping[str, object]) -> Row:
        """As the members of this node see it; those that are away are `missing`."""
        asked = (self._status_of(one, fields) for one in range(self.places.count))
        found = await asyncio.gather(*asked)
        vhosts = self.places.vhosts()
        shards: list[Row] = []
        missing: list[str] = []
        for number, one in enumerate(found):
            if isinstance(one, OperatorError):
                missing.append(f"shard {number}: {one}")
                continue
            names = [name for name, at in vhosts.items() if at == number]
            shards.append({**one, "shard": number, "vhosts": names})
        if not shards:
            raise OperatorError("; ".join(missing))
        return with_missing({**shards[0], SHARDS: shards}, missing)

    async def _status_of(self, shard: int, fields: Mapping[str, object]) -> Row | OperatorError:
        try:
            return await self.members.ask(shard, fields)
        except OperatorError as fault:
            if not fields.get(AT_LEADER):
                return fault
        # What this node knows has to do.
        own = {name: value for name, value in fields.items() if name != AT_LEADER}
        return await self._status_of(shard, own)

    async def _forget(self, fields: Mapping[str, object]) -> Row:
        """Of every shard that has it, and of none where it leads one."""
        name = str(fields.get("name", ""))
        status = await self._status({"op": "cluster_status"})
        if status.get(MISSING):
            raise OperatorError("; ".join(status[MISSING]))
        shards = status[SHARDS]
        led = [one["shard"] for one in shards if one["leader"] == name]
        if led:
            shown = ", ".join(map(str, led))
            raise OperatorError(
                f"node '{name}' leads shard {shown}: `penstock cluster drain {name}` first"
            )
        known = [one for one in shards if any(row["name"] == name for row in one["nodes"])]
        for one in known or shards[:1]:
            try:
                await self.members.ask(one["shard"], fields)
            except OperatorError as fault:
                raise OperatorError(f"shard {one['shard']}: {fault}") from fault
        return {"is_done": True}
