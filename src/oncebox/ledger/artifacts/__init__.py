"""Artifacts: codes and links found in mail, filed once and granted to one claim."""
