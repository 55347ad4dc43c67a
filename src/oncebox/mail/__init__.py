"""Mail: reading, authenticating and writing it; pure functions over bytes."""
