"""A causal language model in memory: the likelihood of each token of a text, and of all other tokens in its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import InputError, NotRunError
from evalspec.language.likelihoods import GivesLikelihoods, SideLikelihoods, TokenLikelihoods, Windows
from evalspec.pipeline.loaded import Loaded
from evalspec.runtimes.transformers_model.choice import chosen, laid_out
from evalspec.runtimes.transformers_model.prompts import prompt_tokens, row_values
from evalspec.runtimes.transformers_model.rows import OUTPUTS, WrittenRows, outputs_of
from evalspec.runtimes.transformers_model.windows import TextWindows, Window, cut

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.pipeline.options import MultipleChoice
    from evalspec.pipeline.prompt import Prompt
    from evalspec.pipeline.serve import Served
    from evalspec.runtimes.transformers_model.generation import Generator
    from evalspec.runtimes.transformers_model.prompts import Api

BATCH_BYTES = 1 << 28
"""Most bytes that the logits of one batch take, in 32-bit floats, of all models that are asked together."""
FLOAT_BYTES = 4
OWN, BESIDE = ("nll", "right"), ("beside_nll", "beside_right", "divergence", "flips")


@dataclass(kw_only=True)
class LoadedLanguageModel(Loaded):
    """A module of transformers with its tokenizer.

    Args:
        module: Takes tokens, gives logits.
        coder: Its tokenizer, a fast one.
        place: The device.
        batch: Windows at once at most.
        longest: Tokens that the model can see at most; None: it does not say.
        vocabulary: Scores that it gives for each token.
        api: How a prompt is put together.
        prompt: What it is asked about a row; None: it is asked for likelihoods only.
        generator: Makes texts; None where nothing says how.
        options: What it chooses from; None: it writes.
        options_input: Input that lists the options.
        order: Rotation in which options are shown.
        writes: With options: it is asked for a text.
    """

    module: Any
    coder: Any
    place: Any
    batch: int
    longest: int | None
    vocabulary: int
    api: Api = "chat"
    prompt: Prompt | None = None
    generator: Generator | None = None
    options: MultipleChoice | None = None
    options_input: str = ""
    order: int = 0
    writes: bool = False

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Texts about some rows, together.

        Args:
            inputs: Input of the prompt: shape (n,).

        Returns:
            ``text``, ``finish_reason``, ``tokens``: shape (n,); and ``streamed``, with the times of pieces.

        Raises:
            NotRunError: It has no prompt, so it gives likelihoods of texts only.
            InputError: A row can't be asked about, or its prompt is too long.
        """
        if self.prompt is not None and self.options is not None and not self.writes:
            return chosen(self, self.prompt, self.options, inputs)
        if self.prompt is None or self.generator is None:
            raise NotRunError(
                "a model of kind transformers without `prompt:` gives likelihoods of texts, not answers to rows"
            )
        if self.options is not None:
            inputs = laid_out(self.options, self.options_input, self.order, inputs)
        prompts = [prompt_tokens(self.api, self.prompt, one, self.coder) for one in row_values(inputs)]
        return outputs_of(self.generator.texts(prompts))

    def otherwise(self, template: int, sample: int, order: int, *, writes: bool = False) -> LoadedLanguageModel:
        """As `evalspec.language.abilities.GivesVariants`."""
        prompt = None if self.prompt is None else self.prompt.with_template(template)
        generator = None if self.generator is None else self.generator.drawing(sample)
        other = replace(self, prompt=prompt, generator=generator, order=order, writes=writes)
        return replace(other, output_names=tuple(OUTPUTS), default_outputs=OUTPUTS) if writes else other

    def client(self, served: Served, arrays: Mapping[str, NDArray[Any]]) -> WrittenRows | None:
        """As `evalspec.language.abilities.MakesClient`."""
        writes = self.generator is not None and (self.options is None or self.writes)
        return None if not writes else WrittenRows(served, dict(arrays))

    def likelihoods(
        self,
        texts: Sequence[str],
        windows: Windows,
        beside: GivesLikelihoods | None,
        progress: Callable[[float, float, str], None],
    ) -> TokenLikelihoods:
        """As `evalspec.language.likelihoods.GivesLikelihoods.likelihoods`."""
        began = time.perf_counter()
        parts = cut(texts, self.coder, windows)
        self._fits(max((len(one.seen) for one in parts.windows), default=0), windows)
        other = None if beside is None else self._fitting(beside, parts, texts, windows)
        sums, batch = self._sums(len(texts), parts.windows, other, progress)
        lost = int(np.count_nonzero(~np.isfinite(np.stack(list(sums.values())))))
        if lost:
            raise InputError(
                f"the likelihood of {lost:,} of {len(texts):,} texts is not a finite number",
                remedy="check the weights, or use a different `dtype`",
            )
        return TokenLikelihoods(
            model="",
            tokens=parts.tokens,
            bytes=parts.bytes,
            ends=parts.ends,
            nll=sums["nll"],
            right=sums["right"].astype(np.int64),
            digest=parts.digest,
            first=parts.first,
            begins_twice=parts.begins_twice,
            beside=None if other is None else _side(sums),
            details={
                "vocabulary": self.vocabulary,
                "likelihood_batch": batch,
                "likelihood_seconds": time.perf_counter() - began,
            },
        )

    def _fits(self, seen: int, windows: Windows) -> None:
        """Stop where a window is longer than what the model sees.

        Raises:
            InputError: It is.
        """
        needed = max(seen, windows.context)
        if self.longest is not None and needed > self.longest:
            raise InputError(
                f"the context is {windows.context:,} tokens, {needed:,} with those that begin a text, but the model "
                f"takes at most {self.longest:,}",
                remedy=f"set context: {self.longest - (needed - windows.context)}",
            )

    def _fitting(
        self, beside: GivesLikelihoods, parts: TextWindows, texts: Sequence[str], windows: Windows
    ) -> LoadedLanguageModel:
        """The other model, where it can be asked about the same tokens.

        Raises:
            NotRunError: It can't be.
        """
        if not isinstance(beside, LoadedLanguageModel):
            raise NotRunError("distributions are compared between two models of kind transformers only")
        if cut(texts, beside.coder, windows).digest != parts.digest:
            raise NotRunError(
                "the two models split these texts into different tokens, so their distributions are not compared"
            )
        if beside.vocabulary != self.vocabulary:
            raise NotRunError(
                f"the two models give {self.vocabulary:,} and {beside.vocabulary:,} scores per token, so their "
                "distributions are not compared"
            )
        return beside

    def _sums(
        self,
        texts: int,
        windows: Sequence[Window],
        other: LoadedLanguageModel | None,
        progress: Callable[[float, float, str], None],
    ) -> tuple[dict[str, NDArray[np.float64]], int]:
        """Sums over each text, shape (n,) each, and windows in the largest batch."""
        sums = {name: np.zeros(texts) for name in (OWN if other is None else (*OWN, *BESIDE))}
        models = 1 if other is None else 2
        # Windows of about one length are asked together, so that little is padded.
        order = sorted(range(len(windows)), key=lambda index: len(windows[index].seen), reverse=True)
        done, largest = 0, 0
        while done < len(order):
            length = len(windows[order[done]].seen)
            fit = BATCH_BYTES // (length * self.vocabulary * FLOAT_BYTES * models)
            taken = [windows[index] for index in order[done : done + max(1, min(self.batch, fit))]]
            progress(done, len(order), f"{done:,} of {len(order):,} windows")
            for name, values in self._batch(taken, other).items():
                np.add.at(sums[name], [one.text for one in taken], values)
            done += len(taken)
            largest = max(largest, len(taken))
        return sums, largest

    def _batch(self, taken: Sequence[Window], other: LoadedLanguageModel | None) -> dict[str, NDArray[np.float64]]:
        """Sums over each window, shape (k,) each."""
        import torch

        seen, *rest = _padded(taken)
        with torch.inference_mode():
            mine = self.scores(seen)
            after, scored = (torch.from_numpy(one).to(self.place) for one in rest)

            def summed(values: Any) -> NDArray[np.float64]:
                sums: NDArray[np.float64] = torch.where(scored, values, 0).double().sum(dim=1).cpu().numpy()
                return sums

            def of_model(scores: Any) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
                likeliest = scores.argmax(dim=2)
                nll = -scores.gather(2, after.unsqueeze(2)).squeeze(2)
                return likeliest, summed(nll), summed(likeliest == after)

            top, nll, right = of_model(mine)
            found = {"nll": nll, "right": right}
            if other is None:
                return found
            theirs = other.scores(seen).to(self.place)
            other_top, other_nll, other_right = of_model(theirs)
            # A token that the other model rules out adds nothing.
            apart = torch.where(theirs == -torch.inf, 0.0, theirs.exp() * (theirs - mine)).sum(dim=2)
            return found | {
                "beside_nll": other_nll, "beside_right": other_right, "divergence": summed(apart),
                "flips": summed(top != other_top),
            }  # fmt: skip

    def scores(self, seen: NDArray[np.int64]) -> Any:
        """Logarithms of the likelihoods of all next tokens, a tensor of 32-bit floats.

        Args:
            seen: shape (k, t), -1 where a row is padded at its end.
        """
        import torch

        tokens = torch.from_numpy(seen).to(self.place)
        there = tokens >= 0
        given = self.module(
            input_ids=tokens.clamp(min=0), attention_mask=there.long(), use_cache=False, return_dict=True
        )
        return given.logits.float().log_softmax(dim=2)

    def synchronize(self) -> None:
        if self.place.type != "cpu":
            import torch

            torch.cuda.synchronize(self.place)


def _side(sums: Mapping[str, NDArray[np.float64]]) -> SideLikelihoods:
    # Rounding of 32-bit floats may leave a little below 0.
    return SideLikelihoods(
        model="",
        nll=sums["beside_nll"],
        right=sums["beside_right"].astype(np.int64),
        divergence=np.maximum(sums["divergence"], 0.0),
        flips=sums["flips"].astype(np.int64),
    )


def _padded(taken: Sequence[Window]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Tokens that are seen, those that come after, and where these are scored, shape (k, t) each; padded at the end."""
    shape = (len(taken), max(len(one.seen) for one in taken))
    seen, after, scored = np.full(shape, -1, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    for row, one in enumerate(taken):
        seen[row, : len(one.seen)] = one.seen
        after[row, : len(one.seen)] = one.next
        scored[row, : len(one.seen)] = one.scored
    return seen, after, scored
