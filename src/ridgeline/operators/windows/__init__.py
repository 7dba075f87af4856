"""How `Windowed` puts records into windows: a file for each kind of windows."""
