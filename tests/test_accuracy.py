"""The page of measured errors, from replays written by hand."""

from runcast.accuracy import accuracy_page


def document(cluster, **figures):
    return {
        "cluster": cluster,
        "jobs": 10,
        "predictors": {
            name: {"all": {"mdape": m, "within_25": w, "error_factor": f, "p90_coverage": 0.9}}
            for name, (m, w, f, _) in figures.items()
        },
        "coverage": {name: {"0.089": c} for name, (*_, c) in figures.items()},
    }


def test_the_best_of_each_column_is_bold_and_a_coverage_of_nothing_is_not():
    page = accuracy_page([document("a", request=(0.9, 0.1, 4.0, 0.0), gbdt=(0.5, 0.1, 3.0, 0.0))])
    rows = [line for line in page.splitlines() if "| request |" in line or "| gbdt |" in line]
    assert rows == [
        "| a | 10 | request | 0.900 | **0.100** | 4.000 | 0.000 | 0.900 |",
        "|  |  | gbdt | **0.500** | **0.100** | **3.000** | 0.000 | 0.900 |",
    ]


def test_logs_stand_in_the_order_given():
    page = accuracy_page([document(name, request=(0.9, 0.1, 4.0, None)) for name in ("b", "a")])
    assert page.index("| b |") < page.index("| a |")
