"""Airflow plugin of `make ui`: requests whose Host header names no loopback address are refused (400).

A page in the operator's browser whose name was bound to 127.0.0.1 would otherwise reach the server as if it were its own origin.
"""

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin
from starlette.middleware.trustedhost import TrustedHostMiddleware

LOOPBACK = ["127.0.0.1", "localhost"]


class LoopbackHosts(AirflowPlugin):
    """Checks the Host header of every request to the API server."""

    name = "runcast_loopback_hosts"
    fastapi_root_middlewares: ClassVar = [
        {"name": name, "middleware": TrustedHostMiddleware, "kwargs": {"allowed_hosts": LOOPBACK, "www_redirect": False}}
    ]
