"""Lets the tests import the harness, which also runs by itself (`make crash`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
