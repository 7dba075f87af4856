"""Files of the user's with names that others have: they run, or the error says which file to rename."""

import sys

import pytest

from ridgeline.cli.errors import CommandError
from ridgeline.cli.load import load_application

_CLASSES = """
from ridgeline import InputOperator, OutputPort
from ridgeline.operators import ConsoleOutput
class Numbers(InputOperator):
    output = OutputPort(object)
    def emit_tuples(self):
        self.finish()
def application():
    made = Application("numbers")
    numbers = made.add_operator("numbers", Numbers())
    console = made.add_operator("console", ConsoleOutput())
    made.add_stream("numbers", numbers.output, console.input)
    return made
"""


def refused(target):
    with pytest.raises(CommandError) as caught:
        load_application(target)
    return str(caught.value)


@pytest.mark.parametrize("package", ["pyspark", "py4j", "duckdb"])
@pytest.mark.parametrize("made", ["{}.py", "{}/__init__.py"])
def test_what_hides_a_package_that_is_needed_is_named(write_app, monkeypatch, tmp_path, package, made):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    (write_app if made.endswith("}.py") else lambda name, text: None)(made.format(package), 'app = APP("a")')
    (tmp_path / made.format(package)).parent.mkdir(exist_ok=True)
    (tmp_path / made.format(package)).touch()
    file = made.format(package).removesuffix("/__init__.py")
    expected = f"`{tmp_path / file}` hides the package `{package}`, which Ridgeline needs; rename it"
    assert refused(write_app("beside.py", 'app = APP("a")')) == expected
    assert str(tmp_path) not in sys.path


def test_a_specification_in_another_folder_says_where_its_classes_are(ridgeline_command, write_app, tmp_path):
    write_app("profile.py", _CLASSES)
    (tmp_path / "out").mkdir()
    written = ridgeline_command("plan", "profile.py", "--spec", "out/app.yaml")
    assert written.exit_code == 0
    assert written.stderr == (
        f"its classes are in `{tmp_path}`: to read it, put it there, or that on PYTHONPATH\n"
    )
    del sys.modules["ridgeline_app_profile"]
    sys.path.remove(str(tmp_path))
    read = ridgeline_command("validate", "out/app.yaml")
    assert read.exit_code == 2
    assert "there is no file `profile.py`, which `ridgeline_app_profile.Numbers` names" in read.stderr


@pytest.mark.parametrize("text", ["from calendar import shop_days", "import calendar\ncalendar.shop_days()"])
def test_a_neighbour_named_like_a_module_of_pythons(write_app, tmp_path, text):
    (tmp_path / "calendar.py").write_text("def shop_days(): pass")
    said = f"`{tmp_path / 'calendar.py'}` has the name of `calendar`, which is imported in its place; rename"
    assert said in refused(write_app("uses.py", text))


@pytest.mark.parametrize(
    ("file", "text", "remedy"),
    [
        ("shop/app.py", "from .parts import app", ": `ridgeline run shop.app:app`"),
        ("shop/app.py", "from .p import application", ": `ridgeline run shop.app:application`"),
        ("shop/deep/app.py", "from ..parts import app", ": `ridgeline run shop.deep.app:app`"),
        ("space/app.py", "from .parts import app", ": `ridgeline run space.app:app`"),
    ],
)  # fmt: skip
def test_relative_imports_of_an_application_file(write_app, tmp_path, file, text, remedy):
    for package in ("shop", "shop/deep"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    write_app(file, text)
    assert refused(file).endswith(f"name it as a module of its package{remedy}")


def test_relative_imports_from_elsewhere(write_app, tmp_path, monkeypatch):
    (tmp_path / "else").mkdir()
    write_app("project/shop/app.py", "from .parts import app")
    monkeypatch.chdir(tmp_path / "else")
    assert refused("../project/shop/app.py").endswith(
        f"name it as a module of its package in `{tmp_path / 'project'}`: `ridgeline run shop.app:app`"
    )
