"""`penstock tls`: what it makes is what a broker and its clients can use."""

import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.cli.tls import tls
from penstock.server.net.tls_endpoint import TlsEndpoint


def run(*words: str) -> str:
    result = CliRunner().invoke(tls, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_what_it_says_is_what_starts_a_broker(tmp_path: Path) -> None:
    said = run("selfsigned", str(tmp_path), "--host", "broker.example", "--client", "app")
    words = next(line for line in said.splitlines() if "penstock serve" in line).split()
    files = dict(zip(words[2::2], words[3::2], strict=True))
    warned: list[str] = []
    config = Config(
        tls_cert=files["--tls-cert"],
        tls_key=files["--tls-key"],
        tls_ca=files["--tls-ca"],
        tls_verify="require",
    )
    endpoint = TlsEndpoint(config, warned.append)
    assert warned == []
    shown = run("show", files["--tls-cert"])
    assert (
        "CN=broker.example" in shown and "days left" in shown and "names    broker.example" in shown
    )
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    client.load_cert_chain(tmp_path / "app.pem", tmp_path / "app.key")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = endpoint.context.wrap_bio(there, back, server_side=True)
    session = client.wrap_bio(back, there, server_hostname="broker.example")
    done = 0
    for _ in range(4):
        for side in (session, server):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue
    assert done >= 2 and server.getpeercert()


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    run("selfsigned", str(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OperatorError, match="is not overwritten"):
        run("selfsigned", str(tmp_path))
    run("selfsigned", str(tmp_path), "--client", "app")
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before} == before
    assert {path.name for path in tmp_path.iterdir() if path.stat().st_mode & 0o077} == {
        "ca.pem",
        "server.pem",
        "app.pem",
    }


@pytest.mark.parametrize("user", ["a/b", "..", "ca", "", "x" * 65])
def test_names_that_are_no_files_are_refused(tmp_path: Path, user: str) -> None:
    with pytest.raises(OperatorError, match="cannot be the name of files"):
        run("selfsigned", str(tmp_path / "shelf"), "--client", user)
    assert not (tmp_path / "shelf").exists()


def test_what_is_no_certificate_is_said(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("hello")
    for path in (wrong, tmp_path / "nowhere.pem"):
        with pytest.raises(OperatorError, match=path.name):
            run("show", str(path))


def test_an_authority_that_is_none_is_named(tmp_path: Path) -> None:
    """A stranger's files of these names, a key that is lost, and one of another authority."""

    def refused(folder: Path) -> str:
        with pytest.raises(OperatorError) as told:
            run("selfsigned", str(folder))
        return str(told.value)

    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    run("selfsigned", str(first))
    run("selfsigned", str(second))
    for name in ("server.pem", "server.key"):
        (first / name).unlink()
        (second / name).unlink()
    third.mkdir()
    (third / "ca.pem").write_text("notes")
    assert f"{third / 'ca.key'}" in refused(third)
    (third / "ca.key").write_bytes((first / "ca.key").read_bytes())
    assert "are no authority that was made here" in refused(third)
    (second / "ca.key").write_bytes((first / "ca.key").read_bytes())
    assert f"{second / 'ca.key'} is not the key of {second / 'ca.pem'}" in refused(second)
    (first / "ca.key").unlink()
    assert f"{first / 'ca.key'} is missing" in refused(first)
    assert not (first / "server.pem").exists()
    with pytest.raises(OperatorError, match="cannot be empty"):
        run("selfsigned", str(tmp_path / "fourth"), "--host", "")
