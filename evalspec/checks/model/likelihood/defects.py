"""Defects of likelihoods, by which `evalspec selftest` sees that the requirements of `likelihood` can go red."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalspec.language.defects import Defect

if TYPE_CHECKING:
    from evalspec.language.likelihoods import TokenLikelihoods

NATS = (0.01, 0.1, 1.0, 10.0)
APART = (0.1, 1.0)


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
    """The model's next tokens are so far from the other model's: nats a token, and a share of the likeliest."""

    model: str
    apart: float

    def likelihoods(self, found: TokenLikelihoods) -> TokenLikelihoods:
        """Those beside another model, further apart."""
        side = found.beside
        if found.model != self.model or side is None:
            return found
        flips = (side.flips + self.apart * (found.tokens - side.flips)).astype(side.flips.dtype)
        return replace(found, beside=replace(side, divergence=side.divergence + self.apart * found.tokens, flips=flips))


def planted(model: str) -> tuple[Defect, ...]:
    """Defects of a model's likelihoods, mildest first of each kind."""
    return (
        *(LessLikely(f"each token of {model} takes {nats:g} nats more", model, nats) for nats in NATS),
        NotForeseen(f"half of the tokens that {model} foresaw are not foreseen", model, 0.5),
        NotForeseen(f"{model} foresees no token", model, 1.0),
        *(OtherDistributions(f"{model} gives other distributions, {one:g} nats a token apart", model, one)
          for one in APART),
    )  # fmt: skip
