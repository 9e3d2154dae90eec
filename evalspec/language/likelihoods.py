"""Likelihoods that language models give texts: what is asked, and what comes back, one number a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cells


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a text in which a model scores the likelihood of tokens.

    Args:
        context: Maximum number of tokens that the model sees; a window without overlap scores all of them.
        stride: Tokens from the start of one window to the start of the next. The second and later windows score their
            last ``stride`` tokens, so each token is scored once.
        most: Maximum number of windows of a text; None: all.
    """

    context: int
    stride: int
    most: int | None = 1


@dataclass(frozen=True, slots=True)
class SideLikelihoods:
    """Likelihoods by another model of the same tokens, and how the two models' distributions differ.

    Args:
        model: Its name.
        nll: shape (n,), nats: sum over the tokens of a text.
        right: shape (n,), tokens that it thought the likeliest.
        divergence: shape (n,), nats: sum over the tokens of the Kullback-Leibler divergence of the asked model's
            distribution from this one's, D(this || asked).
        flips: shape (n,), tokens of which the two models think another one the likeliest.
    """

    model: str
    nll: NDArray[np.float64]
    right: NDArray[np.int64]
    divergence: NDArray[np.float64]
    flips: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenLikelihoods:
    """Likelihoods of the tokens of n texts, in their order, summed over each text.

    The model sees the tokens that begin, end or pad a text, but they are not scored.

    Args:
        model: Name of the model.
        tokens: shape (n,), tokens scored.
        bytes: shape (n,), UTF-8 bytes of the scored text.
        ends: shape (n,), characters from the start of the text to the end of its last scored token.
        nll: shape (n,), nats: sum of the negative logarithms of their likelihoods.
        right: shape (n,), tokens that were the model's likeliest.
        digest: Digest of all scored tokens with their positions; it is equal for models that see the same tokens.
        first: Ids of the first tokens of the first text, as the model sees them.
        begins_twice: Number of texts that the model sees with two begin tokens.
        beside: Likelihoods of the same tokens by a second model; None: there is none.
        details: Facts of the run: tokens of the vocabulary, batch, seconds.
    """

    model: str
    tokens: NDArray[np.int64]
    bytes: NDArray[np.int64]
    ends: NDArray[np.int64]
    nll: NDArray[np.float64]
    right: NDArray[np.int64]
    digest: str
    first: tuple[int, ...] = ()
    begins_twice: int = 0
    beside: SideLikelihoods | None = None
    details: Cells = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of texts."""
        return len(self.tokens)


ARRAYS = tuple(one.name for one in fields(TokenLikelihoods) if "NDArray" in str(one.type))
BESIDE = tuple(one.name for one in fields(SideLikelihoods) if "NDArray" in str(one.type))
"""Fields that have a number for each text."""


@runtime_checkable
class GivesLikelihoods(Protocol):
    """A loaded model that gives each token of a text a likelihood."""

    def likelihoods(
        self,
        texts: Sequence[str],
        windows: Windows,
        beside: GivesLikelihoods | None,
        progress: Callable[[float, float, str], None],
    ) -> TokenLikelihoods:
        """Likelihoods of the tokens of texts; names of models are left empty.

        Args:
            texts: Each by itself.
            windows: As the texts are cut.
            beside: A model of the same kind that is asked about the same tokens; None: none.
            progress: Tell how far it has come.

        Raises:
            InputError: A context that the model does not have, or a likelihood that is no number.
            NotRunError: The other model has other tokens, or is of another kind.
        """
        ...


def arrays_of(found: TokenLikelihoods) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    """Arrays of the likelihoods by name, shape (n,) each; of the model beside with ``beside_`` before it."""
    own = {name: getattr(found, name) for name in ARRAYS}
    return own if found.beside is None else own | {f"beside_{name}": getattr(found.beside, name) for name in BESIDE}
