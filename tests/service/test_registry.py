"""The registry of running applications."""

import json
import os
import stat
import subprocess
import sys

import pytest

from ridgeline import RidgelineError
from ridgeline.service.registry import (
    Entry,
    find,
    folder,
    own_entry,
    process_identity,
    register,
    remove_own,
    running,
)


def entry(id="payments-1", name="payments", port=4040, **more):
    return own_entry(id, name, f"http://127.0.0.1:{port}", token=None, started=1000.0, **more)


def files():
    return sorted(path.name for path in folder().iterdir())


def test_what_is_registered_runs_until_it_is_taken_out():
    mine = entry(user="ann", checkpoint="/data/payments")
    registration = register(mine)
    assert running() == [mine]
    assert mine.pid == os.getpid()
    remove_own(registration)
    assert running() == []
    assert files() == []


def test_nobody_else_can_read_it():
    registration = register(entry())
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    assert stat.S_IMODE(registration.stat().st_mode) == 0o600


def test_a_process_that_is_gone_is_dropped():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = process_identity(process.pid)
    other = Entry("x", "x", "http://127.0.0.1:1", pid=process.pid, host=entry().host, process=identity)
    register(other)
    assert running() == [other]
    process.communicate(b"\n")
    assert running() == []
    assert files() == []


def test_a_process_with_the_same_id_that_began_later_is_another_one():
    mine = entry()
    register(Entry("x", "x", "http://127.0.0.1:1", pid=mine.pid, host=mine.host, process="another boot:1"))
    assert running() == []


def test_other_hosts_cannot_be_checked():
    other = Entry("x", "x", "http://elsewhere:1", pid=1, host="elsewhere")
    register(other)
    assert running() == [other]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"id": "x"}',
        json.dumps({"id": 1, "name": "x", "url": "y"}),
        "\x00" * 1000,
        "9" * 200_000,
    ],
)
def test_corrupt_files_are_removed(text):
    register(entry())
    (folder() / "broken.json").write_text(text)
    assert [found.id for found in running()] == ["payments-1"]
    assert files() == ["payments-1.json"]


def test_names_of_files_do_not_lead_elsewhere():
    registration = register(entry(id="../../etc/x y"))
    assert registration.parent == folder()
    assert running()[0].id == "../../etc/x y"


def test_found_by_id_name_url_or_as_the_only_one():
    mine = entry()
    register(mine)
    assert find("payments-1") == find("payments") == find("http://127.0.0.1:4040/") == find() == mine


def test_of_none_and_of_several_it_is_said_which_there_are():
    def refused(text, words):
        with pytest.raises(RidgelineError, match=words):
            find(text)

    refused("", "no application of yours is running; start one with `ridgeline run FILE`")
    register(entry())
    refused("payment", "no application `payment` is running; did you mean `payments`")
    register(entry(id="payments-2", port=4041))
    register(entry(id="rates-1", name="rates", port=4042))
    refused("payments", "`payments` are running; say which by its id: `payments-1`, `payments-2`")
    refused("", r"several applications are running; .* `rates-1` \(rates\)")
    assert find("payments-2").url == "http://127.0.0.1:4041"


def test_where_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("RIDGELINE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    assert folder() == tmp_path / ".ridgeline" / "applications"
    (tmp_path / "gone").mkdir()
    assert folder() == tmp_path / "gone" / "ridgeline"


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(RidgelineError, match=r"cannot be registered in .*; set `RIDGELINE_HOME` to a folder"):
        register(entry())
    assert running() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_a_registry_that_somebody_else_made_is_refused():
    folder().mkdir(parents=True, mode=0o777)
    os.chown(folder(), 65534, 65534)
    for use in (running, lambda: register(entry())):
        with pytest.raises(RidgelineError, match=r"applications is refused: .* \(owner `nobody`, mode 0755"):
            use()
    assert files() == []


def test_a_registry_that_others_can_write_to_is_refused():
    register(entry())
    folder().chmod(0o777)
    with pytest.raises(RidgelineError, match=r"by others .*; run `chmod -R go-w .*set `RIDGELINE_HOME` to"):
        running()
