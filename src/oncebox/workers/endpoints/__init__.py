"""Workers that deliver events to endpoints."""
