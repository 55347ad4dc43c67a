"""Network servers: the HTTP API, webhooks, the Resend-compatible endpoint, and SMTP."""
