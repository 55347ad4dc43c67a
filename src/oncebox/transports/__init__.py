"""Mail transports: SMTP, Resend and log. Each hands a mail over once and returns an outcome."""
