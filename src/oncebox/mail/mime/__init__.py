"""MIME as it is received: header fields, addresses, charsets, parts and attachments."""
