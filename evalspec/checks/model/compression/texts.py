"""Likelihoods of texts by a compressed language model, beside those by the model that it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InputError, NotRunError
from evalspec.language.likelihoods import Windows
from evalspec.stats.means.perplexity import PairedPerplexity

if TYPE_CHECKING:
    from evalspec.checks.model.compression.spec import Compression
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Inputs


def perplexity_ratio(check: Compression, inputs: Inputs, model: str) -> Estimate:
    """Estimate of a model's perplexity by the baseline's, on the same tokens, over documents.

    Args:
        check: Names the texts.
        inputs: Where likelihoods come from.
        model: Whose it is.

    Raises:
        InputError: There is no text.
        NotRunError: A model gives no likelihoods, or the two see other tokens.
    """
    if check.heldout is None:
        raise NotRunError("the check names no `heldout:`")
    column = inputs.table(check.heldout.dataset, [check.heldout.column]).column(check.heldout.column).to_pylist()
    rows = np.array([row for row, text in enumerate(column) if isinstance(text, str) and text], dtype=np.int64)
    if not len(rows):
        raise InputError(f"column {check.heldout.column!r} of {check.heldout.dataset} holds no text")
    texts = [column[row] for row in rows]
    windows = Windows(check.heldout.context, check.heldout.context, 1)
    ours, theirs = (inputs.token_likelihoods(texts, "texts", windows, name) for name in (model, check.baseline))
    if ours.digest != theirs.digest:
        raise NotRunError(
            f"{model} and {check.baseline} see these texts as other tokens; ask `likelihood` for bits_per_byte"
        )
    there = np.flatnonzero(ours.tokens > 0)
    if not len(there):
        raise InputError(f"no text of {check.heldout.dataset}.{check.heldout.column} has a token to be scored")
    clusters = inputs.clusters(check.heldout.dataset)
    shared = None if clusters is None else clusters[rows[there]]
    return PairedPerplexity(ours.nll[there], theirs.nll[there], ours.tokens[there].astype(np.float64), shared).ratio()
