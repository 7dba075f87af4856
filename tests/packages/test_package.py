"""What a package says of itself, and which packages are refused."""

import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.api.errors import PackageError
from ridgeline.packages.package import open_package, unpack
from support.depth import deep
from support.packages.wheels import APPLICATION, FILES, build_shop, write_wheel


@pytest.mark.guide("002", "Creating New Project")
def test_a_wheel_of_the_example(tmp_path):
    package = open_package(build_shop(tmp_path))
    assert (package.name, package.version, package.summary) == ("shop", "1.2", "Turnover of a shop in euros")
    assert {name: (one.object, one.file) for name, one in package.applications.items()} == {
        "turnover": ("application", None),
        "orders": ("orders.yaml", "shop/orders.yaml"),
    }
    assert package.configuration_sets() == ["shop/defaults.yaml"]
    assert package.configuration_sets("production") == ["shop/defaults.yaml", "shop/production.yaml"]
    package.check_fit()
    assert all(need.met for need in package.needs())


def test_a_zip_file_with_the_content_of_a_wheel_needs_no_list_and_no_name(tmp_path):
    path = write_wheel(tmp_path, suffix="zip", RECORD=None, WHEEL=None)
    package = open_package(path.rename(tmp_path / "any.zip"))
    assert (package.application().name, package.tags) == ("dice", None)


def test_modules_in_a_data_folder_are_found_and_scripts_left_out(tmp_path):
    files = {"casino-1.0.data/purelib/casino/app.py": APPLICATION, "casino-1.0.data/scripts/roll": "#!python"}
    path = write_wheel(tmp_path, files)
    package = open_package(path)
    unpack(path, package.sha256, tmp_path / "files")
    assert package.modules == {"casino"}
    assert {one.name for one in (tmp_path / "files").iterdir()} == {"casino", "casino-1.0.dist-info"}


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


def _encrypted(folder):
    path = write_wheel(folder)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\1\2")
    data[at + 8] |= 1
    path.write_bytes(data)
    return path


SPEC = "[ridgeline.applications]\ndice = casino:dice.yaml\n"
REFUSED = {
    "no zip file": (_bytes(b"hello" * 10), "is no zip file"),
    "empty": (_bytes(b""), "is no zip file"),
    "no file": (lambda folder: folder / "none.whl", "cannot be read: No such file"),
    "a folder": (lambda folder: folder, "cannot be read: Is a directory"),
    "truncated": (lambda f: _bytes(write_wheel(f).read_bytes()[:-40])(f), "is no zip file"),
    "cut in the middle": (
        lambda f: _bytes((w := write_wheel(f).read_bytes())[:100] + w[300:])(f),
        "damaged",
    ),
    "encrypted": (_encrypted, "is damaged"),
    "outside": (_raw(name="../../evil.py"), "would lie outside of it: `../../evil.py`"),
    "absolute": (_raw(name="/etc/evil.py"), "would lie outside of it: `/etc/evil.py`"),
    "no metadata": (_wheel(METADATA=None), "has metadata"),
    "two folders of metadata": (
        _wheel({**FILES, "other-1.dist-info/METADATA": "Name: x"}),
        "has 2 folders of metadata",
    ),
    "no name": (_wheel(METADATA="Version: 1.0\n"), "metadata"),
    "no version": (_wheel(METADATA="Name: casino\n"), "metadata"),
    "bad version": (_wheel(METADATA="Name: casino\nVersion: one\n"), "metadata that cannot be read"),
    "bad requirement": (_wheel(metadata="Requires-Dist: ???\n"), "metadata that cannot be read"),
    "metadata in another code": (_wheel(METADATA=b"Name: \xff"), "metadata that cannot be read"),
    "large metadata": (_wheel(metadata="X: " + "x" * (1 << 20)), "bytes in `casino-1.0.dist-info/METADATA`"),
    "no wheel's name": (_named("casino.whl"), "has not the file name of a wheel"),
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
    "configuration in code": (
        _wheel(
            entry_points="[ridgeline.applications]\na=casino.app:b\n[ridgeline.configurations]\nc=casino.app:d"
        ),
        "name a file: `package:FILE.yaml`",
    ),
    "entry points of no form": (_wheel(entry_points="dice"), "has entry points that cannot be read"),
    "shadows ridgeline": (_wheel({**FILES, "ridgeline/x.py": ""}), "has a module `ridgeline`"),
    "shadows Python": (_wheel({**FILES, "json.py": ""}), "`json`, which is one of Python's own"),
    "shadows by an extension": (_wheel({**FILES, "ssl.abi3.so": ""}), "`ssl`, which is one of Python's own"),
    "data of the environment": (_wheel({**FILES, "casino-1.0.data/data/x": ""}), "of Python itself"),
    "two for one place": (
        _wheel({**FILES, "casino-1.0.data/purelib/casino/app.py": ""}),
        "has two files for `casino/app.py`",
    ),
}


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
    with pytest.raises(PackageError, match=r"has two files for `casino/app.py`"):
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
    assert (found.applications, found.modules) == (whole.applications, whole.modules)


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
