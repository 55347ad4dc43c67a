"""HTTP plumbing: connections, limits, authentication, decoding, pages, error responses."""
