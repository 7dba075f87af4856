"""The list of applications: one page with the sentence of each, of this machine and of others."""
