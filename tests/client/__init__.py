"""The client's rooms."""
