"""One container: its operators, window by window, in topological order."""
