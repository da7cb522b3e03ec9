"""The only code that imports mlflow; importing this package first switches the library's telemetry off, and bounds its tries.

A server that fails in the middle of a night is tried three times again, for a quarter of a minute, and not seven times, for four:
Airflow tries a night again, and the next night logs what this one could not.
"""

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read by the library when it is imported: must stand before that
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
