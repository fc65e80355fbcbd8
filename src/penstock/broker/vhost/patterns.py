"""Patterns of policies and permissions.

They are regular expressions through RE2, which takes time linear in the name, found anywhere in
it, as in RabbitMQ; ^ and $ bind them. What RE2 cannot do cannot be done in linear time, or is an
extension of PCRE that RabbitMQ takes: look-around, back references, atomic groups, possessive
repetition. Reliability F102.
"""

from typing import Final, Protocol

import re2

from penstock.base.errors import OperatorError
from penstock.base.limits import PATTERN_BYTES, PATTERN_MEMORY_BYTES

_LACKS: Final = (
    (("(?=", "(?!", "(?<"), "RE2 has no look-ahead and look-behind"),
    (("(?>",), "RE2 has no atomic groups"),
    (("++", "*+", "?+", "}+"), "RE2 has no possessive repetition"),
    (("(?#",), "RE2 has no comments"),
    (("(?R", "(?0", "(?&", "(?("), "RE2 has no recursion and no conditions"),
    (("\\Z",), "RE2 writes the end of the text \\z"),
    (("\\h", "\\H", "\\R", "\\X", "\\K", "\\G"), "RE2 does not know this escape"),
)


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> object | None:
        """Something if it is found anywhere in `text`."""


def compile_pattern(text: str) -> Pattern:
    """`text` as a pattern. Raises: OperatorError with what is wrong, or what RE2 lacks."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > PATTERN_BYTES.default:
        raise OperatorError(
            f"pattern of {size} bytes must not exceed {PATTERN_BYTES.default} bytes"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES.default
    try:
        compiled: Pattern = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise OperatorError(
            f"pattern '{text}' should be regular expression but is invalid: {_why(error)}"
        ) from error
    return compiled


def _why(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(error)
    for signs, lack in _LACKS:
        if any(sign in text for sign in signs):
            return f"{text}; {lack}"
    if text.startswith("invalid escape sequence: \\") and text[-1:].isdigit():
        return f"{text}; RE2 has no back references"
    if text.startswith(("pattern too large", "invalid repetition size")):
        return f"{text}; RE2 repeats at most 1,000 times, and keeps to a bound of memory"
    return text
