"""What attempts do: whose they are, their actions, and how often their mail is asked for again."""
