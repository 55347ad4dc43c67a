"""Readers of mailboxes on other servers: IMAP, JMAP, Gmail, Microsoft Graph, inbox APIs.

A reader returns pages of mail and a cursor, and knows no ledger. Nothing is deleted or marked as
read on the server.
"""
