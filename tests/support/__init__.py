"""What the tests stand on: real servers, and nothing that pretends."""
