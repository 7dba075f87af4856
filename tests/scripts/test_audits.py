"""The audit of dependencies and the bill of materials, without their tools: those come by `make audit`."""

import hashlib
import json
import re

from audit_dependencies import judged
from make_sbom import VENDORED, declared, vendored
from support.scripts import script


def answer(*packages):
    return json.dumps({"dependencies": list(packages), "fixes": []})


def test_a_service_that_cannot_be_reached_is_said_and_not_taken_for_a_clean_result():
    unknown = {"name": "typer", "skip_reason": "Dependency not found on PyPI and could not be audited"}
    for said in (answer(unknown), answer(), "", "[]"):
        text, weak = judged("run.lock", said, "Traceback ...\nConnectionError: no route")
        assert "NOT CHECKED" in text
        assert not weak


def test_known_weaknesses_fail_and_are_named():
    fine = {"name": "a", "version": "1", "vulns": []}
    weak = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}, {"id": "CVE-2"}]}
    unknown = {"name": "c", "skip_reason": "private"}
    assert judged("x", answer(fine, unknown), "") == (
        "x: 1 of 2 packages checked, 0 have known weaknesses",
        False,
    )
    text, fails = judged("x", answer(fine, weak), "")
    assert fails
    assert text.endswith("b 2: PYSEC-1, CVE-2")


def test_vendored_files_are_in_the_bill_with_their_real_hashes():
    found = vendored((VENDORED / "README.md").read_text(encoding="utf-8"))
    assert {one["name"] for one in found} == {file.name for file in VENDORED.glob("*.js")}
    for one in found:
        digest = hashlib.sha256((VENDORED / one["name"]).read_bytes()).hexdigest()
        assert one["hashes"] == [{"alg": "SHA-256", "content": digest}]
        assert one["version"]
        assert one["licenses"][0]["license"]["name"]


def test_licences_are_those_of_the_version_that_is_installed():
    import starlette

    assert "BSD" in declared("starlette", starlette.__version__)
    assert declared("starlette", "0.0.1") == ""
    assert declared("no-such-package-of-anyone", "1") == ""


# The libraries that the page brings along are what the table says, and hold nothing from elsewhere ----------


def test_files_are_as_the_table_says():
    assert script("renew_vendored").differences() == []


def test_a_changed_file_is_found(tmp_path, monkeypatch):
    renew = script("renew_vendored")
    for path in renew.VENDOR.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "preact.js").write_bytes(b"alert(1)")
    (tmp_path / "other.js").write_bytes(b"")
    monkeypatch.setattr(renew, "VENDOR", tmp_path)
    monkeypatch.setattr(renew, "README", tmp_path / "README.md")
    assert renew.differences() == ["`other.js` is in no library of the script"]
    (tmp_path / "other.js").unlink()
    assert [text.split(";")[0] for text in renew.differences()] == [
        "a file or the table of `README.md` was changed"
    ]


def test_they_make_no_code_of_texts():
    renew = script("renew_vendored")
    for path in renew.VENDOR.glob("*.js"):
        assert not re.search(r"\beval\(|new Function\(", path.read_text(encoding="utf-8")), path.name
