"""What the rest of the API needs and no author imports."""
