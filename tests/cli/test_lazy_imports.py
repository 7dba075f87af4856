"""Modules that operators import only when they run travel with the application, wherever the command runs."""

import pytest

from support.paths import SUPPORT

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
    process = ridgeline_process("run", home / "app.py", "--master", "local[2]", "--quiet", "--no-service")
    stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, ""), stdout
    written = [int(line) for line in (tmp_path / "out").read_text().split()]
    assert written == [100 * value for value in range(10)]


@pytest.mark.spark
@pytest.mark.slow
def test_a_module_that_is_nowhere_has_a_remedy(ridgeline_process, tmp_path):
    (tmp_path / "tiny_numbers.py").write_text(TINY.read_text())
    (tmp_path / "app.py").write_text(LAZY.replace("PATH", "'out'"))
    process = ridgeline_process("run", "app.py", "--master", "local[2]", "--quiet", "--no-service")
    _, stderr = process.communicate()
    assert process.returncode == 3
    assert "ModuleNotFoundError: No module named 'rates'; install the package that has `rates`" in stderr
    assert "spark.submit.pyFiles" in stderr
