"""What `ridgeline doctor` finds, on this machine and of hosts that are not fit."""

import json
import socket

import pytest

from ridgeline.cli.doctor import judging, spark
from ridgeline.cli.doctor.probing import prober


@pytest.fixture
def facts(tmp_path):
    [found] = prober(str(tmp_path), None, 3)(0, ())
    return found


def states(findings):
    return {one.subject: one.state for one in findings}


def test_a_fit_machine_is_said_to_be_so(ridgeline_command, tmp_path):
    result = ridgeline_command("doctor", "--checkpoint", str(tmp_path / "state"), "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == (1 if any(one["state"] == "wrong" for one in found) else 0)
    by_subject = {one["subject"]: one for one in found}
    for subject in (
        "Java",
        "Python",
        "Spark",
        "Arrow",
        "cores",
        "open files",
        "network",
        f"disk of {tmp_path / 'state'}",
    ):
        assert by_subject[subject]["state"] in {"ok", "warning"}, by_subject[subject]
    assert all(one["remedy"] for one in found if one["state"] != "ok")
    assert not list(tmp_path.iterdir())


def test_what_is_missing_is_wrong_with_a_remedy(facts, tmp_path):
    gib = 1 << 30
    facts |= {"cores": 1, "memory": gib, "shm": (64 << 20, 64 << 20), "files": 1024, "processes": 100}
    facts |= {"temporary": (gib, 1 << 20), "clock_kept": False}
    facts["folder"] |= {"syncs": [0.05, 0.06, 0.2], "kind": "tmpfs", "space": (100 * gib, gib)}
    folder = str(tmp_path)
    found = list(judging.judge(facts, folder, "far"))
    assert {one.state for one in found} == {"warning", "wrong"}
    assert all(one.remedy and one.host == "far" for one in found)
    assert states(found)["temporary folder"] == "wrong"
    assert "a sync takes 60.0 ms, at most 200.0 ms" in " ".join(one.found for one in found)

    facts |= {"folder": {"syncs": [], "fault": "it is not there", "kind": None, "space": None}, "shm": None}
    assert states(judging.judge(facts, folder))[f"disk of {folder}"] == "wrong"
    facts["files"] = -1
    assert states(judging.judge(facts, folder))["open files"] == "ok"


def test_ports_that_are_taken_are_wrong(ridgeline_command):
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        result = ridgeline_command("doctor", "--conf", f"spark.ridgeline.slots.ports={port}-{port}")
    assert result.exit_code == 1
    assert "0 of 1 free" in result.stdout
    assert ridgeline_command("doctor", "--conf", "spark.ridgeline.slots.ports=many").exit_code == 2


@pytest.mark.spark
def test_the_hosts_of_executors_are_looked_at(spark_context, tmp_path):
    found = list(spark._hosts(spark_context, str(tmp_path)))
    assert states(found)["versions of workers"] == "ok"
    assert any(one.host == socket.gethostname() and one.subject == f"disk of {tmp_path}" for one in found)
    blind = list(spark._hosts(spark_context, str(tmp_path / "none")))
    assert states(blind)[f"disk of {tmp_path / 'none'}"] == "wrong"
