"""How far a window and a source are, and whether the application keeps up."""
