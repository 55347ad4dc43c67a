"""MCP tools for agents: typed answers, each effect once; they call the API through the client."""
