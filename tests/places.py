"""Where tests find what the repository holds."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
