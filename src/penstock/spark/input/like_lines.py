"""JSON lines that are alike to columns, about twice as fast as by a parser.

A broker writes its events without spaces, and the fields of a kind in one order. So lines with as
many quotes are taken to be of the form of one of them: what is between two numbers is either the
same in all of them, or has texts, which repeat, so that each of these parts is looked at once.
Every byte is checked; what is not like many others is left for those who read JSON.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.spark.schema.arrow_columns import I64, NONE, Mask

Columns = dict[str, pa.Array]
U64 = npt.NDArray[np.uint64]

FEW: Final = 64
"""Lines for which looking for their form does not pay."""

DIGITS: Final = 18
"""Of the numbers that are read here: all those of so many fit."""

SEVERAL: Final = 1_000
_REPEATS: Final = 4
"""Lines for each part with texts, below which they are left, if there are SEVERAL such parts."""

_FIELD: Final = re.compile(rb'"([a-z_]{1,32})":(?:"([^"]*)"|(\d+))')
_TEXT: Final = rb"([ !#-\[\]-~]*)"
_WORD: Final = 8
_MARGIN: Final = 4 * _WORD
_PIECE: Final = 1 << 17
_ZEROS, _TO_TOP, _TOPS = (
    np.uint64(int.from_bytes(bytes([one]) * _WORD)) for one in (0x30, 0x76, 0x80)
)
_FOLDS: Final = (
    (1, np.uint64(0x00FF00FF00FF00FF)),
    (2, np.uint64(0x0000FFFF0000FFFF)),
    (4, np.uint64(0x00000000FFFFFFFF)),
)
"""Digits become pairs, pairs fours, and fours one number."""
_EVERY_OTHER: Final = 0b01010101


class Part(NamedTuple):
    """What stands before a number, or behind the last one. text: of the line it was found in;
    pattern: of all lines; fields: whose values are texts in it, and the groups of `pattern`;
    number: the field whose number follows, "" for none; closes: which of the quotes of the line is
    the last one before that."""

    text: bytes
    pattern: bytes
    fields: tuple[str, ...]
    number: str
    closes: int


class _Block(NamedTuple):
    """Lines. octets, words: each byte, and the eight bytes that begin with each."""

    data: bytes
    octets: npt.NDArray[np.uint8]
    words: npt.NDArray[np.bytes_]


def split(data: bytes, types: Mapping[str, pa.DataType]) -> tuple[list[Columns], bytes]:
    """Columns of lines that are alike, one for each of their fields; and all other lines.

    types: text or int64 of each field that may be there; lines that say anything else are left.
    Texts come as dictionaries."""
    if len(data) < _WORD:
        return [], data
    block = _block(data)
    marks = _marks(block.octets)
    last = np.flatnonzero(block.octets[marks] == ord("\n"))
    quotes = np.diff(last, prepend=-1) - 1
    ends = marks[last]
    starts = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    # So that there is a word wherever one is looked at; and a line without quotes says nothing.
    quotes[(starts < _MARGIN) | (ends > len(data) - _WORD)] = 0
    several = np.bincount(quotes) >= FEW
    several[:1] = False
    is_left = np.ones(len(ends), np.bool_)
    found = []
    for count in np.flatnonzero(several).tolist():
        lines = np.flatnonzero(quotes == count)
        # The first may be the header of a file, which happens to have as many.
        middle = lines[len(lines) // 2]
        form = form_of(block.data[starts[middle] : ends[middle]], types)
        if form:
            columns, is_like = _columns(block, form, marks, last[lines] - count, starts[lines])
            if np.any(is_like):
                found.append(columns)
                is_left[lines[is_like]] = False
    rest = [block.data[starts[at] : ends[at] + 1] for at in np.flatnonzero(is_left).tolist()]
    return found, b"".join([*rest, data[data.rfind(b"\n") + 1 :]])


def _block(data: bytes) -> _Block:
    words = np.ndarray((len(data) - _WORD + 1,), f"S{_WORD}", data, strides=(1,))
    return _Block(data, np.frombuffer(data, np.uint8), words)


def _marks(octets: npt.NDArray[np.uint8]) -> I64:
    """Where the quotes and line ends are; a piece at a time, that the cache holds."""
    found = [NONE]
    for start in range(0, len(octets), _PIECE):
        piece = octets[start : start + _PIECE]
        found.append(np.flatnonzero((piece == ord('"')) | (piece == ord("\n"))) + start)
    return np.concatenate(found)


def form_of(line: bytes, types: Mapping[str, pa.DataType]) -> list[Part]:
    """The parts of a line without its end, none when it is no flat object without spaces, or has
    other fields than those of `types`, or one of them twice, or no number."""
    parts: list[Part] = []
    names: list[str] = []
    texts: list[str] = []
    pattern, quotes, start, done = b"", 0, 0, 0
    for one in _FIELD.finditer(line):
        name, is_text = one[1].decode(), one[2] is not None
        value, behind = one.span(2 if is_text else 3)
        if types.get(name) != (pa.string() if is_text else pa.int64()):
            return []
        names.append(name)
        pattern += re.escape(line[done:value])
        done = behind
        if is_text:
            texts.append(name)
            pattern += _TEXT
            quotes += 4
        else:
            quotes += 2
            parts.append(Part(line[start:value], pattern, tuple(texts), name, quotes - 1))
            pattern, start, texts = b"", done, []
    parts.append(Part(line[start:], pattern + re.escape(line[done:]), tuple(texts), "", -1))
    is_flat = line == b"{" + b",".join(one[0] for one in _FIELD.finditer(line)) + b"}"
    return parts if is_flat and len(parts) > 1 and len(set(names)) == len(names) else []


def _columns(
    block: _Block, form: Sequence[Part], marks: I64, first: I64, starts: I64
) -> tuple[Columns, Mask]:
    """The values of the lines that have the form, and which those are.

    marks: where quotes and line ends are; first: which of them is the first of each line."""
    is_like = np.ones(len(starts), np.bool_)
    numbers: dict[str, I64] = {}
    texts: dict[str, tuple[I64, list[str]]] = {}
    begin = starts
    for part in form:
        following = first + (
            part.closes if part.number else form[-2].closes + 1 + _quotes(form[-1])
        )
        end = marks[following] + (2 if part.number else 0)
        if part.fields:
            is_like &= _read_texts(block, part, begin, end, texts)
        else:
            is_like &= _is_same(block, part.text, begin, end)
        if part.number:
            begin, end = end, marks[following + 1] - 1
            numbers[part.number], is_number = _numbers(block, begin, end)
            is_like &= is_number
            begin = end
    found: Columns = {name: pa.array(values[is_like]) for name, values in numbers.items()}
    for name, (codes, values) in texts.items():
        indices = pa.array(codes[is_like], pa.int32())
        found[name] = pa.DictionaryArray.from_arrays(indices, pa.array(values, pa.string()))
    return found, is_like


def _quotes(part: Part) -> int:
    return 4 * len(part.fields)


def _is_same(block: _Block, text: bytes, begin: I64, end: I64) -> Mask:
    is_same: Mask = end - begin == len(text)
    for at in range(0, len(text), _WORD):
        word = text[at : at + _WORD]
        mask = np.uint64((1 << 8 * len(word)) - 1)
        is_same &= _words(block, begin + at) & mask == np.uint64(int.from_bytes(word, "little"))
    return is_same


def _words(block: _Block, at: I64) -> U64:
    # In lines of another form there may be nothing there.
    return block.words[np.minimum(at, len(block.words) - 1)].view("<u8")


def _numbers(block: _Block, begin: I64, end: I64) -> tuple[I64, Mask]:
    """Whole numbers without a sign, eight digits at a time, and where there is one."""
    size = end - begin
    digit = block.octets[begin]
    # As JSON has it: no zero in front of others.
    is_number = (size > 0) & (size <= DIGITS) & ((digit != ord("0")) | (size == 1))
    total = np.zeros(len(begin), np.uint64)
    for at in range(_WORD * ((min(int(size.max()), DIGITS) - 1) // _WORD), -1, -_WORD):
        word = _words(block, end - at - _WORD) ^ _ZEROS
        # The lowest byte is the first digit: what is before the number becomes 0.
        others = (_WORD * (_WORD - np.clip(size - at, 0, _WORD))).astype(np.uint64)
        word = (word >> others) << others
        is_number &= ((word + _TO_TOP) | word) & _TOPS == 0
        for places, mask in _FOLDS:
            word = (word * np.uint64(10**places) + (word >> np.uint64(8 * places))) & mask
        total = total * np.uint64(10**_WORD) + word
    return total.astype(np.int64), is_number


def _read_texts(
    block: _Block, part: Part, begin: I64, end: I64, texts: dict[str, tuple[I64, list[str]]]
) -> Mask:
    """Adds codes and values of each field with a text in the part; returns where it is like."""
    coded = _cells(block.data, begin, end).dictionary_encode()
    codes = np.frombuffer(coded.indices.buffers()[1], np.int32, len(coded))[::2]
    several = coded.dictionary.to_pylist()
    if len(several) > max(SEVERAL, len(begin) // _REPEATS):
        return np.zeros(len(begin), np.bool_)
    pattern = re.compile(part.pattern)
    matches = [pattern.fullmatch(one) for one in several]
    for group, field in enumerate(part.fields, 1):
        known: dict[str, int] = {}
        places = [
            known.setdefault("" if match is None else match[group].decode(), len(known))
            for match in matches
        ]
        texts[field] = np.array(places, np.int64)[codes], list(known)
    return np.array([match is not None for match in matches], np.bool_)[codes]


def _cells(data: bytes, begin: I64, end: I64) -> pa.Array:
    """The texts [begin, end) of the block, and a null for what is between one and the next: so they
    need not be copied."""
    count = 2 * len(begin) - 1
    borders = np.empty(count + 1, np.int32)
    borders[0::2], borders[1::2] = begin, end
    is_there = np.full(len(begin) // 4 + 1, _EVERY_OTHER, np.uint8)
    buffers = [pa.py_buffer(one) for one in (is_there, borders, data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=len(begin) - 1)
