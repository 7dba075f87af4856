"""Files of state: how they are written, found, checked and compacted."""
