"""`python -m ridgeline.testing.services`, as a user runs it."""

import signal
import socket
import subprocess
import sys

import pytest

from ridgeline.testing import services
from ridgeline.testing.services.__main__ import main
from support.docs import pages
from support.paths import ROOT

COMMAND = [sys.executable, "-m", "ridgeline.testing.services"]


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_addresses_and_ends_all_when_it_is_interrupted(number):
    names = ["postgres", "seaweedfs"]
    for name in names:
        if reason := services.SERVICES[name].available():
            pytest.skip(reason)
    with subprocess.Popen(
        [*COMMAND, *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ran:
        found = dict(ran.stdout.readline().strip().split("=", 1) for _ in range(2))
        assert ran.stderr.readline().startswith("all are up")
        address = ("127.0.0.1", int(found["POSTGRES_DSN"].rpartition(":")[2].partition("/")[0]))
        socket.create_connection(address).close()
        assert found["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
        ran.send_signal(number)
        assert ran.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_it_lists_all_services(capsys):
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(services.SERVICES)


def test_it_knows_the_names(capsys):
    with pytest.raises(SystemExit):
        main(["kafak"])
    assert "no service `kafak`; there are kafka, " in capsys.readouterr().err


def test_what_cannot_be_had_is_said_with_the_reason_and_the_remedy(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RIDGELINE_SERVICES", str(tmp_path / "cache"))
    reason = services.kafka.available()
    assert "there is no `java`" in reason
    assert "remedy: apt-get install openjdk" in reason
    assert main(["kafka"]) == 1
    printed = capsys.readouterr()
    assert "error: kafka: there is no `java`" in printed.err


PAGE = ROOT / "docs" / "services.md"


@pytest.mark.crash
def test_the_blocks_run(tmp_path, monkeypatch):
    if reason := services.postgres.available():
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    pages.run(PAGE, having={"services"})


def test_it_has_all_services():
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows[: len(services.SERVICES)] == list(services.SERVICES)
