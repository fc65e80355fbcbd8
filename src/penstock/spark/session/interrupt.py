"""Ctrl-C while Spark works: PySpark cancels the jobs, and their errors hide what it was."""


def was_interrupted(fault: BaseException | None) -> bool:
    """Whether `fault`, or what it was raised because of or while handling, is KeyboardInterrupt."""
    seen: set[int] = set()
    while fault is not None and id(fault) not in seen:
        if isinstance(fault, KeyboardInterrupt):
            return True
        seen.add(id(fault))
        fault = fault.__cause__ or fault.__context__
    return False
