"""Deployments on one machine, with real processes; and what a stranger could do to one."""
