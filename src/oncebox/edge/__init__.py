"""Where things come in, and the limits that hold for all of them."""
