"""Randomness of an audit: the rows that were audited can be a random sample of all rows, or they can't."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIKE_LEVEL = 1e-4
"""At which the classes, or slices, of audited and other rows must differ to be no random sample."""
FEWEST_EXPECTED = 5


def not_random(
    given: NDArray[np.int64],
    slices: Mapping[str, NDArray[np.bool_]],
    audited: NDArray[np.bool_],
    clusters: NDArray[np.int64] | None,
) -> str | None:
    """Why audited rows were not drawn at random; None: nothing says so.

    Args:
        given: shape (n,), class of each label.
        slices: Slice: its rows, shape (n,).
        audited: shape (n,).
        clusters: shape (n,), or None.
    """
    if audited.all() or not audited.any():
        return None
    looked: dict[str, float | None] = {"labels": p_unlike(given, audited, clusters)}
    looked |= {name: p_unlike(inside.astype(np.int64), audited, clusters) for name, inside in slices.items()}
    told = {name: min(1.0, p * len(looked)) for name, p in looked.items() if p is not None}
    odd = min(told, key=lambda name: told[name], default=None)
    if odd is None or told[odd] > ALIKE_LEVEL:
        return None
    what = "their labels are distributed" if odd == "labels" else f"the slice {odd} is among them"
    where = "whatever their label is" if odd == "labels" else "from all slices alike"
    return (
        f"the audited rows are not a random sample: {what} differently than among the other rows (p "
        f"{told[odd]:.1g}); draw rows at random, {where}"
    )


def p_unlike(codes: NDArray[np.int64], audited: NDArray[np.bool_], clusters: NDArray[np.int64] | None) -> float | None:
    """Chi-square test that audited and other rows have the same categories, over its design effect with clusters.

    Args:
        codes: shape (n,), category of each row.
        audited: shape (n,).
        clusters: shape (n,), or None.

    Returns:
        The p-value, or None where there is nothing to compare.

    References:
        Rao and Scott (1981), JASA 76 (first-order correction); Rao and Thomas (1989) for its F.
    """
    from scipy.stats import chi2, chi2_contingency, f

    count = int(codes.max(initial=0)) + 1
    # Rare categories together, so that the approximation holds.
    rare = np.bincount(codes, minlength=count) * min(audited.mean(), 1 - audited.mean()) < FEWEST_EXPECTED
    _, codes = np.unique(np.where(rare[codes], count, codes), return_inverse=True)
    names = np.eye(int(codes.max(initial=0)) + 1)[codes.reshape(-1)]
    table = np.stack([names[side].sum(axis=0) for side in (audited, ~audited)])
    freedom = table.shape[1] - 1
    if freedom < 1 or (table.sum(axis=1) == 0).any():
        return None
    statistic = float(chi2_contingency(table, correction=False).statistic)
    if clusters is None:
        return float(chi2.sf(statistic, freedom))
    shares = names.mean(axis=0)
    added = (audited - audited.mean())[:, None] * (names - shares)
    _, places = np.unique(clusters, return_inverse=True)
    together = np.zeros((int(places.max()) + 1, len(shares)))
    np.add.at(together, places.reshape(-1), added)
    effect = (together**2).sum(axis=0) / (added**2).sum(axis=0)
    design = max(1.0, float((1.0 - shares) @ effect) / freedom)
    return float(f.sf(statistic / design / freedom, freedom, max(1, len(together) - 1)))
