"""The modules beside the tests are imported by their own names, and the answering service from those of Slurm."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "slurm")]
