"""The master: plain events in, instructions out."""
