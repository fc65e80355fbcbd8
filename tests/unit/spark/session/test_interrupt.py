"""Errors that Ctrl-C has caused are known by what they were raised while handling."""

from penstock.spark.session.session import was_interrupted


def raised(kind: type[BaseException], is_named: bool) -> BaseException:
    """As PySpark raises: an error while another one is handled, and one more because of that."""
    try:
        try:
            try:
                raise kind
            except BaseException as first:
                if is_named:
                    raise RuntimeError("Job 48 cancelled") from first
                raise RuntimeError("Job 48 cancelled")  # noqa: B904  # as PySpark does
        finally:
            raise OSError("the JVM is gone")  # as closing does then
    except OSError as last:
        return last


def test_an_error_in_the_wake_of_an_interrupt_is_one() -> None:
    assert was_interrupted(KeyboardInterrupt())
    assert was_interrupted(raised(KeyboardInterrupt, is_named=True))
    assert was_interrupted(raised(KeyboardInterrupt, is_named=False))


def test_other_errors_are_not() -> None:
    assert not was_interrupted(None)
    assert not was_interrupted(raised(ValueError, is_named=True))
    loop = OSError()
    loop.__context__ = RuntimeError()
    loop.__context__.__context__ = loop
    assert not was_interrupted(loop)
