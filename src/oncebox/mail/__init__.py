"""How mail is read: pure functions over bytes that never raise, whatever the bytes are."""
