"""The nouns: frozen values, states and rules; no I/O, no clock."""
