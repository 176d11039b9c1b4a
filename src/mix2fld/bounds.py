"""Numbers that settings and payloads are both held to."""

LEAST_UPDATE_BITS = 20
"""The smallest upload of an update: a norm, and one coordinate of many with its sign."""
