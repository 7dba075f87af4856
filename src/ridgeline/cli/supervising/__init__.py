"""Supervised drivers: what starts them again, and what they say to it."""
