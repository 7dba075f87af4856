"""Specifications in files: includes, and files that are none."""

import pytest

from ridgeline.api.errors import ValidationError
from ridgeline.cli.load import load_application
from ridgeline.plan import find_faults
from ridgeline.settings.documents import read_with_includes


def fault(path, read=read_with_includes):
    with pytest.raises(ValidationError) as caught:
        read(path)
    (found,) = caught.value.faults
    return str(found).replace(str(path.parent), "")


def test_what_includes_wins(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "base.json").write_text(
        '{"window": "1s", "operators": {"a": {"class": "x.A"}, "b": {"class": "x.B"}}, '
        '"streams": {"s": {"from": "a.o"}}}'
    )
    (tmp_path / "common" / "more.yaml").write_text("include: base.json\nattributes: {windows_kept: 3}\n")
    (tmp_path / "app.yaml").write_text(
        "include: [common/more.yaml]\napplication: app\noperators: {b: {class: x.Other}, c: {class: x.C}}\n"
    )
    assert read_with_includes(tmp_path / "app.yaml")[0] == {
        "application": "app",
        "window": "1s",
        "attributes": {"windows_kept": 3},
        "operators": {"a": {"class": "x.A"}, "b": {"class": "x.Other"}, "c": {"class": "x.C"}},
        "streams": {"s": {"from": "a.o"}},
    }


def test_a_file_that_includes_itself(tmp_path):
    (tmp_path / "a.yaml").write_text("include: b.yaml")
    (tmp_path / "b.yaml").write_text("include: a.yaml")
    assert fault(tmp_path / "a.yaml") == (
        "`/a.yaml`: the file includes itself: `a.yaml` includes `b.yaml` includes `a.yaml`; "
        "take one `include` out"
    )


def test_a_file_that_is_included_ever_so_often(tmp_path):
    for number in range(20):
        (tmp_path / f"a{number}.yaml").write_text(f"include: [a{number + 1}.yaml, a{number + 1}.yaml]")
    (tmp_path / "a20.yaml").write_text("window: 1s")
    assert "more than 50 files are included; put them together" in fault(tmp_path / "a0.yaml")


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.txt", b"x", "the file's suffix names no form; name it `.json`, `.yaml`, `.properties`"),
        ("a.yaml", b"a: 1\nb: \xff", "/a.yaml:2`: byte 0xff is no UTF-8; save the file as UTF-8"),
        ("a.json", b'{"a": 1\n', "/a.json:2`: this is no JSON: expecting ',' delimiter, column 1"),
        ("a.yaml", b"include: 5", "`include` is no file or list of files"),
        ("a.yaml", b"include: none.yaml", "/none.yaml`: the file cannot be read: No such file or directory"),
        ("a.json", b'{"a": "' + b"x" * 50_000_000 + b'"}', "the file has more than 1,048,576 bytes"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, name, data, text):
    (tmp_path / name).write_bytes(data)
    assert text in fault(tmp_path / name)


def test_faults_of_what_was_included_name_the_file(tmp_path):
    common = tmp_path / "common.yaml"
    common.write_text(
        "operators:\n"
        "  source: {class: ridgeline.operators.RandomEventGenerator, properties: {minimun: 1}}\n"
        "  sink: {class: ridgeline.operators.ConsoleOutput}\n"
        "  bad: {class: ridgeline.operators.Nothing}\n"
        "attributes: {windows_kpt: 3}\n"
    )
    app = tmp_path / "app.yaml"
    streams = "streams: {s: {from: source.integer_data, to: sink.inputt}}\n"
    app.write_text("include: common.yaml\n" + streams + "operators: {own: {class: 5}}\n")
    with pytest.raises(ValidationError) as error:
        load_application(str(app))
    inside = {fault.where for fault in error.value.faults if f"(in `{common}`)" in fault.what}
    assert inside == {"operators.bad.class", "source.minimun", "windows_kpt"}
    assert {fault.where for fault in error.value.faults} - inside == {"operators.own.class", "streams.s.to"}
    common.write_text(common.read_text().replace("  bad: {class: ridgeline.operators.Nothing}\n", ""))
    app.write_text("include: common.yaml\n" + streams.replace("inputt", "input"))
    found = find_faults(load_application(str(app)))
    assert [str(common) in fault.what for fault in found] == [True, True]
