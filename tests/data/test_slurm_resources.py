"""TRES, GRES and memory of a request, as sacct writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runcast.data.sources.slurm_resources import Gpus, Gres, Memory, Tres, gres, memory, tres


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=32,gres/gpu:a100=4,gres/gpu=4,node=1", Gpus(4.0, "a100")),
        ("gres/gpu:a100=2,gres/gpu:v100=1", Gpus(3.0, "mixed")),
        ("gres/gpu:a100=2,gres/gpu:v100=1,gres/gpu=3", Gpus(3.0, "mixed")),
        ("gres/gpu=4", Gpus(4.0, None)),
        ("gres/gpu:a100=4", Gpus(4.0, "a100")),
        ("gres/gpu:a100_1g.5gb=1", Gpus(1.0, "a100_1g.5gb")),
        ("gres/gpu=0", Gpus(0.0, None)),
        ("cpu=8,mem=1G,node=1,billing=8", Gpus(None, None)),
        ("cpu=8,gres/gpumem=1G,gres/gpuutil=3", Gpus(None, None)),
        ("N/A", Gpus(None, None)),
        ("", Gpus(None, None)),
    ],
)
def test_gpus_of_a_tres_list(text, gpus):
    assert tres(text).gpus == gpus


def test_tres_list_gives_totals():
    assert tres("billing=64,cpu=64,mem=62.50G,node=8") == Tres(64.0, 64_000.0, 8.0, Gpus(None, None))
    assert tres("cpu=12,mem=48000M,node=1").mem_mib == 48_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:2", Gres(2.0, 0.0, None)),
        ("gpu", Gres(1.0, 0.0, None)),
        ("gpu:a100", Gres(1.0, 0.0, "a100")),
        ("gpu:a100:2", Gres(2.0, 0.0, "a100")),
        ("gpu:3090:2", Gres(2.0, 0.0, "3090")),
        ("gpu:(null):2", Gres(2.0, 0.0, None)),
        ("gres:gpu:2", Gres(2.0, 0.0, None)),
        ("gres/gpu:a100=2", Gres(2.0, 0.0, "a100")),
        ("gpu:8(S:0-3)", Gres(8.0, 0.0, None)),
        ("gpu:2(IDX:0,3),mps:100", Gres(2.0, 0.0, None)),
        ("gpu:a100:8(S:0-3,5),mps:100", Gres(8.0, 0.0, "a100")),
        ("gpu:a100:1,gpu:v100:1", Gres(2.0, 0.0, "mixed")),
        ("PER_NODE:gpu:2", Gres(2.0, 0.0, None)),
        ("PER_NODE:gpu:v100:4", Gres(4.0, 0.0, "v100")),
        ("PER_JOB:gpu:4", Gres(0.0, 4.0, None)),
        ("PER_TASK:gpu:1", Gres(None, None, None)),
        ("mps:100", Gres(None, None, None)),
        ("shard:4", Gres(None, None, None)),
        ("N/A", Gres(None, None, None)),
        ("", Gres(None, None, None)),
    ],
)
def test_gpus_of_a_gres_list(text, expected):
    assert gres(text) == expected


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("4Gn", Memory(4096.0, "node")),
        ("2000Mc", Memory(2000.0, "cpu")),
        ("1.50Gn", Memory(1536.0, "node")),
        ("100Gn", Memory(102_400.0, "node")),
        ("2252800K", Memory(2200.0, "job")),
        ("438.50M", Memory(438.5, "job")),
        ("4G", Memory(4096.0, "job")),
        ("1T", Memory(1_048_576.0, "job")),
        ("512", Memory(512.0, "job")),
        ("0n", Memory(None, "node")),
        ("0", Memory(None, "job")),
        ("2147486648Mn", Memory(3000.0, "cpu")),  # phillips.log: 8 CPUs, mem=24000M
        ("2147486448Mn", Memory(2800.0, "cpu")),  # robertson: 100 CPUs, mem=280000M
        ("20H", Memory(None, "job", readable=False)),
        ("-4G", Memory(None, "job", readable=False)),
        ("", Memory(None, "job")),
        ("N/A", Memory(None, "job")),
    ],
)
def test_memory(text, read):
    assert memory(text) == read


@given(st.text(alphabet=st.sampled_from("cpu=gres/:a100,mknodMGT.N()-S\x00é9")))
def test_any_text_is_read_without_an_error(text):
    assert isinstance(tres(text), Tres)
    assert isinstance(gres(text), Gres)
    assert isinstance(memory(text), Memory)
