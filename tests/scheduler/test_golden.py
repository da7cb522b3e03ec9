"""Bundles written once and kept: this version still understands every format there has been, and its numbers."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runcast.features.catalog import feature_version
from runcast.scheduler.bundle import check, read_manifest
from runcast.scheduler.errors import BundleMismatch
from runcast.scheduler.predictor import RECIPES, Predictor

GOLDEN = sorted(p for p in (Path(__file__).parent / "golden").glob("format-*/*") if p.is_dir())
WRITTEN = datetime(2026, 4, 1, tzinfo=UTC)

pytestmark = pytest.mark.parametrize("bundle", GOLDEN, ids=[f"{p.parent.name}/{p.name}" for p in GOLDEN])


def test_format_is_understood_and_the_bundle_whole(bundle: Path) -> None:
    stated = read_manifest(bundle)
    recipes = {} if stated.recipe_version is None else {stated.kind: stated.recipe_version}
    manifest = check(bundle, feature_version=stated.feature_version, recipes=recipes, now=WRITTEN, cluster="bench")
    assert f"format-{manifest.format_version}" == bundle.parent.name
    assert manifest.model_version == f"{bundle.name}-golden"


def test_answers_are_what_they_were_or_the_features_or_the_recipe_are_said_to_differ(bundle: Path) -> None:
    stated = read_manifest(bundle)
    if (stated.feature_version, stated.recipe_version) != (feature_version(), RECIPES.get(stated.kind)):
        with pytest.raises(BundleMismatch, match=r"its features are|was made by recipe"):
            Predictor.load(bundle, now=WRITTEN)
        return
    predictor = Predictor.load(bundle, now=WRITTEN)
    for pair in json.loads(bundle.with_suffix(".json").read_text(encoding="utf-8")):
        answer = predictor.predict(pair["asked"])
        assert {name: answer[name] for name in pair["answer"]} == pair["answer"]
