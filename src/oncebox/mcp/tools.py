"""All tools, in the order in which an agent needs them."""

from oncebox.mcp import actions, deliveries, inboxes, sends
from oncebox.mcp.tool import Tool

TOOLS: tuple[Tool, ...] = (*inboxes.TOOLS, *actions.TOOLS, *sends.TOOLS, *deliveries.TOOLS)
