"""Packages: wheels whose entry points are applications. Reading one runs no code of it."""
