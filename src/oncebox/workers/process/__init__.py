"""Worker processes: the supervisor, and what stops or limits a child."""
