"""What a package says of itself, and which packages are refused."""

import io
import stat
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.api.errors import PackageError
from ridgeline.packages.package import needs, open_package
from support.depth import deep
from support.packages.wheels import APPLICATION, FILES, build_shop, write_wheel


@pytest.mark.guide("002", "Creating New Project")
def test_a_wheel_of_the_example(tmp_path):
    package = open_package(build_shop(tmp_path))
    assert (package.name, package.version, package.summary) == ("shop", "1.2", "Turnover of a shop in euros")
    assert {name: one.doc for name, one in package.applications.items()} == {
        "turnover": "Add up what is ordered in each country, in euros.",
        "orders": "Write orders to files, as they come.",
    }
    assert package.configuration_sets() == ["shop/defaults.yaml"]
    assert package.configuration_sets("production") == ["shop/defaults.yaml", "shop/production.yaml"]
    package.check_fit()
    assert all(need.met for need in needs(package.requirements))


def test_a_zip_file_with_the_content_of_a_wheel_needs_no_list_and_no_name(tmp_path):
    path = write_wheel(tmp_path, suffix="zip", RECORD=None, WHEEL=None)
    package = open_package(path.rename(tmp_path / "any.zip"))
    assert (package.application().doc, package.tags) == ("Roll dice.", None)


def test_modules_in_a_data_folder_are_found_and_scripts_left_out(tmp_path):
    files = {"casino-1.0.data/purelib/casino/app.py": APPLICATION, "casino-1.0.data/scripts/roll": "#!python"}
    package = open_package(write_wheel(tmp_path, files))
    assert {path for path in package.paths.values() if ".dist-info" not in path} == {"casino/app.py"}


def _raw(**fields):
    """A wheel with one more member, of which the fields of ZipInfo are these."""

    def make(folder):
        path = write_wheel(folder)
        with zipfile.ZipFile(path, "a") as file:
            info = zipfile.ZipInfo(fields.pop("name", "casino/more.py"))
            for field, value in fields.items():
                setattr(info, field, value)
            file.writestr(info, "pass")
        return path

    return make


def _wheel(files=FILES, **options):
    return lambda folder: write_wheel(folder, files, **options)


def _named(name):
    return lambda folder: write_wheel(folder).rename(folder / name)


def _bytes(data, name="casino-1.0-py3-none-any.whl"):
    def make(folder):
        (folder / name).write_bytes(data)
        return folder / name

    return make


def _bomb(folder):
    return write_wheel(folder, {**FILES, "casino/zeros": bytes(65 << 20)}, RECORD=None)


def _encrypted(folder):
    path = write_wheel(folder)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\1\2")
    data[at + 8] |= 1
    path.write_bytes(data)
    return path


def _huge_directory(folder):
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 1 << 30, 0, 0)
    return _bytes(b"\0" * 1000 + end)(folder)


def _large_form(folder):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("a", "b")
    whole = data.getvalue()
    at = whole.index(b"PK\5\6")
    return _bytes(whole[:at] + b"PK\6\7" + b"\0" * 16 + whole[at:])(folder)


LINK = (stat.S_IFLNK | 0o777) << 16
SPEC = "[ridgeline.applications]\ndice = casino:dice.yaml\n"
REFUSED = {
    "no zip file": (_bytes(b"hello" * 10), "is no zip file"),
    "empty": (_bytes(b""), "is no zip file"),
    "no file": (lambda folder: folder / "none.whl", "cannot be read: No such file"),
    "a folder": (lambda folder: folder, "cannot be read: Is a directory"),
    "truncated": (lambda f: _bytes(write_wheel(f).read_bytes()[:-40])(f), "is no zip file"),
    "cut in the middle": (
        lambda f: _bytes((w := write_wheel(f).read_bytes())[:100] + w[300:])(f),
        "is damaged",
    ),
    "too large a directory": (_huge_directory, "has too many files"),
    "large form": (_large_form, "of the large form"),
    "outside": (_raw(name="../../evil.py"), "would lie outside of it: `../../evil.py`"),
    "absolute": (_raw(name="/etc/evil.py"), "with an absolute path"),
    "drive": (_raw(name="C:/evil.py"), "with an absolute path"),
    "backslash": (_raw(name="casino\\evil.py"), "with a malformed name"),
    "control character": (_raw(name="casino/\x1b[2J.py"), "with a malformed name"),
    "empty part": (_raw(name="casino//evil.py"), "with a malformed name"),
    "link": (_raw(name="casino/link.py", external_attr=LINK), "has a link or a device"),
    "device": (_raw(external_attr=(stat.S_IFCHR | 0o600) << 16), "has a link or a device"),
    "lzma": (_raw(compress_type=zipfile.ZIP_LZMA), "neither stored nor deflated"),
    "encrypted": (_encrypted, "has an encrypted file"),
    "not in the list": (_raw(), "`casino/more.py`, which its list of files (`RECORD`) has no digest of"),
    "file and folder": (_wheel({**FILES, "casino": "x"}), "has `casino` as a file and as a folder"),
    "bomb": (_bomb, "would be unpacked to"),
    "no list": (_wheel(RECORD=None), "has no list of its files"),
    "list without order": (_wheel(RECORD="casino"), "that cannot be read"),
    "other content": (
        _wheel(RECORD="casino/__init__.py,sha256=abc,0\n"),
        "has another `casino/__init__.py` than was built",
    ),
    "lacks a file": (
        lambda f: write_wheel(f, {**FILES}, RECORD=_more(f, "casino/gone.py,sha256=x,1")),
        "lacks `casino/gone.py`",
    ),
    "no metadata": (_wheel(METADATA=None), "has no `casino-1.0.dist-info/METADATA`"),
    "no folder of metadata": (
        lambda f: _zip(f, {"casino/app.py": APPLICATION}),
        "has no folder of metadata",
    ),
    "two folders of metadata": (
        _wheel({**FILES, "other-1.dist-info/METADATA": "Name: x"}),
        "has 2 folders of metadata",
    ),
    "no name": (_wheel(METADATA="Version: 1.0\n"), "metadata"),
    "no version": (_wheel(METADATA="Name: casino\n"), "metadata"),
    "bad version": (_wheel(METADATA="Name: casino\nVersion: one\n"), "metadata that cannot be read"),
    "bad requirement": (_wheel(metadata="Requires-Dist: ???\n"), "metadata that cannot be read"),
    "metadata in another code": (_wheel(METADATA=b"Name: \xff"), "that are no UTF-8"),
    "large metadata": (_wheel(metadata="X: " + "x" * (1 << 20)), "bytes in `casino-1.0.dist-info/METADATA`"),
    "another name": (_named("roulette-1.0-py3-none-any.whl"), "is casino 1.0 by its metadata"),
    "another version": (_named("casino-2.0-py3-none-any.whl"), "is casino 1.0 by its metadata"),
    "no wheel's name": (_named("casino.whl"), "has not the file name of a wheel"),
    "no WHEEL": (_wheel(WHEEL=None), "has no `casino-1.0.dist-info/WHEEL` of version 1"),
    "later WHEEL": (_wheel(WHEEL="Wheel-Version: 2.0\n"), "of version 1"),
    "foreign": (_wheel(entry_points=None), "has no entry point in the group `ridgeline.applications`"),
    "other entry points": (_wheel(entry_points="[console_scripts]\na = b:c\n"), "has no entry point"),
    "malformed entry": (
        _wheel(entry_points="[ridgeline.applications]\ndice = casino app\n"),
        "has an entry point `dice` with `casino app`",
    ),
    "entry of no module": (
        _wheel(entry_points="[ridgeline.applications]\ndice = roulette:app\n"),
        "has an entry point `dice` for `roulette`, which it has not",
    ),
    "entry of no file": (_wheel(entry_points=SPEC), "for `casino/dice.yaml`, which it has not"),
    "faulty specification": (
        _wheel({**FILES, "casino/dice.yaml": "a: [1"}, entry_points=SPEC),
        "has a specification that cannot be read, `casino/dice.yaml:",
    ),
    "configuration in code": (
        _wheel(
            entry_points="[ridgeline.applications]\na=casino.app:b\n[ridgeline.configurations]\nc=casino.app:d"
        ),
        "name a file: `package:FILE.yaml`",
    ),
    "entry points of no form": (_wheel(entry_points="dice"), "has no entry point"),
    "shadows ridgeline": (_wheel({**FILES, "ridgeline/x.py": ""}), "has a module `ridgeline`"),
    "shadows Python": (_wheel({**FILES, "json.py": ""}), "`json`, which is one of Python's own"),
    "shadows by an extension": (_wheel({**FILES, "ssl.abi3.so": ""}), "`ssl`, which is one of Python's own"),
    "data of the environment": (_wheel({**FILES, "casino-1.0.data/data/x": ""}), "of Python itself"),
    "two for one place": (
        _wheel({**FILES, "casino-1.0.data/purelib/casino/app.py": ""}),
        "has two files for one place",
    ),
}


def _zip(folder, files):
    path = folder / "plain.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return path


def _more(folder, row):
    with zipfile.ZipFile(write_wheel(folder)) as file:
        return file.read("casino-1.0.dist-info/RECORD").decode() + row + "\n"


@pytest.mark.parametrize("case", REFUSED)
def test_a_package_that_is_refused(case, tmp_path):
    make, expected = REFUSED[case]
    path = make(tmp_path)
    with pytest.raises(PackageError) as caught:
        open_package(path)
    text = str(caught.value)
    assert expected in text
    assert text.startswith(f"package `{path}` ")
    assert "; " in text
    assert text.isprintable()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice(tmp_path):
    with pytest.raises(PackageError, match=r"has the file `casino/app.py` twice"):
        open_package(_raw(name="casino/app.py")(tmp_path))


@given(st.data())
@settings(max_examples=deep(25))
def test_damage_is_found_or_changes_nothing(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    path = write_wheel(folder)
    whole, whole_bytes = open_package(path), path.read_bytes()
    damaged = bytearray(whole_bytes)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged[: data.draw(st.sampled_from([len(damaged), len(damaged) // 2, len(damaged)]))])
    try:
        found = open_package(path)
    except PackageError:
        return
    assert (found.applications, found.paths, found.requirements) == (
        whole.applications,
        whole.paths,
        whole.requirements,
    )


def test_what_does_not_fit_here_is_said_with_what_is_there(tmp_path):
    old = open_package(write_wheel(tmp_path, metadata="Requires-Python: <3\n"))
    with pytest.raises(
        PackageError, match=r"`casino` 1.0 does not fit here: it needs Python <3; here is Pyth"
    ):
        old.check_fit()
    other = open_package(write_wheel(tmp_path, tag="cp27-cp27m-win32"))
    with pytest.raises(PackageError, match=r"it is built for cp27-cp27m-win32; here is cp3"):
        other.check_fit()
    poor = open_package(
        write_wheel(
            tmp_path,
            metadata="Requires-Dist: numpy<1\nRequires-Dist: no-such-thing>=2 ; python_version > '3'\n"
            "Requires-Dist: left-out ; extra == 'more'\nRequires-Dist: never ; python_version < '3'\n",
        )
    )
    with pytest.raises(PackageError) as caught:
        poor.check_fit()
    assert "`numpy<1` (2." in str(caught.value)
    assert '`no-such-thing>=2; python_version > "3"` (not installed)' in str(caught.value)
    assert "run `pip install 'numpy<1' 'no-such-thing>=2'`" in str(caught.value)
    assert "left-out" not in str(caught.value)
    assert "never" not in str(caught.value)


def test_extras_of_entry_points_are_required(tmp_path):
    package = open_package(
        write_wheel(
            tmp_path,
            metadata="Provides-Extra: more\nRequires-Dist: no-such-thing ; extra == 'more'\n",
            entry_points="[ridgeline.applications]\ndice = casino.app:application [more]\n",
        )
    )
    with pytest.raises(PackageError, match="no-such-thing"):
        package.check_fit()


def test_a_module_that_is_loaded_from_elsewhere_is_refused(tmp_path):
    package = open_package(write_wheel(tmp_path, {**FILES, "pytest.py": ""}))
    with pytest.raises(PackageError, match=r"has a module `pytest`, which is loaded here already from `/"):
        package.check_fit()
