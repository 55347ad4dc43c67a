"""One-time codes: found in a mail by their shape, position and the words around them."""
