"""Measurement of `likelihood`: ask the models, sum by document, hold sums against sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.likelihood.documents import NATS, Documents, DocumentSums
from evalspec.checks.model.likelihood.show import blocks, notes, weakens
from evalspec.checks.model.likelihood.spec import BY_TOKEN, DISTRIBUTIONS
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate
from evalspec.evidence.record import Counts
from evalspec.language.likelihoods import Windows
from evalspec.language.parts import CheckResult
from evalspec.stats.means.bounded import SHARE
from evalspec.stats.means.mean import ratio_of_sums
from evalspec.stats.means.perplexity import PairedPerplexity, PairedSums, perplexity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.likelihood.spec import Likelihood
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs
    from evalspec.language.likelihoods import TokenLikelihoods


def measure(check: Likelihood, inputs: Inputs) -> CheckResult:
    """Ask the models, and hold their sums against each other.

    Args:
        check: Its fields.
        inputs: Where texts and likelihoods come from.

    Raises:
        InputError: There is no text.
        NotRunError: A model gives no likelihoods.
    """
    texts, rows, attempted = _texts(check, inputs)
    stride = check.stride or check.context
    windows = Windows(check.context, stride, None if check.windows == "all" else check.windows)
    mine, lost = _asked(check, inputs, texts, windows)
    there = np.flatnonzero(mine.tokens > 0)
    if not len(there):
        raise InputError(
            f"no text of {check.dataset}.{check.column} has a token to be scored", remedy="name another `column:`"
        )
    clusters = inputs.clusters(check.dataset)
    documents = Documents(
        rows=rows[there],
        tokens=mine.tokens[there].astype(np.float64),
        bytes=mine.bytes[there].astype(np.float64),
        clusters=None if clusters is None else clusters[rows[there]],
        own=DocumentSums(mine.nll[there], mine.right[there].astype(np.float64)),
        others={},
        divergence=None if mine.beside is None else mine.beside.divergence[there],
        flips=None if mine.beside is None else mine.beside.flips[there].astype(np.float64),
        missing=dict(lost),
    )
    for name in check.baselines:
        _add_other(check, inputs, name, documents, mine, texts, windows)
    estimates = _estimates(documents)
    return CheckResult(
        estimates=estimates,
        comparisons=_comparisons(check, documents),
        missing=documents.missing | _not_asked(check, documents),
        blocks=blocks(check, documents, estimates, inputs.confidence),
        counts=Counts(attempted=attempted, used=len(there), dropped=attempted - len(there)),
        conditions=_conditions(mine, documents, windows),
        notes=notes(check, documents, attempted),
        weakens=weakens(check, mine),
        blind={
            "bits_per_byte": (8.0, "every byte as likely as any other"),
            "perplexity": (float(mine.details.get("vocabulary") or 1.0), "every token as likely as any other"),
        },
    )


def _texts(check: Likelihood, inputs: Inputs) -> tuple[list[str], NDArray[np.int64], int]:
    """Texts that are there, the numbers of their rows, and how many rows there are.

    Raises:
        InputError: The column holds something else, or nothing.
    """
    import pyarrow as pa

    column = inputs.table(check.dataset, [check.column]).column(check.column)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InputError(f"column {check.column!r} of {check.dataset} holds {column.type}, not texts")
    values = column.to_pylist()
    rows = [index for index, value in enumerate(values) if value]
    if not rows:
        raise InputError(f"column {check.column!r} of {check.dataset} holds no text", remedy="check its `where:`")
    return [values[index] for index in rows], np.asarray(rows, dtype=np.int64), len(values)


def _asked(
    check: Likelihood, inputs: Inputs, texts: Sequence[str], windows: Windows
) -> tuple[TokenLikelihoods, dict[str, str]]:
    """The candidate's likelihoods, beside the baseline's distributions where they are asked for and can be had."""
    if check.together is None:
        return inputs.token_likelihoods(texts, "texts", windows), {}
    try:
        return inputs.token_likelihoods(texts, "texts", windows, beside=check.together), {}
    except NotRunError as error:
        return inputs.token_likelihoods(texts, "texts alone", windows), dict.fromkeys(DISTRIBUTIONS, str(error))


def _add_other(
    check: Likelihood,
    inputs: Inputs,
    name: str,
    documents: Documents,
    mine: TokenLikelihoods,
    texts: Sequence[str],
    windows: Windows,
) -> None:
    """Sums of another model on the same tokens, or where it has others on the same characters."""
    there = np.flatnonzero(mine.tokens > 0)
    if mine.beside is not None and mine.beside.model == name:
        documents.others[name] = DocumentSums(mine.beside.nll[there], mine.beside.right[there].astype(np.float64))
        return
    theirs = inputs.token_likelihoods(texts, "texts", windows, name)
    if theirs.digest == mine.digest:
        documents.others[name] = DocumentSums(theirs.nll[there], theirs.right[there].astype(np.float64))
        return
    reason = f"{check.model} and {name} see these texts as other tokens; require bits_per_byte, which counts bytes"
    documents.missing.update({f"{metric} vs {name}": reason for metric in BY_TOKEN if metric not in DISTRIBUTIONS})
    # The same characters, whole, however many tokens they are to the other model.
    same = [text[:end] for text, end in zip(texts, mine.ends.tolist(), strict=True)]
    whole = Windows(windows.context, windows.stride, None)
    theirs = inputs.token_likelihoods(same, f"texts of {check.model}", whole, name)
    if not np.array_equal(theirs.bytes[there], mine.bytes[there]):
        documents.missing[f"bits_per_byte vs {name}"] = (
            f"{check.model} and {name} score other bytes of these texts: one of them does not score the first token, "
            "or of tokens that begin or end a text"
        )
        return
    documents.others[name] = DocumentSums(theirs.nll[there], None)


def _estimates(documents: Documents) -> dict[str, Estimate]:
    own, tokens, clusters = documents.own, documents.tokens, documents.clusters
    assert own.right is not None
    found: dict[str, Estimate] = {
        "perplexity": perplexity(own.nll, tokens, clusters=clusters),
        "bits_per_byte": ratio_of_sums(own.nll / NATS, documents.bytes, clusters=clusters),
        "next_token_accuracy": ratio_of_sums(own.right, tokens, clusters=clusters, limits=SHARE),
    }
    if documents.divergence is not None and documents.flips is not None:
        found["divergence"] = ratio_of_sums(documents.divergence, tokens, clusters=clusters)
        found["top_token_flips"] = ratio_of_sums(documents.flips, tokens, clusters=clusters, limits=SHARE)
    return found


def _comparisons(check: Likelihood, documents: Documents) -> dict[tuple[str, str], Comparison | ComparisonParts]:
    found: dict[tuple[str, str], Comparison | ComparisonParts] = {}
    own, clusters = documents.own, documents.clusters
    for name, other in documents.others.items():
        found["bits_per_byte", name] = PairedSums(own.nll / NATS, other.nll / NATS, documents.bytes, clusters)
        if own.right is not None and other.right is not None:
            found["perplexity", name] = PairedPerplexity(own.nll, other.nll, documents.tokens, clusters)
            found["next_token_accuracy", name] = PairedSums(
                own.right, other.right, documents.tokens, clusters, limits=SHARE
            )
    return found


def _not_asked(check: Likelihood, documents: Documents) -> dict[str, str]:
    if documents.divergence is not None:
        return {}
    return {name: "no requirement asks for it" for name in DISTRIBUTIONS if name not in documents.missing}


def _conditions(mine: TokenLikelihoods, documents: Documents, windows: Windows) -> dict[str, Cell]:
    return {
        "documents": len(documents.rows),
        "tokens": int(documents.tokens.sum()),
        "bytes": int(documents.bytes.sum()),
        "context": windows.context,
        "stride": windows.stride,
        "windows": "all" if windows.most is None else windows.most,
        "first_ids": " ".join(str(one) for one in mine.first),
        **{name: mine.details[name] for name in ("vocabulary", "likelihood_batch") if name in mine.details},
    }
