"""Public classes and functions have a runnable example in their docstrings; `--doctest-modules` runs them."""

import inspect

import pytest

import ridgeline.api
import ridgeline.connect
import ridgeline.operators
import ridgeline.testing

PACKAGES = [ridgeline.api, ridgeline.connect, ridgeline.operators, ridgeline.testing]
PUBLIC = [
    pytest.param(value, id=f"{package.__name__}.{name}")
    for package in PACKAGES
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name)) or inspect.isfunction(value)
]


@pytest.mark.guide("004", "Examples")
@pytest.mark.parametrize("value", PUBLIC)
def test_it_has_an_example(value):
    text = value.__doc__ or ""
    assert ">>> " in text, f"`{value.__name__}` has no example; add one under `Example:` to its docstring"
