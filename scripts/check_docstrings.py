"""Every function of `src` of 12 lines and more has a docstring, private ones too: for `make lint`.

The lines of a function are those from its `def` to its end, without decorators. Functions within functions
are part of what surrounds them. What overrides or stands behind a decorator such as `overload` counts too.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

LINES = 12
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    """The functions and methods of a module, without those within functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield node
        else:
            yield from functions(node)


def is_bare(function: Function) -> bool:
    """True for a function that is long and has no docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines >= LINES and function.name != "__init__" and ast.get_docstring(function) is None


def main() -> int:
    """Print the functions that lack a docstring; 1 if there is one."""
    bare = [
        f"{path}:{function.lineno}: `{function.name}`"
        for path in sorted(Path("src").rglob("*.py"))
        for function in functions(ast.parse(path.read_text()))
        if is_bare(function)
    ]
    for line in bare:
        print(f"{line} has {LINES} lines or more and no docstring; say what it changes and who calls it")
    return 1 if bare else 0


if __name__ == "__main__":
    sys.exit(main())
