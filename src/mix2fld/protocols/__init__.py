"""The protocols: one file for each family, with both its halves, and one table of all."""
