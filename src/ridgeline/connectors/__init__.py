"""Connectors to outside systems, each in a room of its own; `ridgeline.operators` knows none of them."""
