"""Database access: one contract, implemented for SQLite and PostgreSQL."""
