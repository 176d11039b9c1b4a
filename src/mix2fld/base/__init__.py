"""Errors, streams of randomness, files, state trees: what is not about the field."""
