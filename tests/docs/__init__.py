"""The written pages, held against the code."""
