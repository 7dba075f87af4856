"""Checks of an application: each finds the faults of one subject."""
