"""Planted defects of `compression`, each with its clean twin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.compression.spec import Compression
from evalspec.language.inputs import Predictions
from evalspec.language.likelihoods import TokenLikelihoods, Windows
from tests.checks.planting import Case, Planted, confident
from tests.checks.system.probed import Row, operators_of
from tests.fakes import FakeInputs, classifier


def _compressed(folder: Path, lost: float, rows: int = 4000) -> Case:
    """A copy that loses a share of the rows, all of them in the dark; one row in ten is dark."""
    truth = np.arange(rows) % 4
    dark = np.arange(rows) % 10 == 0
    before = np.arange(rows) % 25 != 3
    after = before & ~(dark & (np.arange(rows) % 100 < 1000 * lost))
    sure = [confident(truth, right, 4, 0.96) for right in (after, before)]
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"x": np.arange(rows), "dark": dark, "label": truth})},
        labels={"test": "label"},
        slices={("dark", "test"): dark},
        facts={"candidate": {"size_bytes": 250_000}, "baseline": {"size_bytes": 1_000_000}},
        answers={
            ("test", model): classifier(shares, truth, model=model)
            for model, shares in zip(("candidate", "baseline"), sure, strict=True)
        },
    )
    check = {
        "check": "compression", "dataset": "test", "method": "pruning", "by": ["dark"], "speed": False,
        "require": ["worst_slice_drop <= 5 pp", "accuracy_drop <= 3 pp"],
    }  # fmt: skip
    return inputs, Compression.model_validate(check)


def _smaller(folder: Path, *, moved: float = 0.05, layers: int = 4, place: str = "cuda:0", rows: int = 1000) -> Case:
    """A copy of a network of four layers that answers alike: its scores moved, a layer left out, or one fell back."""
    rng = np.random.default_rng(9)
    scores = 6.0 * np.eye(4)[np.arange(rows) % 4] + rng.standard_normal((rows, 4))
    other = scores + moved * rng.standard_normal((rows, 4)) + 4.0 * moved * (scores > 3.0)

    def told(logits: np.ndarray, model: str) -> Predictions:
        return classifier(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), np.arange(rows) % 4, model=model)

    def written(count: int, last: str) -> list[Row]:
        places = ["cuda:0"] * (count - 1) + [last]
        return [(f"conv{i}", "Conv", where, "float32", "float32", "float32", 1e6) for i, where in enumerate(places)]

    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"x": np.arange(rows), "label": np.arange(rows) % 4})},
        labels={"test": "label"},
        facts={name: {"device": "cuda:0"} for name in ("candidate", "baseline")},
        answers={("test", name): told(one, name) for name, one in (("candidate", other), ("baseline", scores))},
        probes=operators_of({"candidate": written(layers, place), "baseline": written(4, "cuda:0")}),
    )
    check = {
        "check": "compression", "dataset": "test", "method": "distillation", "speed": False,
        "require": ["accuracy_drop <= 5 pp", "ece_increase <= 0.2", "logit_distance <= 0.1",
                    "operator_coverage == 100 %", "operators_lost == 0"],
    }  # fmt: skip
    return inputs, Compression.model_validate(check)


def of_language(folder: Path, *, lost: float = 0.0, rows: int = 300, other_tokens: bool = False) -> Case:
    """A language model and its copy that choose alike, and find texts less likely by so many nats a token."""
    inputs, _ = _smaller(folder, rows=max(rows, 2))
    inputs.tables["heldout"] = pa.table({"body": [f"text {row}" for row in range(rows)]})

    def likelihoods(texts: Sequence[str], windows: Windows, model: str, beside: str | None) -> TokenLikelihoods:
        rng = np.random.default_rng(4)
        count = len(texts)
        tokens = rng.integers(50, windows.context, count)
        nll = tokens * (2.0 + 0.3 * rng.standard_normal(count))
        if model == "candidate":
            nll = nll + tokens * (lost + 0.02 * np.random.default_rng(5).standard_normal(count))
        digest = model if other_tokens else "same"
        return TokenLikelihoods(model, tokens, 4 * tokens, 4 * tokens, nll, tokens // 2, digest)

    inputs.likelihoods = likelihoods
    check = {
        "check": "compression", "dataset": "test", "method": "distillation", "speed": False, "operators": False,
        "heldout": {"dataset": "heldout", "column": "body", "context": 200},
        "require": ["accuracy_drop <= 5 pp", "ece_increase <= 0.2", "perplexity_ratio <= 1.02x"],
    }  # fmt: skip
    return inputs, Compression.model_validate(check)


PLANTED = (
    Planted(
        "compression",
        "perplexity_ratio",
        "perplexity_ratio <= 1.02x",
        of_language,
        lambda f: of_language(f, lost=0.05),
        lambda f, n: of_language(f, rows=n),
        "chooses as before, and finds every text 5 % less likely",
    ),
    Planted(
        "compression",
        "worst_slice_drop",
        "worst_slice_drop <= 5 pp",
        lambda f: _compressed(f, 0.0),
        lambda f: _compressed(f, 0.02),
        lambda f, n: _compressed(f, 0.0, n),
        "loses only 2 points, all in the dark",
    ),
    Planted(
        "compression",
        "logit_distance",
        "logit_distance <= 0.1",
        _smaller,
        lambda f: _smaller(f, moved=0.3),
        lambda f, n: _smaller(f, rows=n),
        "every answer is the same, and the scores under it are not",
    ),
    Planted(
        "compression",
        "operators_lost",
        "operators_lost == 0",
        _smaller,
        lambda f: _smaller(f, layers=3),
        lambda f, n: _smaller(f, rows=n),
        "a layer was left out, and no answer changed",
    ),
    Planted(
        "compression",
        "operator_coverage",
        "operator_coverage == 100 %",
        _smaller,
        lambda f: _smaller(f, place="cpu"),
        lambda f, n: _smaller(f, rows=n),
        "its last layer fell back to the CPU",
    ),
)
