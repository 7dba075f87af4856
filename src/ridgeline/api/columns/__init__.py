"""Schemas and columns: tuples as Arrow data and back."""
