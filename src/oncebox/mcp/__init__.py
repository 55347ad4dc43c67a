"""The agent's tools over MCP: typed answers, and each effect once, through the client."""
