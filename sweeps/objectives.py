"""What a frontier, and a search for it, look for unless told otherwise."""

MAXIMISE = ("goodput_requests_per_s",)
MINIMISE = ("slowdown_p99",)
