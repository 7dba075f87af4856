"""Changes of a plan: edits, what they make of it, what follows for states."""
