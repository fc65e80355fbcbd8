"""Text that may repeat what a peer has said, for logs and terminals."""


def printable(text: str) -> str:
    """`text` with everything that is not printable as an escape: nobody writes lines of their own
    into the log, or moves the cursor of a terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
