"""The only room with database drivers: one contract, SQLite and PostgreSQL behind it."""
