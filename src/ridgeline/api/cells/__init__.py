"""Cells: what declared state is for one operator instance."""
