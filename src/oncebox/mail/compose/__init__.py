"""Composing mail: templates, the bytes that are sent, replies, media types."""
