"""Settings of all tests."""

import sys
from pathlib import Path

import matplotlib
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
matplotlib.use("Agg")
settings.register_profile("shared-machine", deadline=None, print_blob=True)
settings.load_profile("shared-machine")
