"""Which protocol suits a link, a fleet and its data: from what was measured, and nothing else."""
