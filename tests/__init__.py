"""The promises of Oncebox, each held by a test."""

import os

# Nobody takes a service of ours out of a load balancer.
os.environ.setdefault("ONCEBOX_HTTP__DRAIN", "0")
# A busy machine is no database that hangs.
os.environ.setdefault("ONCEBOX_DATABASE_WITHIN", "60")
