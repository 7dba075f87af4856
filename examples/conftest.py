"""What tests of this folder leave out."""

collect_ignore = ["shop"]
"""A package: who looks for its doctests imports it, and a module that is loaded already is refused."""
