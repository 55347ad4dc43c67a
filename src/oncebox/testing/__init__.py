"""What tests need: servers that fail as told, and list what they really took."""
