"""Workers that read mailboxes on other servers."""
