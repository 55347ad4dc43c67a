"""Sender authentication: SPF, DKIM, DMARC, and what a verdict covers."""
