"""Inboxes: addresses, policies, received mail, messages, and the codes and links in them."""
