"""`likelihood`: how well a language model foresees texts, alone and beside the model that it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Circumstance, Effort
from evalspec.language.parts import Check, DatasetName, ModelName, Need, NeedLikelihoods, NeedRows, SpecNames
from evalspec.language.units import custom_error
from evalspec.scoring.sample_size import Kind, Sample, never_shown

if TYPE_CHECKING:
    from evalspec.language.defects import Defect
    from evalspec.language.requirement import Requirement

DISTRIBUTIONS = ("divergence", "top_token_flips")
"""Metrics that need all next tokens of both models."""
BY_TOKEN = ("perplexity", "next_token_accuracy", *DISTRIBUTIONS)
"""Metrics that mean nothing between two tokenizers."""
_MEAN = "BCa of the ratio of sums over documents (saddlepoint) with at least 200 documents"
_SHARE = "BCa of the ratio of sums over documents, Gaffke's bound where few documents carry"


class Likelihood(Check):
    """How likely a language model holds texts that people wrote, and how far a copy of it has moved.

    ## What it measures
    A causal language model (`kind: transformers`) reads the texts of one column and gives each token a likelihood,
    knowing the tokens before it. `perplexity`: the exponential of the mean negative logarithm (nats) by token.
    `bits_per_byte`: the same in bits, by byte of UTF-8, which means the same for every tokenizer.
    `next_token_accuracy`: share of tokens that the model thought the likeliest. Against `baseline:`, on the same
    tokens: `divergence`, the mean Kullback-Leibler divergence of the model's next-token distribution from the
    baseline's, in nats a token; `top_token_flips`, the share of tokens whose likeliest candidate differs between the
    two.

    ## Why it matters
    A quantized or pruned language model may answer a hundred questions of a benchmark as before and have moved
    everywhere else. Likelihoods look at every token of a text, so that they show a change of one per cent with a few
    hundred documents, where a share of right answers takes tens of thousands.

    ## Method
    The unit is the document, never the token: tokens of a text depend on each other, and a few long texts count for
    few. Of each text one window of `context` tokens is taken, its first; `windows: all` takes the whole text, each
    window `stride` tokens after the one before (default: no overlap), and each token is scored once. Where the
    tokenizer puts no begin token before a text, one is put there (or the end token, where it has no other); begin, end
    and padding tokens are seen and not scored. Logits are taken as 32-bit floats, one batch at a time.
    With nats d and tokens t of a document, `perplexity <= K` holds where the mean of d - ln(K) t is at most 0, and
    `perplexity <= 1.02x baseline` where that of d - d_baseline - ln(1.02) t is, on the same tokens: tested at the
    threshold, over documents, by BCa with the saddlepoint form of the bootstrap. Rows of one `cluster:` are summed
    first. Shares (`next_token_accuracy`, `top_token_flips`) have bounds from any number of documents on.
    Perplexities of two tokenizers are refused, since the same text has a different number of tokens; `bits_per_byte` is
    compared on the same characters. For `divergence` and `top_token_flips` both models are held in memory.

    References: Efron (1987), JASA 82 (BCa). Jelinek et al. (1977), JASA 62 (perplexity). Gao et al., The Pile,
    arXiv 2101.00027, section 3.1 (bits by byte). Dutta et al., Accuracy is not all you need, NeurIPS 2024 (flips).

    ## What it cannot show
    Whether what the model writes is right, useful or harmless. A text that it was trained on is likely for that alone:
    take texts that are newer than its training (see `contamination`). The beginnings of documents, which the default
    takes, are harder to foresee than what follows. Documents that begin alike count as independent, unless `cluster:`
    says what they share. Of another tokenizer the last token before the cut may be cut in two. Models that show their
    likelihoods to nobody, as most servers.

    ## Example
    ```yaml
    - check: likelihood
      dataset: test
      column: body
      context: 512
      require:
        - perplexity <= 1.02x baseline
        - bits_per_byte <= 1.4
        - divergence <= 0.02
        - top_token_flips <= 3 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "perplexity", "score", "lower", "Exponential of the mean nats of a token.", least=1.0,
            interval=f"{_MEAN}, tested at the logarithm of the threshold",
        ),
        Metric(
            "bits_per_byte", "score", "lower", "Bits that a byte of text takes.", least=0.0, interval=_MEAN,
            label="bits a byte of text",
        ),
        Metric(
            "next_token_accuracy", "%", "higher", "Share of tokens that the model thought the likeliest.",
            interval=_SHARE,
        ),
        Metric(
            "divergence", "score", "lower", "Mean divergence of the next token from the baseline's, nats a token.",
            least=0.0, interval=_MEAN, shows=("only a difference of models",),
        ),
        Metric(
            "top_token_flips", "%", "lower", "Share of tokens whose likeliest candidate differs from the baseline's.",
            interval=_SHARE, shows=("only a difference of models",),
            label="tokens that the baseline would not choose",
        ),
    )  # fmt: skip

    check: Literal["likelihood"] = "likelihood"
    dataset: DatasetName
    column: Annotated[str, Circumstance()] = Field(min_length=1, description="Column with the texts.")
    context: Annotated[int, Circumstance()] = Field(512, ge=2, description="Tokens that the model sees at most.")
    stride: Annotated[int | None, Circumstance()] = Field(
        None, ge=1, description="Tokens from one window to the next; default: `context`, without overlap."
    )
    windows: Annotated[int | Literal["all"], Circumstance()] = Field(
        1, description="Windows of each text at most, from its beginning; `all`: the whole text."
    )
    baseline: ModelName = Field("baseline", description="Model that `divergence` and `top_token_flips` are against.")
    show_examples: Annotated[bool, Effort()] = Field(
        True, description="Name documents in the report: those that are least likely, or have lost most."
    )

    @model_validator(mode="after")
    def _windows_touch(self) -> Self:
        if isinstance(self.windows, int) and self.windows < 1:
            raise custom_error(Problem(f"{self.windows} windows hold no text", remedy="write windows: 1, or all"))
        if self.stride is not None and self.stride > self.context:
            message = f"a stride of {self.stride} steps over tokens: a window has {self.context}"
            raise custom_error(Problem(message, remedy=f"write stride: {self.context}, or less"))
        return self

    @property
    def together(self) -> str | None:
        """The model whose distributions are compared with the candidate's; None: none is asked for."""
        asked = any(one.metric in DISTRIBUTIONS for one in self.requirements)
        return self.baseline if asked else None

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models named in its requirements, and the baseline of distributions."""
        named = (*(one.model for one in self.requirements), self.together)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def check_names(self, names: SpecNames) -> str | None:
        """Reason why there is nothing to hold distributions against; None: there is."""
        if self.together is None or (self.together in names.models and self.together != self.model):
            return None
        what = next(one.metric for one in self.requirements if one.metric in DISTRIBUTIONS)
        why = "is the model itself" if self.together == self.model else "is not a model of the spec"
        return f"{what} is compared with `baseline:`, and {self.together!r} {why}; name the model it was made from"

    def paired_by_token(self) -> Iterable[tuple[Requirement, str]]:
        """Requirements that hold the model against another one by tokens."""
        for one in self.requirements:
            other = self.baseline if one.metric in DISTRIBUTIONS else one.model
            if other is not None and one.metric in BY_TOKEN:
                yield one, other

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass: no such comparison, or too few documents for a bound."""
        metric, model = requirement.metric, requirement.model
        if model is not None and metric in DISTRIBUTIONS:
            return f"{metric} is against `baseline:` already; remove {model} from the sentence"
        if model is not None and metric == "perplexity" and requirement.threshold != 0.0:
            return f"perplexities are compared as a ratio; write perplexity <= 1.02x {model}"
        kind: Kind = "mean"
        if metric in ("next_token_accuracy", "top_token_flips"):
            kind = "share" if model is None else "any"
        sample = Sample(self.dataset, rows.get(self.dataset), confidence, more="add documents")
        return never_shown(requirement, kind, sample, "every token the likeliest")

    def defects(self) -> tuple[Defect, ...]:
        """Tokens that are less likely, not foreseen, or thought of otherwise than by the baseline."""
        planted: tuple[Defect, ...] = self.room("defects").planted(self.model)
        return planted

    def needs(self) -> tuple[Need, ...]:
        """Texts, and likelihoods of each model."""
        others = [name for name in self.baselines if name != self.together]
        return (
            NeedRows(self.dataset, columns=(self.column,)),
            NeedLikelihoods(self.dataset, self.model, self.together),
            *(NeedLikelihoods(self.dataset, name) for name in others),
        )
