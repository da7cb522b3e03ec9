"""The only code that imports mlflow; importing this package first switches the library's telemetry off."""

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read by the library when it is imported: must stand before that
