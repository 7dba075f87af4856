"""What tests of this folder leave out."""

collect_ignore = ["shop", "fraud"]
"""A package: who looks for its doctests imports it, and a module that is loaded already is refused.

The modules of `fraud` find each other when they run in their folder only.
"""
