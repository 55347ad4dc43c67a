"""What both databases must keep: every promise, tested on each of them."""
