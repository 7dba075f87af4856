"""What `ridgeline doctor` finds, on this machine and of one that is not fit."""

import json
import os

from ridgeline.cli import doctor


def test_a_fit_machine_is_said_to_be_so(ridgeline_command, tmp_path):
    result = ridgeline_command("doctor", "--checkpoint", str(tmp_path / "state"), "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == (1 if any(one["state"] == "wrong" for one in found) else 0)
    by_subject = {one["subject"]: one for one in found}
    for subject in ("Java", "Python", "pyspark", "pyarrow", "cores", "open files", "network", "disk"):
        assert by_subject[subject]["state"] in {"ok", "warning"}, by_subject[subject]
    assert all(one["remedy"] for one in found if one["state"] != "ok")
    assert not list(tmp_path.iterdir())


def test_what_is_missing_is_wrong_with_a_remedy(ridgeline_command, tmp_path, monkeypatch):
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    little = os.terminal_size  # any pair of numbers
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: doctor.shutil._ntuple_diskusage(1 << 40, 0, 9))
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _: little((100, 100)))
    monkeypatch.setattr(doctor.socket, "gethostname", lambda: "nowhere.invalid")
    monkeypatch.setattr(doctor, "_sync_seconds", lambda _: 0.06)
    result = ridgeline_command("doctor", "--checkpoint", str(state), "--json")
    assert result.exit_code == 1
    found = {one["subject"]: one for one in json.loads(result.stdout)}
    wrong = {"temporary folder", "network", "trust"}
    warnings = {"/dev/shm", "open files", "disk", "room"}
    assert {name for name, one in found.items() if one["state"] == "wrong"} >= wrong
    assert {name for name, one in found.items() if one["state"] == "warning"} >= warnings
    assert all(found[name]["remedy"] for name in wrong | warnings)
    shown = ridgeline_command("doctor", "--checkpoint", str(state)).stdout
    assert "-> raise it: `ulimit -n 65536`" in shown


def test_a_folder_that_cannot_be_written_is_wrong(monkeypatch, tmp_path):
    def refuse(_folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor, "_sync_seconds", refuse)
    [finding] = doctor._folder(str(tmp_path / "none" / "deep"))
    assert (finding.state, "Permission denied" in finding.found) == ("wrong", True)
