"""Texts from a causal language model, token by token, with the time at which each token came.

The loop is our own: `generate` of transformers takes defaults from ``generation_config.json`` (temperature, penalties)
that nobody asked for here, and hands tokens to a streamer from another thread's point of view. Its greedy text is the
same, which a test shows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.clocks import now_ns
from evalspec.errors import InputError
from evalspec.runtimes.transformers_model.device_clock import DeviceClock
from evalspec.runtimes.transformers_model.prompts import left_padded
from evalspec.runtimes.transformers_model.text_pieces import TextPieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.streams import StreamedAnswer
    from evalspec.pipeline.prompt import Generate


@dataclass
class Generator:
    """Makes texts with a model.

    Args:
        module: Of transformers, in evaluation mode.
        coder: Its tokenizer.
        place: Its device.
        generate: How a text is made.
        ends: Tokens that end a text.
        longest: Tokens that the model can see at most; None: it does not say.
    """

    module: Any
    coder: Any
    place: Any
    generate: Generate
    ends: tuple[int, ...]
    longest: int | None
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.generate.seed)
        self._takes = inspect.signature(self.module.forward).parameters

    def drawing(self, sample: int) -> Generator:
        """The same with random numbers of its own, for one of several samples."""
        seed = self.generate.seed
        generate = self.generate if seed is None else self.generate.model_copy(update={"seed": seed + sample})
        return replace(self, generate=generate)

    @property
    def pads(self) -> bool:
        """Prompts of unequal lengths can be asked together: the model is told where each token stands."""
        return "position_ids" in self._takes

    def texts(self, prompts: Sequence[list[int]]) -> list[StreamedAnswer]:
        """Answer some prompts together.

        Args:
            prompts: Tokens of each.

        Raises:
            InputError: A prompt is empty, or with its answer longer than what the model sees.
            InvalidError: The device's clock and ours disagree.
        """
        for prompt in prompts:
            self._fits(len(prompt))
        if self.pads or len({len(one) for one in prompts}) == 1:
            return self._together(list(prompts))
        return [self._together([one])[0] for one in prompts]

    def _fits(self, length: int) -> None:
        if not length:
            raise InputError("a prompt has no tokens", remedy="put a word into `prompt`")
        room = self.generate.max_tokens
        if self.longest is not None and length + room > self.longest:
            raise InputError(
                f"a prompt has {length:,} tokens and its answer up to {room:,} (`max_tokens`), but the model takes at "
                f"most {self.longest:,}",
                remedy="use a smaller `max_tokens`, or shorter rows",
            )

    def _together(self, prompts: list[list[int]]) -> list[StreamedAnswer]:
        import torch

        pieces = [TextPieces(self.coder, self.generate.stop) for _ in prompts]
        ids, mask = left_padded(prompts)
        padded = not mask.all()
        with torch.inference_mode():
            clock = DeviceClock(self.place)
            step, seen, cache = torch.from_numpy(ids).to(self.place), torch.from_numpy(mask).to(self.place), None
            for count in range(1, self.generate.max_tokens + 1):
                given = self._asked(step, seen, cache, padded=padded)
                chosen = self._choose(given.logits[:, -1])
                clock.tick()
                # This waits for the device: the token is there for its reader.
                tokens = chosen.tolist()
                at_ns = now_ns()
                clock.heard(at_ns)
                if self._taken(tokens, pieces, at_ns, last=count == self.generate.max_tokens):
                    break
                cache = given.past_key_values
                if cache is None:
                    raise InputError("the model keeps no keys and values from token to token, so it can't be timed")
                step, seen = chosen.unsqueeze(1), torch.cat((seen, seen.new_ones((len(pieces), 1))), dim=1)
            clock.check()
        return [one.answer(len(prompt)) for one, prompt in zip(pieces, prompts, strict=True)]

    def _asked(self, step: Any, seen: Any, cache: Any, *, padded: bool) -> Any:
        more: dict[str, Any] = {}
        if padded:
            more["position_ids"] = (seen.cumsum(dim=1) - 1).clamp(min=0)[:, -step.shape[1] :]
        if "logits_to_keep" in self._takes:
            more["logits_to_keep"] = 1
        return self.module(
            input_ids=step, attention_mask=seen, past_key_values=cache, use_cache=True, return_dict=True, **more
        )

    def _taken(self, tokens: list[int], pieces: list[TextPieces], at_ns: int, *, last: bool) -> bool:
        """Hand each unfinished answer its token; true where none is left."""
        for token, one in zip(tokens, pieces, strict=True):
            if one.finish:
                continue
            if token in self.ends and self.generate.tokens is None:
                one.end("stop", at_ns)
            elif not one.take(token, at_ns) and last:
                one.end("length", at_ns)
        return all(one.finish for one in pieces)

    def _choose(self, scores: Any) -> Any:
        """The next token of each answer, shape (k,)."""
        if self.generate.temperature == 0:
            return scores.argmax(dim=1)
        import torch

        shares = (scores.float() / self.generate.temperature).softmax(dim=1).cpu().double().numpy()
        drawn = drawn_tokens(shares, self.generate.top_p, self.rng.random)
        return torch.from_numpy(drawn).to(self.place)


def drawn_tokens(
    shares: NDArray[np.float64], top_p: float | None, uniform: Callable[[int], NDArray[np.float64]]
) -> NDArray[np.int64]:
    """Tokens drawn at random.

    Args:
        shares: shape (k, v), probabilities.
        top_p: Only the likeliest tokens that together have this probability, the last of them whole; None: all.
        uniform: Numbers in 0..1, so many.

    Returns:
        shape (k,).

    References:
        Holtzman and others (2020), The curious case of neural text degeneration, section 3.1.
    """
    order = np.argsort(-shares, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(shares, order, axis=1), axis=1)
    mass = sums[:, -1]
    if top_p is not None:
        last = np.argmax(sums >= top_p * mass[:, None], axis=1)
        mass = sums[np.arange(len(sums)), last]
    place = np.argmax(sums > (uniform(len(shares)) * mass)[:, None], axis=1)
    drawn: NDArray[np.int64] = order[np.arange(len(order)), place].astype(np.int64)
    return drawn
