"""Modules: expanded before all else, folded to be shown."""
