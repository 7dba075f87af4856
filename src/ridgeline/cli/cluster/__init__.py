"""Drivers that run on a cluster: what travels there, how it is submitted, and how it starts there."""
