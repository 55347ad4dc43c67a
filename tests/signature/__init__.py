"""Signatures: every scheme, against vectors, against the providers' own packages, and hostile."""
