"""The edges: real sockets, real requests."""
