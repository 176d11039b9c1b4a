"""Mix2FLD as a Flower baseline."""
