"""Who may do what with a running application: roles, what proves them, and the log of what was asked."""
