"""What a scheduler host loads with the state: numpy and the standard library, nothing else."""

import subprocess
import sys

MODULES = ("state", "catalog", "encoder", "matrix", "levels", "slots", "one_job", "history", "errors")
HEAVY = ("pandas", "pyarrow", "scipy", "sklearn", "lightgbm", "pydantic", "yaml")


def test_the_numpy_level_loads_no_heavy_package() -> None:
    code = f"import sys; sys.path.insert(0, 'src'); import {', '.join(f'runcast.features.{name}' for name in MODULES)}; "
    code += f"print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
