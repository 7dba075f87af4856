"""Plans for people: text, JSON, notes."""
