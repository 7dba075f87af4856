"""Figures in words: numbers with their units, and the sentence that says how an application does."""
