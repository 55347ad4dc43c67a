"""Background workers: deliveries, mail, sends, maintenance, and the processes they run in."""
