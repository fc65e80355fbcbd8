"""Compiled or plain, and why."""

from pathlib import Path

from penstock.server.machine.build import COMPILED, PLAIN, build_kind, build_words, fallback_reason
from scripts.show_build import is_compiled, listed_modules


def test_it_says_what_every_listed_module_is() -> None:
    kinds = {COMPILED if is_compiled(name) else PLAIN for name in listed_modules()}
    assert kinds == {build_kind()}
    assert build_words().startswith(build_kind())


def test_the_reason_of_a_fallback_is_kept(tmp_path: Path) -> None:
    assert fallback_reason(tmp_path / "not-compiled.txt") == ""
    (tmp_path / "not-compiled.txt").write_text("no C compiler: cc is missing\n")
    assert fallback_reason(tmp_path / "not-compiled.txt") == "no C compiler: cc is missing"
