"""Applications of a shop."""
