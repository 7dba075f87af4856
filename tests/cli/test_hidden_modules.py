"""Files of the user's with names that others have: they run, or the error says which file to rename."""

import sys

import pytest

from ridgeline.cli.errors import CommandError
from ridgeline.cli.load import load_application
from support.paths import SUPPORT

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


def test_relative_imports_of_an_application_file(write_app, tmp_path):
    (tmp_path / "shop").mkdir()
    write_app("shop/app.py", "from .parts import app")
    assert refused("shop/app.py").endswith(
        "name it as a module of its package: `ridgeline run package.module:app`"
    )


# Modules that operators import only when they run travel with the application, wherever the -----------------


TINY = SUPPORT / "cli" / "tiny.py"

LAZY = """
from typing import NamedTuple

from ridgeline import Application, InputPort, Operator
from tiny_numbers import Numbers, Number


class Store(Operator):
    numbers = InputPort(Number)
    path: str

    def setup(self, context):
        import rates
        from tools import shapes
        self.scale = rates.RATE * shapes.factor()

    @numbers.process
    def take(self, number: Number) -> None:
        from tools.deep.inner import note
        note(self.path, number.value * self.scale)


app = Application("lazy", window=0)
numbers = app.add_operator("numbers", Numbers(count=10))
store = app.add_operator("store", Store(path=PATH), recovery_attempts=0)
app.add_stream("numbers", numbers.output, store.numbers)
"""


@pytest.mark.spark
@pytest.mark.slow
def test_modules_imported_in_setup_come_from_the_applications_folder(ridgeline_process, tmp_path):
    home = tmp_path / "project"
    (home / "tools" / "deep").mkdir(parents=True)
    (home / "app.py").write_text(LAZY.replace("PATH", repr(str(tmp_path / "out"))))
    (home / "tiny_numbers.py").write_text(TINY.read_text())
    (home / "rates.py").write_text("from bases import BASE\nRATE = BASE * 2\n")
    (home / "bases.py").write_text("BASE = 5\n")
    (home / "tools" / "__init__.py").write_text("")
    (home / "tools" / "shapes.py").write_text(
        "def factor():\n    from . import sizes\n    return sizes.SIZE\n"
    )
    (home / "tools" / "sizes.py").write_text("SIZE = 10\n")
    (home / "tools" / "deep" / "inner.py").write_text(
        "def note(path, value):\n    with open(path, 'a') as file:\n        file.write(f'{value}\\n')\n"
    )
    process = ridgeline_process("run", home / "app.py", "--master", "local[2]", "--quiet")
    stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, ""), stdout
    written = [int(line) for line in (tmp_path / "out").read_text().split()]
    assert written == [100 * value for value in range(10)]


@pytest.mark.spark
@pytest.mark.slow
def test_a_module_that_is_nowhere_has_a_remedy(ridgeline_process, tmp_path):
    (tmp_path / "tiny_numbers.py").write_text(TINY.read_text())
    (tmp_path / "app.py").write_text(LAZY.replace("PATH", "'out'"))
    process = ridgeline_process("run", "app.py", "--master", "local[2]", "--quiet")
    _, stderr = process.communicate()
    assert process.returncode == 3
    assert "ModuleNotFoundError: No module named 'rates'; install the package that has `rates`" in stderr
    assert "spark.submit.pyFiles" in stderr
