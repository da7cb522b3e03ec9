"""Cluster files: what YAML would take unsaid is refused with its lines."""

import json
import os
import re
from functools import reduce
from math import inf, nan
from pathlib import Path
from typing import get_args

import pytest
import yaml

from runcast.data.cluster import Cluster, Gate, GateMetric, GateRows, find_cluster, read_cluster, read_clusters
from runcast.data.errors import ClusterFileError, UnknownCluster
from runcast.data.settings import EXAMPLES, read_settings
from runcast.data.sources.registry import check_options
from runcast.evaluation.metrics import METRICS, NEITHER

GOOD = "source:\n  format: swf\n  paths: [log.swf]\ntime_zone: UTC\n"


def test_good_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(GOOD)
    assert read_cluster(tmp_path / "c.yaml").source.format == "swf"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param(GOOD + "time_zone: Europe/Berlin\n", r"c\.yaml:5: the key 'time_zone' is given twice, first at line 4", id="top"),
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


def numbers_of(model: type, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key of a cluster file, below `model`, that holds one number; gates have a table of their own."""
    found = []
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        if int in kinds or float in kinds:
            found.append((*at, name))
        for kind in kinds:
            if hasattr(kind, "model_fields") and kind is not Gate:
                found += numbers_of(kind, (*at, name))
    return found


#: Words of the keys that only ask for more, or compare: there a large number has its plain meaning.
TAKES_LARGE = (
    "min_",
    "rollbacks",
    "bundles",
    "latest_jobs",
    "scored_rows",
    "margin_jobs",
    "factor",
    "times_usual",
    "error_at_least",
)


@pytest.mark.parametrize("value", [inf, -inf, nan, -1, 1e300, True], ids=str)
@pytest.mark.parametrize("key", numbers_of(Cluster), ids=".".join)
def test_a_number_without_sense_is_refused_at_every_key(tmp_path: Path, key: tuple[str, ...], value: float) -> None:
    if value == 1e300 and any(word in key[-1] for word in TAKES_LARGE) and "leaf" not in key[-1]:
        return
    content = yaml.safe_load(GOOD)
    reduce(lambda part, name: part.setdefault(name, {}), key[:-1], content)[key[-1]] = value
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ClusterFileError, match=rf"c\.yaml:\d+: {re.escape('.'.join(key))}: "):
        read_cluster(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("gate", "match"),
    [
        ("{metric: err_factor}", r"gates\.0\.metric: unknown 'err_factor'; did you mean 'error_factor'\?"),
        ("{metric: x}", r"gates\.0\.metric: unknown 'x'; known are mdape, .*coverage_<target>"),
        ("{metric: coverage_0.5}", r"coverage is computed at the targets: coverage_0\.089, coverage_0\.108"),
        ("{metric: coverage_0.089, rows: long}", r"coverage is computed on all jobs, not on 'long'"),
        ("{rows: recuring}", r"gates\.0\.rows: unknown 'recuring'; did you mean 'recurring'\?"),
        ("{rows: 'state:COMPLETE'}", r"gates\.0\.rows: unknown 'COMPLETE'; did you mean 'COMPLETED'\?"),
        ("{than_best_baseline: false}", r"gates\.0: asks for nothing"),
        ("{at_least: 2, at_most: 1}", r"nothing is at least 2 and at most 1"),
        ("{metric: under_share}", r"neither more nor less under_share is better"),
        ("{at_most: .nan}", r"at_most: Input should be a finite number"),
        ("{at_least: .inf}", r"at_least: Input should be a finite number"),
        ("{rows: 'user:'}", r"gates\.0\.rows: 'user:' names no user; write user:<user>"),
        ("{rows: 'nobody:x'}", r"gates\.0\.rows: unknown 'nobody:x'"),
        ("", r"evaluation\.gates: an empty list would let every model serve"),
    ],
)
def test_a_gate_that_cannot_judge_is_refused_and_only_it(tmp_path: Path, gate: str, match: str) -> None:
    (tmp_path / "c.yaml").write_text(f"{GOOD}evaluation:\n  gates: [{gate}]\n")
    with pytest.raises(ClusterFileError, match=match) as told:
        read_cluster(tmp_path / "c.yaml")
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize(
    "gate",
    [
        *(f"{{metric: {name}, at_most: 1, than_best_baseline: false}}" for name in get_args(GateMetric)),
        *(
            f"{{rows: {name}}}"
            for name in (*get_args(GateRows), "'state:TIMEOUT'", "'group:vc 1'", "queue:gpu", "account:a:b", "user:ada")
        ),
        "{metric: coverage_0.108, at_least: 0.2}",
        "{at_least: -1, at_most: 3}",
    ],
)
def test_a_gate_that_can_judge_is_taken(tmp_path: Path, gate: str) -> None:
    (tmp_path / "c.yaml").write_text(f"{GOOD}evaluation: {{gates: [{gate}]}}\n")
    assert len(read_cluster(tmp_path / "c.yaml").evaluation.gates) == 1


def test_the_gates_that_stand_by_themselves_refuse_a_p90_that_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(GOOD)
    better, covers = read_cluster(tmp_path / "c.yaml").evaluation.gates
    assert (better.metric, better.rows, better.than_best_baseline) == ("error_factor", "all", True)
    assert (covers.metric, covers.at_least, covers.at_most, covers.than_best_baseline) == ("p90_coverage", 0.6, None, False)


def test_gates_may_ask_for_what_is_computed_and_for_nothing_else() -> None:
    assert list(get_args(GateMetric)) == [metric.name for metric in METRICS]
    assert [metric.name for metric in METRICS if metric.better is NEITHER] == ["under_share"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("path: /etc/passwd\n", r"c\.yaml:5: path: unknown key; known are clock, description, "),
        ("_path: /etc/passwd\n", r"c\.yaml:5: _path: unknown key"),
        ("evaluation: {targets: 0.1}\n", r"c\.yaml:5: evaluation\.targets: expected a list: \[one, another\]"),
        ("training:\n", r"c\.yaml:5: training: expected keys with their values; leave it out"),
        ("quality: {null_share_at_most: 0.1}\n", r"quality\.null_share_at_most: expected keys with their values"),
        ("zone: UTC\n", r"c\.yaml:5: zone: unknown key; did you mean"),
        ("quality: {null_share_at_most: {usr: 0.1}}\n", r"unknown 'usr'; did you mean 'user'\?"),
        ("quality: {null_share_at_most: {user: 1.5}}\n", r"null_share_at_most\.user: .*less than or equal to 1"),
        ("quality: {null_share_at_most: {user: .nan}}\n", r"null_share_at_most\.user: .*finite"),
        ("evaluation: {targets: [0.1, 0.1]}\n", r"c\.yaml:5: evaluation\.targets: 0\.1 is given twice"),
        ("evaluation: {targets: [0.0891234567, 0.08912345678]}\n", r"evaluation\.targets: 0\.0891235 is given twice"),
        ("export: {valid_days: 0.001}\n", r"export\.valid_days: .*greater than or equal to 0\.05"),
        ("evaluation: {targets: [8.9]}\n", r"evaluation\.targets\.0: .*less than or equal to 1"),
        ("evaluation: {targets: [.nan]}\n", r"evaluation\.targets\.0: .*finite"),
    ],
)
def test_what_a_file_cannot_say_is_refused_by_name(tmp_path: Path, text: str, match: str) -> None:
    (tmp_path / "c.yaml").write_text(GOOD + text)
    with pytest.raises(ClusterFileError, match=match):
        read_cluster(tmp_path / "c.yaml")


def test_a_cluster_knows_its_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(GOOD)
    read = read_cluster(tmp_path / "c.yaml")
    assert (read.path, read.model_copy(update={"clock": "week"}).path) == (tmp_path / "c.yaml",) * 2


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("{format: table, paths: [t], options: {columns: {}, runtime_clamped_at_s: .inf}}", r"runtime_clamped_at_s: .*finite"),
    ],
    ids=["table"],
)
def test_an_option_that_is_no_finite_number_is_refused(tmp_path: Path, source: str, match: str) -> None:
    (tmp_path / "c.yaml").write_text(f"source: {source}\ntime_zone: UTC\n")
    with pytest.raises(ClusterFileError, match=match):
        check_options(read_cluster(tmp_path / "c.yaml"))


def test_several_folders_count_as_one(tmp_path: Path) -> None:
    for folder, name in (("ours", "alpha"), ("theirs", "beta")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.yaml").write_text("source: {format: swf, paths: [log]}\ntime_zone: UTC\n")
    named = os.pathsep.join(str(tmp_path / folder) for folder in ("ours", "theirs", "ours"))
    settings = read_settings({"RUNCAST_CLUSTERS": named})
    assert settings.clusters == (tmp_path / "ours", tmp_path / "theirs")
    assert set(read_clusters(settings.clusters)) == {"alpha", "beta"}
    assert find_cluster(settings.clusters, "beta").path == tmp_path / "theirs" / "beta.yaml"


def test_one_name_in_two_folders_is_refused_in_both(tmp_path: Path) -> None:
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "alpha.yaml").write_text("source: {format: swf, paths: [log]}\ntime_zone: UTC\n")
    with pytest.raises(ClusterFileError, match=r"theirs/alpha\.yaml: the name 'alpha' is also that of .*ours/alpha\.yaml"):
        find_cluster((tmp_path / "ours", tmp_path / "theirs"), "alpha")


def test_a_folder_of_several_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match=r"gone: no such folder"):
        read_clusters((tmp_path, tmp_path / "gone"))


def test_the_shipped_folder_shows_the_demo_and_an_example_says_how_to_be_used() -> None:
    settings = read_settings({})
    assert {name for name in read_clusters(settings.clusters) if (EXAMPLES / f"{name}.yaml").exists()} == set()
    assert {"demo_slurm", "demo_helios", "demo_pai"} <= set(read_clusters(settings.clusters))
    with pytest.raises(
        UnknownCluster, match=r"it is an example, of a public log\. Copy \S*examples/kth\.yaml there, or set RUNCAST_CLU"
    ):
        find_cluster(settings.clusters, "kth")
    assert find_cluster(settings.with_examples().clusters, "kth").name == "kth"
    assert read_settings(settings.with_examples().environment).clusters == settings.with_examples().clusters


def test_name_of_a_format_that_went_is_refused_with_what_replaces_it(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("source:\n  format: k8s_pods\n  paths: [p]\ntime_zone: UTC\n")
    with pytest.raises(ClusterFileError, match=r"c\.yaml:2: source\.format: k8s_pods is no format .*openb\.yaml.*: kubernetes"):
        read_cluster(tmp_path / "c.yaml")
