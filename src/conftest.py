"""For doctests of a single file, which pytest imports by its path."""

import importlib

importlib.import_module("ridgeline.testing")  # by name first: otherwise the file's classes would exist twice
