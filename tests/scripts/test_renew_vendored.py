"""The libraries that the page brings along are what the table says, and hold nothing from elsewhere."""

import re

from support.scripts import script


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
