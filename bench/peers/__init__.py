"""What Oncebox is measured against, one program each, run in an environment of its own."""
