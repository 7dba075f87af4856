"""Runs that are read from what they have left: their figures, and the page over them."""
