"""AdmissionReview JSON as the Kubernetes manual shows it, and what is answered for it."""

import copy
from typing import Any

NOW_S = 1796009438.0

#: The manual's example of a request ("Dynamic Admission Control", Webhook request and response): an update of a scale.
SCALE: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "subResource": "scale",
        "requestKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "requestResource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "requestSubResource": "scale",
        "name": "my-deployment",
        "namespace": "my-namespace",
        "operation": "UPDATE",
        "userInfo": {
            "username": "admin",
            "uid": "014fbff9a07c",
            "groups": ["system:authenticated", "my-admin-group"],
            "extra": {"some-key": ["some-value1", "some-value2"]},
        },
        "object": {"apiVersion": "autoscaling/v1", "kind": "Scale"},
        "oldObject": {"apiVersion": "autoscaling/v1", "kind": "Scale"},
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions"},
        "dryRun": False,
    },
}

POD: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "vision",
        "operation": "CREATE",
        "userInfo": {"username": "ada", "uid": "7", "groups": ["system:authenticated"]},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "train-", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}},
            "spec": {
                "priorityClassName": "high",
                "activeDeadlineSeconds": 7200,
                "initContainers": [{"name": "fetch", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}],
                "containers": [
                    {
                        "name": "main",
                        "resources": {
                            "requests": {"cpu": "1500m", "memory": "4Gi"},
                            "limits": {"memory": "8Gi", "nvidia.com/gpu": "2"},
                        },
                    },
                    {"name": "side", "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}}},
                ],
            },
        },
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    },
}


def with_(review: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the review with one place changed; a value of None takes it out."""
    changed = copy.deepcopy(review)
    *steps, last = path.split("/")
    place: Any = changed
    for step in steps:
        place = place[step]
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value
    return changed


ANNOTATIONS = {
    "runcast.io/p50-seconds": "90",
    "runcast.io/p90-seconds": "401",
    "runcast.io/confidence": "0.75",
    "runcast.io/source": "nearest_median",
    "runcast.io/model-version": "demo/7",
}
