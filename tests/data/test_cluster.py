"""Cluster files: what YAML would take unsaid is refused with its lines."""

import json
from pathlib import Path

import pytest

from runcast.data.cluster import find_cluster, read_cluster, read_clusters
from runcast.data.errors import ClusterFileError

GOOD = "source:\n  format: swf\n  paths: [log.swf]\ntime_zone: UTC\n"


def test_good_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(GOOD)
    assert read_cluster(tmp_path / "c.yaml").source.format == "swf"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param(GOOD + "time_zone: Europe/Berlin\n", r"c\.yaml:5: the key 'time_zone' stands twice, first at line 4", id="top"),
        pytest.param(GOOD.replace("  paths", "  format: pai\n  paths"), r"c\.yaml:3: the key 'format' .* first at line 2", id="nested"),
        pytest.param(
            GOOD + "evaluation:\n  gates:\n    - {metric: a, metric: b}\n", r"c\.yaml:7: the key 'metric' .* first at line 7", id="list"
        ),
        pytest.param(
            GOOD.replace("time_zone", "  options: {columns: {user: a, 'user': b}}\ntime_zone"), r"c\.yaml:4: the key 'user'", id="quoted"
        ),
        pytest.param(GOOD + "description: 2024-13-45\n", "not valid YAML: month must be in", id="a date that is none"),
        pytest.param(GOOD + "x: " + "[" * 2000, "not valid YAML", id="deep"),
    ],
)  # fmt: skip
def test_what_yaml_would_not_say_is_refused(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ClusterFileError, match=match):
        read_cluster(tmp_path / "c.yaml")


def test_anchors_are_no_doubled_keys(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        GOOD + "training: {cart: &small {max_depth: 3}}\nevaluation: {gates: [&g {metric: mdape}, *g]}\n"
    )
    assert len(read_cluster(tmp_path / "c.yaml").evaluation.gates) == 2


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param("pseudonymise: {columns: [user]}\n", r"c\.yaml:5: pseudonymise.key_file: Field required", id="no key"),
        pytest.param(
            "pseudonymise: {key_file: k, columns: [state]}\n", r"pseudonymise.columns.0: Input should be 'user'", id="no name"
        ),
        pytest.param("pseudonymise: {key_file: k, columns: []}\n", r"pseudonymise.columns: .*at least 1 item", id="none"),
        pytest.param("pseudonymize: {key_file: k}\n", r"unknown key; did you mean 'pseudonymise'", id="spelling"),
    ],
)
def test_pseudonyms_need_a_key_and_names(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "c.yaml").write_text(GOOD + text)
    with pytest.raises(ClusterFileError, match=match):
        read_cluster(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../out", "a/b", "/etc/x", "-x", ".x", "a b", "a=b", "<b>", "Größe", "a\nb", "x" * 101]
)
def test_a_name_that_is_no_folder_or_no_dag_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "c.yaml").write_text(f"{GOOD}name: {json.dumps(name)}\n", encoding="utf-8")
    with pytest.raises(ClusterFileError, match=r"c\.yaml:\d+: name: "):
        read_cluster(tmp_path / "c.yaml")


@pytest.mark.parametrize("name", ["venus", "A100", "sdsc-sp2.v1", "_x", "7", "x" * 100])
def test_a_plain_name_is_taken(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.yaml").write_text(GOOD)
    assert read_cluster(tmp_path / f"{name}.yaml").name == name


def test_two_files_of_one_name_stop_that_name_only(tmp_path: Path) -> None:
    for file, more in {"a": "name: twin\n", "b": "name: twin\n", "good": ""}.items():
        (tmp_path / f"{file}.yaml").write_text(GOOD + more)
    assert find_cluster(tmp_path, "good").name == "good"
    for asked in ("a", "b", "twin"):
        with pytest.raises(ClusterFileError, match=r"the name 'twin' is also that of .*[ab]\.yaml; give each its own"):
            find_cluster(tmp_path, asked)
    with pytest.raises(ClusterFileError, match="'twin'"):
        read_clusters(tmp_path)
