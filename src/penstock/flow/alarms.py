"""Which alarms are set where: a set of (node, resource), and nothing else.

    publishers run  <=>  no living node has an alarm set            (invariant C9, property 9)
Setting and clearing are idempotent and may come in any order; of a node that is down nothing is
kept and nothing believed, until it is up again and says what it has. Source: flow-semantics 10.1.
"""


class Alarms:
    """own: the name of this node, which is always up."""

    def __init__(self, own: str) -> None:
        self.own = own
        self._set: dict[tuple[str, str], None] = {}
        self._up = {own}

    def set(self, node: str, resource: str) -> bool:
        """`node` is short of `resource`; True if that is news for the union of all nodes."""
        if node not in self._up:
            return False
        was_set = self.is_set(resource)
        self._set[(node, resource)] = None
        return not was_set

    def clear(self, node: str, resource: str) -> bool:
        """`node` is no longer short of it; True if now no node is."""
        if (node, resource) not in self._set:
            return False
        del self._set[(node, resource)]
        return not self.is_set(resource)

    def node_up(self, node: str, resources: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """`node` has joined and is short of exactly `resources`: (newly set, newly cleared)."""
        before = self.resources()
        self._up.add(node)
        self._forget(node)
        for resource in resources:
            self._set[(node, resource)] = None
        after = self.resources()
        return (
            tuple(one for one in after if one not in before),
            tuple(one for one in before if one not in after),
        )

    def node_down(self, node: str) -> tuple[str, ...]:
        """`node` is dead: as if it had cleared everything. The resources nobody is short of now."""
        assert node != self.own, "this node cannot see its own death"
        before = self.resources()
        self._up.discard(node)
        self._forget(node)
        after = self.resources()
        return tuple(one for one in before if one not in after)

    def is_set(self, resource: str) -> bool:
        """Whether any living node is short of `resource`."""
        return any(one == resource for _, one in self._set)

    def resources(self) -> tuple[str, ...]:
        """What living nodes are short of, in the order of names."""
        return tuple(sorted({resource for _, resource in self._set}))

    def where(self, resource: str) -> tuple[str, ...]:
        """The nodes that are short of `resource`, in the order of names."""
        return tuple(sorted(node for node, one in self._set if one == resource))

    def _forget(self, node: str) -> None:
        for key in [key for key in self._set if key[0] == node]:
            del self._set[key]
