"""The servers that users get for their tests."""
