"""The office: what operators do, and the record of it."""
