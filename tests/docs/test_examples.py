"""Public classes and functions have a runnable example in their docstrings; `--doctest-modules` runs them."""

import inspect

import pytest

import ridgeline.api
import ridgeline.connect
import ridgeline.operators
import ridgeline.testing

PACKAGES = [ridgeline.api, ridgeline.connect, ridgeline.operators, ridgeline.testing]
PUBLIC = {
    f"{package.__name__}.{name}": value
    for package in PACKAGES
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name)) or inspect.isfunction(value)
}

pytestmark = pytest.mark.lint


@pytest.mark.guide("004", "Examples")
def test_all_have_an_example():
    without = [name for name, value in PUBLIC.items() if ">>> " not in (value.__doc__ or "")]
    assert not without, "add one under `Example:` to the docstring"
