"""Settings of all tests."""

import signal
import sys
from pathlib import Path

import matplotlib
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
matplotlib.use("Agg")
# A shell's job in the background is born deaf to Ctrl-C, and so would be what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("shared-machine", deadline=None, print_blob=True)
settings.load_profile("shared-machine")
