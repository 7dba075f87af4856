"""Inputs of files: which ones there are, which were read, and how each is read."""
