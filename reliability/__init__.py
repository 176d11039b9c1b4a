"""Checks that are too long for ``make test``: kills, faults, hostile input, an hour of load."""
