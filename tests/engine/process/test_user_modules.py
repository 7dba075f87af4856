"""Which modules travel to the workers: what the application's files can reach by import statements."""

import ast
import gc
import sys
import threading

import pytest

from ridgeline.engine.process.user_modules import imported_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a, b.c as d", {"a", "b.c"}),
        ("def f():\n    from x import y, z", {"x", "x.y", "x.z"}),
        (
            "if 0:\n    from . import near\n    from .sub import thing\n    from ..up import it",
            {"p.q", "p.q.near", "p.q.sub", "p.q.sub.thing", "p.up", "p.up.it"},
        ),
        (
            "import importlib\nimportlib.import_module('late')\n__import__('later')",
            {"importlib", "late", "later"},
        ),
        ("from x import *", {"x"}),
        ("def broken(:", set()),
        ("from ........ import far", set()),
    ],
)
def test_names_in_import_statements(text, names):
    assert imported_names(text, "p.q") == names


def test_a_file_is_parsed_while_another_thread_parses():
    """Python 3.11 counts the depth of trees for all threads, and raises SystemError where it differs."""
    beside = []

    def parse_beside(_phase, _info):
        if not beside and sys._getframe(1).f_code is ast.parse.__code__:
            beside.append(threading.Thread(target=ast.parse, args=("a = [b + c]",)))
            beside[0].start()
            beside[0].join()

    text = "\n".join(f"import module_{number}" for number in range(300))
    before = gc.get_threshold()
    gc.callbacks.append(parse_beside)
    gc.set_threshold(200)
    try:
        assert len(imported_names(text, "")) == 300
    finally:
        gc.callbacks.remove(parse_beside)
        gc.set_threshold(*before)
    assert beside
