"""Every example, run as its first lines say, against a real service."""
