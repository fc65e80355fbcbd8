"""Topic patterns with a "#" inside, and long ones: matched at once, a bit a position. COMPILED.

A pattern without its "#" is a row of words. Position i of it is reached when its first i words have
been found; where a "#" stands behind them, a position is kept whatever word comes. All positions of
all patterns of a group are bits of one number, so that a word of a key moves every pattern by five
operations on whole numbers (Baeza-Yates and Gonnet's Shift-And):

    reached = (reached & takes the word) << 1 | reached & behind is a "#"

The cost of a key is its words times the groups, whatever the patterns are and however many "#"
they have; GROUP_BITS keeps what a rare word costs in memory small.
"""

from typing import Final

from penstock.routing.destination import Destination, Targets

GROUP_BITS: Final = 4096
"""Positions of a group; one pattern has 129 at most, for a key has 255 bytes."""

TRIE_WORDS: Final = 32
"""Longer patterns that have a "*" do without the trie."""


class Pattern:
    """One pattern and its destinations. words: without any "#", None for "*"; stays: for each
    position whether a "#" is there; base: its first bit in `group`, None while it has none."""

    __slots__ = ("base", "group", "stays", "targets", "words")

    def __init__(self, text: list[str]) -> None:
        self.words: list[str | None] = []
        self.stays: list[bool] = [False]
        for word in text:
            if word == "#":
                self.stays[-1] = True
            else:
                self.words.append(None if word == "*" else word)
                self.stays.append(False)
        self.targets = Targets()
        self.group: Group | None = None
        self.base = 0


class Group:
    """Patterns whose positions are bits of the same numbers.

    size, live: bits that are used, and those of patterns that are still there; ends: patterns by
    their last position; starts, accepts, stays, any: bits of first and last positions, of those
    with a "#" behind them, of those that take any word; by_word: bits of those that take a word.
    """

    __slots__ = ("accepts", "any", "by_word", "ends", "live", "size", "starts", "stays")

    def __init__(self) -> None:
        self.size = 0
        self.live = 0
        self.ends: dict[int, Pattern] = {}
        self.starts: int = 0
        self.accepts: int = 0
        self.stays: int = 0
        self.any: int = 0
        self.by_word: dict[str, int] = {}

    def add(self, pattern: Pattern) -> None:
        """Give `pattern` the next bits."""
        base = self.size
        count = len(pattern.words)
        pattern.group = self
        pattern.base = base
        self.starts |= 1 << base
        self.accepts |= 1 << (base + count)
        self.ends[base + count] = pattern
        for index in range(count + 1):
            bit = 1 << (base + index)
            if pattern.stays[index]:
                self.stays |= bit
            if index < count:
                word = pattern.words[index]
                if word is None:
                    self.any |= bit
                else:
                    self.by_word[word] = self.by_word.get(word, 0) | bit
        self.size += count + 1
        self.live += count + 1

    def remove(self, pattern: Pattern) -> None:
        """Never begin with `pattern` again; its bits are free when the group is made anew."""
        end = pattern.base + len(pattern.words)
        self.starts &= ~(1 << pattern.base)
        self.accepts &= ~(1 << end)
        del self.ends[end]
        self.live -= len(pattern.words) + 1

    def match(self, words: list[str], found: list[Destination]) -> int:
        """Append the destinations of the patterns that match; the words that were looked at."""
        reached = self.starts
        any_word = self.any
        stays = self.stays
        by_word = self.by_word
        looked_at = 0
        for word in words:
            if reached == 0:
                break
            taking = any_word
            bits = by_word.get(word)
            if bits is not None:
                taking |= bits
            reached = (reached & taking) << 1 | reached & stays
            looked_at += 1
        reached &= self.accepts
        while reached != 0:
            last = reached & -reached
            self.ends[last.bit_length() - 1].targets.give(found)
            reached ^= last
        return looked_at


class PatternSet:
    """Patterns by their text, in groups. Bound: `positions`, which the exchange keeps below
    TOPIC_POSITIONS. A group that is half empty is made anew from what is left of it."""

    __slots__ = ("_groups", "_patterns", "positions")

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._patterns: dict[str, Pattern] = {}
        self.positions = 0

    def has(self, text: str) -> bool:
        """Whether the pattern `text` is held."""
        return text in self._patterns

    def hold(self, text: str, words: list[str], destination: Destination) -> None:
        """Count one more binding of the pattern `text`, which has these `words`."""
        pattern = self._patterns.get(text)
        if pattern is None:
            pattern = Pattern(words)
            self._patterns[text] = pattern
            self._place(pattern)
        pattern.targets.hold(destination)

    def release(self, text: str, destination: Destination) -> None:
        """Count one binding less of the pattern `text`, which has one to `destination`."""
        pattern = self._patterns[text]
        if not pattern.targets.release(destination):
            return
        del self._patterns[text]
        group = pattern.group
        assert group is not None, "a pattern that is held has a place"
        group.remove(pattern)
        self.positions -= len(pattern.words) + 1
        if group.live * 2 < group.size:
            self._groups.remove(group)
            for other in group.ends.values():
                self.positions -= len(other.words) + 1
                self._place(other)

    def match(self, words: list[str], found: list[Destination]) -> int:
        """Append the destinations of the patterns that match `words`; the moves it took."""
        moves = 0
        for group in self._groups:
            moves += group.match(words, found)
        return moves

    def _place(self, pattern: Pattern) -> None:
        size = len(pattern.words) + 1
        if not self._groups or self._groups[-1].size + size > GROUP_BITS:
            self._groups.append(Group())
        self._groups[-1].add(pattern)
        self.positions += size


def needs_set(words: list[str]) -> bool:
    """Whether a trie is no place for a pattern: a "#" with words behind it is reached by many ways,
    and long patterns with "*" can all match one key, each by nodes of its own."""
    return "#" in words[:-1] or (len(words) > TRIE_WORDS and "*" in words)
