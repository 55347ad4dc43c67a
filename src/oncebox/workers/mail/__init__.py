"""Mail workers: parse received mail in child processes, authenticate senders, file messages."""
