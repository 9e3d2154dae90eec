"""Planted defects of `likelihood`, each with its clean twin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.checks.model.likelihood.spec import Likelihood
from evalspec.language.likelihoods import SideLikelihoods, TokenLikelihoods, Windows
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs

DOCUMENTS = 400
BYTES_A_TOKEN = 4


def tokens_of(texts: Sequence[str]) -> NDArray[np.int64]:
    """A token for each four letters."""
    return np.array([len(text) // BYTES_A_TOKEN for text in texts], dtype=np.int64)


def language_model(
    worse: float = 0.0, right: float = 0.4, divergence: float = 0.01, flips: float = 0.02, nats: float = 3.0
) -> FakeInputs:
    """Inputs of two language models: the candidate takes so many more nats a token than the baseline.

    Args:
        worse: Nats a token, on the average.
        right: Share of tokens that the candidate foresees.
        divergence: Nats a token.
        flips: Share of tokens.
        nats: Of the baseline, a token.
    """

    def likelihoods(texts: Sequence[str], windows: Windows, model: str, beside: str | None) -> TokenLikelihoods:
        rng = np.random.default_rng(11)
        tokens = np.minimum(tokens_of(texts), windows.context)
        base = tokens * (nats + 0.2 * rng.normal(size=len(texts)))
        moved = tokens * (worse + 0.02 * rng.normal(size=len(texts)))
        counts = [rng.binomial(tokens, share) for share in (0.4, right, flips)]
        side = SideLikelihoods(
            "baseline", base, counts[0], tokens * divergence * rng.gamma(20.0, 0.05, len(texts)), counts[2]
        )
        return TokenLikelihoods(
            model=model, tokens=tokens, bytes=BYTES_A_TOKEN * tokens, ends=BYTES_A_TOKEN * tokens,
            nll=base if model == "baseline" else base + moved,
            right=counts[0] if model == "baseline" else counts[1],
            digest="the same", first=(0, 5, 6), beside=None if beside is None else side,
            details={"vocabulary": 1000},
        )  # fmt: skip

    return FakeInputs(evidence=Path(), likelihoods=likelihoods)


def case(folder: Path, sentence: str, rows: int = DOCUMENTS, **model: float) -> Case:
    """A check of `likelihood` on texts of unequal length."""
    inputs = language_model(**model)
    lengths = np.random.default_rng(3).integers(40, 400, max(rows, 1))[:rows]
    inputs.evidence = folder
    inputs.tables = {"text": pa.table({"body": pa.array(["a" * int(length) for length in lengths], pa.string())})}
    fields = {"check": "likelihood", "dataset": "text", "column": "body", "context": 64, "require": [sentence]}
    return inputs, Likelihood.model_validate(fields)


def planted(sentence: str, what: str, **defect: float) -> Planted:
    """One defect: a number of `language_model` that has changed."""
    return Planted(
        "likelihood",
        sentence.split()[0],
        sentence,
        lambda folder: case(folder, sentence),
        lambda folder: case(folder, sentence, **defect),
        lambda folder, rows: case(folder, sentence, rows),
        what,
    )


PLANTED = (
    planted("perplexity <= 1.02x baseline", "a copy that takes 0.05 nats a token more", worse=0.05),
    planted("perplexity <= 22", "a model that foresees less", worse=0.2),
    planted("bits_per_byte <= 1.15", "a model that foresees less, by byte", worse=0.3),
    planted("bits_per_byte <= baseline + 0.02", "a copy that takes more bits a byte", worse=0.1),
    planted("next_token_accuracy >= 37 %", "a model that is seldom right", right=0.3),
    planted("divergence <= 0.02", "a copy whose distributions have moved", divergence=0.04),
    planted("top_token_flips <= 4 %", "a copy that thinks other tokens the likeliest", flips=0.08),
)
