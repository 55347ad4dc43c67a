"""Mail under torture: receivers killed at every point, and readers cut off in the middle."""
