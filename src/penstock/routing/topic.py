"""The topic exchange: patterns in a trie, walked with all possible positions at once. COMPILED.

A key is words with dots between them; the empty key has no words, and "a..b" has an empty word in
the middle. In a pattern the word "*" stands for exactly one word and "#" for any number of them.

The trie has one node for each distinct pattern prefix. A walk keeps the *frontier*: the set of
nodes that the words so far can reach. A word moves it: a node goes to its child for that word and
to its "*" child; a "#" node also stays; whoever arrives at a node is at once at its "#" child too,
because "#" may stand for no word. Nodes carry the number of the step that reached them last, so
none is in a frontier twice:

    nodes visited by one key of w words  <=  (w + 1) * nodes of the trie

whatever the patterns, where trying each "#" on its own would be exponential in their number.
A "#" at the end of a pattern takes all that may follow: it gives its destinations when it is first
reached and never enters the frontier.

Without a "#" inside a pattern no node can be reached by two ways, so there is no need of a
frontier: the trie is descended as any other, and the walk begins only at a node behind which such a
"#" stands, for what is behind that node.
"""

from collections.abc import Mapping

from mypy_extensions import i64

from penstock.routing.bindings import Binding
from penstock.routing.destination import Destination, Targets
from penstock.routing.exchange import Exchange, words_of


class TopicNode:
    """One pattern prefix; None stands for what it does not have.

    step: the walk step that reached it last.
    children: literal words; star, hash: the nodes after "*" and after "#".
    targets: destinations of the patterns that end here.
    """

    __slots__ = ("children", "hash", "is_hash", "star", "step", "targets")

    def __init__(self, is_hash: bool) -> None:
        self.is_hash = is_hash
        self.step = 0
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
        node = TopicNode(word == "#")
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
    """The trie and its step counter.

    node_count: nodes of the trie, the root among them. nodes_visited: over all matches so far.
    """

    __slots__ = ("_root", "_step", "node_count", "nodes_visited")

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
        self._root = TopicNode(False)
        self._step = 0
        self.node_count = 1
        self.nodes_visited = 0

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append the destinations of all patterns that match; one twice if two patterns match."""
        topology = self._topology
        words = words_of(routing_key) if topology is None else topology.words_of(routing_key)
        self._descend(self._root, words, 0, found)

    def _descend(
        self, start: TopicNode, words: list[str], begin: i64, found: list[Destination]
    ) -> None:
        """Append what the patterns through `start` give for the words from `begin` on."""
        count: i64 = len(words)
        position: i64 = begin
        node = start
        while True:
            hash_node = node.hash
            if hash_node is not None:
                if not hash_node.is_end():
                    self._walk(node, words[position:] if position > 0 else words, found)
                    break
                if hash_node.targets is not None:
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
        self.nodes_visited += position - begin + 1

    def _walk(self, start: TopicNode, words: list[str], found: list[Destination]) -> None:
        """Append what the patterns through `start` give for the `words` behind it."""
        first_step = self._step + 1
        step = first_step
        frontier: list[TopicNode] = []
        _enter(start, step, first_step, frontier, found)
        visited = len(frontier)
        for word in words:
            step += 1
            following: list[TopicNode] = []
            for node in frontier:
                if node.is_hash and node.step != step:
                    # Its own "#" child, if any, is in the frontier as well and stays by itself.
                    node.step = step
                    following.append(node)
                if node.children is not None:
                    child = node.children.get(word)
                    if child is not None:
                        _enter(child, step, first_step, following, found)
                if node.star is not None:
                    _enter(node.star, step, first_step, following, found)
            frontier = following
            if not frontier:
                break
            visited += len(frontier)
        for node in frontier:
            if node.targets is not None:
                node.targets.give(found)
        self._step = step
        self.nodes_visited += visited

    def index(self, binding: Binding) -> None:
        """Add the pattern word by word."""
        node = self._root
        for word in words_of(binding.routing_key):
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


def _enter(
    node: TopicNode,
    step: int,
    first_step: int,
    frontier: list[TopicNode],
    found: list[Destination],
) -> None:
    """Put `node` and the "#" nodes behind it into `frontier`, unless this step was there before.

    first_step: the walk's own first step, by which a "#" at a pattern's end knows that this walk
    has taken its destinations already.
    """
    current: TopicNode | None = node
    while current is not None and current.step != step:
        if current.is_hash and current.is_end():
            if current.step < first_step and current.targets is not None:
                current.targets.give(found)
            current.step = step
            return
        current.step = step
        frontier.append(current)
        current = current.hash
