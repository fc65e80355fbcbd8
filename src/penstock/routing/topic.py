"""The topic exchange: most patterns in a trie, others in a set. COMPILED.

A key is words with dots between them; the empty key has no words, and "a..b" has an empty word in
the middle. In a pattern the word "*" stands for exactly one word and "#" for any number of them.

The trie has one node for each distinct pattern prefix. A word leads from a node to its child for
that word and to its "*" child, and no node can be reached by two ways, so one key visits none
twice. A "#" at the end of a pattern takes all that may follow: it gives its destinations when it is
reached. A "#" with words behind it could be reached by many ways; such patterns, and long ones with
"*", are in a `PatternSet`, which moves all of them by a word at once.
"""

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ChannelFault
from penstock.routing.bindings import Binding, BindingBounds
from penstock.routing.destination import Destination, Targets
from penstock.routing.exchange import Exchange, words_of
from penstock.routing.pattern_set import PatternSet, needs_set

_PRECONDITION_FAILED: Final = 406


class TopicNode:
    """One pattern prefix; None stands for what it does not have.

    children: literal words; star, hash: the nodes after "*" and after a final "#".
    targets: destinations of the patterns that end here.
    """

    __slots__ = ("children", "hash", "star", "targets")

    def __init__(self) -> None:
        self.children: dict[str, TopicNode] | None = None
        self.star: TopicNode | None = None
        self.hash: TopicNode | None = None
        self.targets: Targets | None = None

    def is_end(self) -> bool:
        """True if no pattern goes on behind this node."""
        return self.children is None and self.star is None and self.hash is None

    def after(self, word: str) -> "TopicNode | None":
        """The node behind pattern word `word`."""
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return None if self.children is None else self.children.get(word)

    def grow(self, word: str) -> "TopicNode":
        """The node behind pattern word `word`, made if it was not there."""
        node = self.after(word)
        if node is not None:
            return node
        node = TopicNode()
        if word == "*":
            self.star = node
        elif word == "#":
            self.hash = node
        elif self.children is None:
            self.children = {word: node}
        else:
            self.children[word] = node
        return node

    def prune(self, word: str) -> None:
        """Cut the node behind pattern word `word` off."""
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        elif self.children is not None:
            del self.children[word]
            if not self.children:
                self.children = None


class TopicExchange(Exchange):
    """The trie and the set.

    node_count: nodes of the trie, the root among them. steps: over all matches so far, nodes of the
    trie that were visited, and words by which a group of the set was moved.
    """

    __slots__ = ("_patterns", "_root", "node_count", "steps")

    def __init__(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
    ) -> None:
        super().__init__(
            "topic", name, durable, auto_delete, internal, arguments, True, False, False
        )
        self._root = TopicNode()
        self._patterns = PatternSet()
        self.node_count = 1
        self.steps = 0

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append the destinations of all patterns that match; one twice if two patterns match."""
        topology = self._topology
        words = words_of(routing_key) if topology is None else topology.words_of(routing_key)
        before: i64 = self.steps
        self._descend(self._root, words, 0, found)
        if self._patterns.positions > 0:
            self.steps += self._patterns.match(words, found)
        if topology is not None:
            topology.worked(self.steps - before + 2 * len(found))

    def _descend(
        self, start: TopicNode, words: list[str], begin: i64, found: list[Destination]
    ) -> None:
        """Append what the patterns through `start` give for the words from `begin` on."""
        count: i64 = len(words)
        position: i64 = begin
        node = start
        while True:
            hash_node = node.hash
            if hash_node is not None and hash_node.targets is not None:
                hash_node.targets.give(found)
            if position == count:
                if node.targets is not None:
                    node.targets.give(found)
                break
            star = node.star
            children = node.children
            if children is not None:
                child = children.get(words[position])
                if child is not None:
                    position += 1
                    if star is not None:
                        self._descend(star, words, position, found)
                    node = child
                    continue
            if star is None:
                break
            node = star
            position += 1
        self.steps += position - begin + 1

    def check_bounds(self, binding: Binding, bounds: BindingBounds) -> None:
        """Refuse a pattern with too many '#', and too many such patterns."""
        text = binding.routing_key
        words = words_of(text)
        if not needs_set(words) or self._patterns.has(text):
            return
        hashes = words.count("#")
        if hashes > bounds.topic_hashes:
            raise ChannelFault(
                _PRECONDITION_FAILED,
                f"pattern '{text}' has {hashes} words '#', more than {bounds.topic_hashes} "
                "(topic_hashes)",
            )
        if self._patterns.positions + len(words) > bounds.topic_positions:
            raise ChannelFault(
                _PRECONDITION_FAILED,
                f"patterns of exchange '{self.name}' that have a '#' before other words have "
                f"{self._patterns.positions} words, and may have {bounds.topic_positions} "
                "(topic_positions); bind to another exchange",
            )

    def index(self, binding: Binding) -> None:
        """Add the pattern word by word."""
        words = words_of(binding.routing_key)
        if needs_set(words):
            self._patterns.hold(binding.routing_key, words, binding.destination)
            return
        node = self._root
        for word in words:
            following = node.after(word)
            if following is None:
                following = node.grow(word)
                self.node_count += 1
            node = following
        if node.targets is None:
            node.targets = Targets()
        node.targets.hold(binding.destination)

    def unindex(self, binding: Binding) -> None:
        """Take the pattern away, and every node that no other pattern needs."""
        words = words_of(binding.routing_key)
        if needs_set(words):
            self._patterns.release(binding.routing_key, binding.destination)
            return
        path: list[TopicNode] = [self._root]
        for word in words:
            path.append(path[-1].grow(word))
        targets = path[-1].targets
        if targets is None:
            raise AssertionError("an indexed pattern has a target, because index put it there")
        if not targets.release(binding.destination):
            return
        path[-1].targets = None
        depth = len(words)
        while depth > 0 and path[depth].targets is None and path[depth].is_end():
            depth -= 1
            path[depth].prune(words[depth])
            self.node_count -= 1
