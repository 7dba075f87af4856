"""Inputs of what can be read once only: iterators, standard input, sockets. The checkpoint stages it."""
