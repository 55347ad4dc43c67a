"""The promises of Oncebox, each held by a test."""
