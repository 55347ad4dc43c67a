"""The promises of Oncebox, each held by a test."""

import os

# Nobody takes a service of ours out of a load balancer.
os.environ.setdefault("ONCEBOX_HTTP__DRAIN", "0")
