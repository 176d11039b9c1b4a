"""Every setting of a run, and presets of links."""
