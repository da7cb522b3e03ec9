"""What a pod asks for: hand computations from the rules and examples of Kubernetes' manual and of vendors' device plugins."""

from typing import Any

import pytest

from runcast.data.pod_resources import PodRequest, pod_request, pods_at_once, quantity

GIB = 1024.0


def container(limits: dict[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, **({"limits": limits} if limits else {})}}


def sidecar(**requests: Any) -> dict[str, Any]:
    return {**container(**requests), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.5", 0.5), ("500m", 0.5), ("1e3", 1000.0), ("129e6", 129e6), ("129M", 129e6), ("123Mi", 128974848.0),
        ("128974848000m", 128974848.0), ("1.5Ti", 1.5 * 2**40), (2, 2.0), ("+1", 1.0), (".5", 0.5), ("1E", 1e18), ("1E2", 100.0),
    ],
)  # fmt: skip
def test_a_quantity_is_read_as_the_manual_says(text: Any, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "one", "-1", "1 Gi", "1gi", "\u00b2", "\u0661", "1e999", None, True, "1e", {}])
def test_what_is_no_quantity_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"expected a quantity|beyond any quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("spec", "cpu_count", "mem_mib"),
    [
        pytest.param({"containers": [{"name": "c"}]}, None, None, id="nothing"),
        pytest.param({"containers": [container(cpu="1"), container({"cpu": "500m", "memory": "1Gi"})]}, 1.5, GIB, id="limit_is_request"),
        pytest.param({"containers": [container({"cpu": "4"}, cpu="1")]}, 1.0, None, id="request_before_limit"),
        # "Init Containers": the larger of the sum of the app containers and of the largest init container.
        pytest.param({"initContainers": [container(cpu="2"), container(cpu="3")], "containers": [container(cpu="1")] * 2}, 3.0, None,
                     id="largest_init_container"),
        # "Sidecar Containers": they count beside the app containers.
        pytest.param({"initContainers": [sidecar(cpu="500m", memory="512Mi")], "containers": [container(cpu="1", memory="1Gi")]},
                     1.5, 1536.0, id="sidecar"),
        # An init container runs beside the sidecars before it (2 + 1), not beside those after it (0.5).
        pytest.param({"initContainers": [sidecar(cpu="1"), container(cpu="2"), sidecar(cpu="500m")], "containers": [container(cpu="1")]},
                     3.0, None, id="init_container_beside_the_sidecars_before_it"),
        pytest.param({"initContainers": [container(cpu="2"), sidecar(cpu="1.5")], "containers": [container(cpu="1")]}, 2.5, None,
                     id="init_container_before_the_sidecar"),
        pytest.param({"overhead": {"cpu": "250m", "memory": "120Mi"}, "containers": [container(cpu="1")]}, 1.25, 120.0, id="overhead"),
        # "Assign Pod-level CPU and memory resources": what the pod says stands for all its containers.
        pytest.param({"resources": {"requests": {"cpu": "4", "memory": "8Gi"}}, "containers": [{"name": "c"}]}, 4.0, 8 * GIB,
                     id="pod_level"),
        pytest.param({"resources": {"requests": {"cpu": "4"}}, "containers": [container(cpu="1", memory="1Gi")]}, 4.0, GIB,
                     id="pod_level_cpu_only"),
        pytest.param({"resources": {"limits": {"cpu": "4", "memory": "8Gi"}}, "containers": [container(cpu="1")]}, 1.0, 8 * GIB,
                     id="pod_level_limit_where_no_container_asks"),
        pytest.param({"resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m"}, "containers": []}, 4.25, None,
                     id="pod_level_and_overhead"),
    ],
)  # fmt: skip
def test_cpus_and_memory_are_the_effective_request(spec: dict[str, Any], cpu_count: float | None, mem_mib: float | None) -> None:
    request = pod_request(spec)
    assert (request.cpu_count, request.mem_mib) == (cpu_count, mem_mib)


@pytest.mark.parametrize(
    ("resources", "gpu_count", "gpu_model"),
    [
        ({}, 0.0, None),
        ({"cpu": "8", "memory": "1Gi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}, 0.0, None),
        ({"nvidia.com/gpu": "2"}, 2.0, None),
        ({"amd.com/gpu": 1}, 1.0, None),
        ({"nvidia.com/mig-1g.5gb": "1"}, 1 / 7, "1g.5gb"),
        ({"nvidia.com/mig-3g.20gb": "2"}, 6 / 7, "3g.20gb"),
        ({"nvidia.com/mig-7g.80gb": "1"}, 1.0, "7g.80gb"),
        ({"nvidia.com/mig-1g.10gb.me": "1"}, 1 / 7, "1g.10gb"),
        ({"nvidia.com/mig-2g.12gb": "1"}, 2 / 4, "2g.12gb"),  # an A30 has four slices
        ({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "1"}, 8 / 7, "mixed"),
        ({"nvidia.com/gpu.shared": "1"}, None, None),
        ({"nvidia.com/mig-1g.5gb.shared": "1"}, None, None),
        ({"habana.ai/gaudi": "8"}, None, None),
        ({"google.com/tpu": "4"}, None, None),
        ({"aws.amazon.com/neuron": "1"}, None, None),
        ({"gpu.intel.com/i915": "1"}, None, None),
        ({"nvidia.com/gpu": "1", "habana.ai/gaudi": "8"}, None, None),
        ({"habana.ai/gaudi": "0"}, 0.0, None),
        ({"rdma/hca": "1", "nvidia.com/gpu": "4"}, 4.0, None),
        ({"devices.kubevirt.io/kvm": "1"}, 0.0, None),
    ],
)  # fmt: skip
def test_gpus_are_counted_or_unknown_and_0_only_where_none_is_asked_for(
    resources: dict[str, Any], gpu_count: float | None, gpu_model: str | None
) -> None:
    request = pod_request({"containers": [{"name": "c", "resources": {"limits": resources}}]})
    assert (request.gpu_count, request.gpu_model) == (pytest.approx(gpu_count), gpu_model)


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}], "containers": [{"name": "c"}]},
        {"containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]},
        {"initContainers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}], "containers": []},
    ],
    ids=["of_the_pod", "of_a_container", "of_an_init_container"],
)
def test_what_is_behind_a_claim_is_unknown(spec: dict[str, Any]) -> None:
    assert pod_request(spec) == PodRequest(None, None, None, None)


@pytest.mark.parametrize(
    ("job", "pods"),
    [
        ({}, 1), ({"parallelism": None, "completions": 3}, 1), ({"parallelism": 8, "completions": 2}, 2), ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 10}, 4), ({"parallelism": 0}, 0),
    ],
)  # fmt: skip
def test_a_job_runs_no_more_pods_at_once_than_it_completes(job: dict[str, Any], pods: int) -> None:
    assert pods_at_once(job) == pods


@pytest.mark.parametrize("place", ["requests", "limits"])
def test_a_quantity_that_is_none_is_named(place: str) -> None:
    with pytest.raises(ValueError, match="found 'lots'"):
        pod_request({"containers": [{"name": "c", "resources": {place: {"cpu": "lots"}}}]})


@pytest.mark.parametrize(
    ("selector", "gpu_count", "gpu_model"),
    [
        pytest.param({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, 2.0, "NVIDIA-A100-SXM4-80GB", id="product"),
        pytest.param({"cloud.google.com/gke-accelerator": "nvidia-l4"}, 2.0, "nvidia-l4", id="GKE"),
        # "Time-Slicing GPUs in Kubernetes": the product of nodes whose GPUs are shared ends so.
        pytest.param({"nvidia.com/gpu.product": "Tesla-T4-SHARED"}, None, "Tesla-T4-SHARED", id="time-sliced"),
        pytest.param({"disk": "ssd"}, 2.0, None, id="no product"),
    ],
)
def test_model_is_what_the_node_selector_chooses(
    selector: dict[str, str], gpu_count: float | None, gpu_model: str | None
) -> None:
    request = pod_request({"containers": [container({"nvidia.com/gpu": 2})], "nodeSelector": selector})
    assert (request.gpu_count, request.gpu_model) == (gpu_count, gpu_model)
