"""How mail is read: attacks, charsets, addresses, visible text, and what others read."""
