"""Mail on its way out, against servers that fail at every step."""
