"""Helpers of the API that no author imports."""
