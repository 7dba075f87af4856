"""`ridgeline init`: a project that runs at once, from a template."""
