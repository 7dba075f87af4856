"""scripts/check_rooms.py finds what breaks a limit of the house, and the house breaks none."""

import ast

import grimp
import pytest

from support import scripts


@pytest.fixture(scope="module")
def script():
    return scripts.script("check_rooms")


@pytest.fixture
def house(script, tmp_path, monkeypatch):
    """`house(path, text)` writes a file of an empty house."""
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "HOUSE", tmp_path / "src" / "ridgeline")

    def write(path, text=""):
        file = tmp_path / "src" / "ridgeline" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write


def test_a_folder_has_at_most_22_files_but_for_operators(script, house):
    for number in range(23):
        house(f"operators/one_{number}.py")
        house(f"engine/one_{number}.py")
    assert list(script.full_folders()) == [
        "src/ridgeline/engine: 23 files, at most 22; make rooms by subject"
    ]


def test_attributes_are_what_methods_set_on_self(script):
    (node,) = ast.parse(
        "class A:\n"
        "    kind = 1\n"
        "    def a(self):\n"
        "        self.one = self.two = self.three.four\n"
        "        self.five, (self.six, other.seven) = 1, (2, 3)\n"
        "        self.eight: int = 1\n"
        "        self.nine += 1\n"
        "        self.ten[1] = 2\n"
    ).body
    assert script.attributes_of(node) == {"one", "two", "five", "six", "eight", "nine"}


def test_circles_of_imports_are_found(script):
    graph = grimp.ImportGraph()
    for one, other in ["ab", "bc", "ca", "cd", "ef", "fe"]:
        graph.add_import(importer=one, imported=other)
    assert script.knots(graph) == [["a", "b", "c"], ["e", "f"]]
