"""The checkpoint, on the driver: its journal, what it keeps, repairs and compacts."""
