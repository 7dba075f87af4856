"""What tests of this folder leave out."""

collect_ignore = ["shop", "fraud/train.py"]
"""A package: who looks for its doctests imports it, and a module that is loaded already is refused.

The script that trains a model is no test, and slow to import.
"""
