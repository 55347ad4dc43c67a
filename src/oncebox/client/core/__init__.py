"""Sans-IO core of the client: API calls as data, plans as generators, retries, HTTP settings."""
