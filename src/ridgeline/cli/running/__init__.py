"""`ridgeline run`: what is shown while an application runs, and at its end."""
