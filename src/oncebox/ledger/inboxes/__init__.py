"""What is known of domains, inboxes and the mail in them."""
