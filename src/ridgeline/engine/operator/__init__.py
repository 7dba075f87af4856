"""One operator in a container: its callbacks, window by window."""
