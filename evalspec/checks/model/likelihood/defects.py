"""Defects of likelihoods, by which `evalspec selftest` sees that the requirements of `likelihood` can go red."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalspec.language.defects import SHARES, Defect

if TYPE_CHECKING:
    from evalspec.language.likelihoods import TokenLikelihoods

NATS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class LessLikely(Defect):
    """Each token takes so many nats more."""

    model: str
    nats: float

    def likelihoods(self, found: TokenLikelihoods) -> TokenLikelihoods:
        """Those of this model, less likely."""
        if found.model != self.model:
            return found
        return replace(found, nll=found.nll + self.nats * found.tokens)


@dataclass(frozen=True)
class NotForeseen(Defect):
    """A share of the tokens that the model foresaw is not foreseen any more."""

    model: str
    share: float

    def likelihoods(self, found: TokenLikelihoods) -> TokenLikelihoods:
        """Those of this model, with fewer right tokens."""
        if found.model != self.model:
            return found
        return replace(found, right=found.right - (self.share * found.right).astype(found.right.dtype))


@dataclass(frozen=True)
class OtherDistributions(Defect):
    """The model's next tokens are so many nats a token further from the other model's; the likeliest stay."""

    model: str
    nats: float

    def likelihoods(self, found: TokenLikelihoods) -> TokenLikelihoods:
        """Those beside another model, further apart."""
        side = found.beside
        if found.model != self.model or side is None:
            return found
        return replace(found, beside=replace(side, divergence=side.divergence + self.nats * found.tokens))


@dataclass(frozen=True)
class OtherTopTokens(Defect):
    """The likeliest next token is another one than the other model's for a share of the tokens: two that were close."""

    model: str
    share: float

    def likelihoods(self, found: TokenLikelihoods) -> TokenLikelihoods:
        """Those beside another model, with more flips."""
        side = found.beside
        if found.model != self.model or side is None:
            return found
        flips = (side.flips + self.share * (found.tokens - side.flips)).astype(side.flips.dtype)
        return replace(found, beside=replace(side, flips=flips))


def planted(model: str) -> tuple[Defect, ...]:
    """Defects of a model's likelihoods, mildest first of each kind."""
    return (
        *(LessLikely(f"each token of {model} takes {nats:g} nats more", model, nats) for nats in NATS),
        *(NotForeseen(f"{words} of the tokens that {model} foresaw are not foreseen", model, share)
          for share, words in SHARES),
        *(OtherDistributions(f"{model} gives other distributions, {nats:g} nats a token apart", model, nats)
          for nats in NATS),
        *(OtherTopTokens(f"{words} of the likeliest tokens of {model} are others", model, share)
          for share, words in SHARES),
    )  # fmt: skip
