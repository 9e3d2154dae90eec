"""`compression`: gains of a smaller model, and its losses where the average does not show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric, Shows
from evalspec.language.declarations import Effort, Listing
from evalspec.language.parts import (
    Check,
    DatasetName,
    ModelName,
    Need,
    NeedLikelihoods,
    NeedPredictions,
    NeedRows,
    NeedTiming,
    Part,
    SpecNames,
)
from evalspec.language.requirement import Same
from evalspec.language.units import custom_error
from evalspec.scoring.catalogue.metrics import LABEL_WORD
from evalspec.scoring.cross import Cross, entries_of
from evalspec.scoring.sample_size import Sample, never_shown, never_shown_of_pairs

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

Method = Literal["quantization", "pruning", "distillation"]
MANDATORY: dict[Method, tuple[tuple[str, ...], str]] = {
    "quantization": (("ece_increase",), "rounding moves confidence and the rows near a boundary first"),
    "pruning": (("worst_slice_drop",), "what is pruned away is what rare rows needed"),
    "distillation": (
        ("accuracy_drop", "ece_increase"),
        "a student that agrees with its teacher may share its mistakes, and is surer of them",
    ),
}
"""Method: metrics that blocking requirements must cover, and why."""
DROPS = ("accuracy_drop", "top_5_drop", "worst_slice_drop")
RATES = ("flip_rate", "break_rate")
MEANS = ("output_divergence", "logit_distance", "mae_increase")
PERPLEXITY = "perplexity_ratio"
OF_OPERATORS = ("operator_coverage", "operators_lost")
PAIRS = 5
BLOCK_S = 1.0
START_S = 3.0
QUERIES = 200
_TANGO = "Tango's score interval on the rows of both models"
_SHARE = "Clopper-Pearson, with clusters after Korn and Graubard"


LOST: Mapping[str, str] = {
    "accuracy_drop": "accuracy", "top_5_drop": "top_k_accuracy(5)", "mae_increase": "mae",
}  # fmt: skip
"""Metric of a loss: the metric of `quality` that the loss is in."""


class Texts(Part):
    """Texts that language models are asked the likelihood of."""

    dataset: DatasetName
    column: str = Field(min_length=1, description="Column with the texts.")
    context: int = Field(512, ge=2, description="Tokens of each text that are scored, from its beginning.")


class Compression(Check):
    """Gains of a compressed model in size and speed, and its losses, against the model it was made from.

    ## What it measures
    `size_ratio` and `speedup`: how many times smaller the file is and how many times shorter the median latency, which
    is measured here, with the models taking turns. `accuracy_drop`, `top_5_drop`: points lost. `ece_increase`: how much
    further the confidence is from the accuracy. `flip_rate`: rows that get another class; `break_rate`: rows that only
    the baseline gets right. `worst_slice_drop`: the largest loss of a slice (`by:`); `slices_too_small`: cells
    enumerated from columns that have too few rows to count. `output_divergence`: mean Kullback-Leibler divergence of
    the probabilities from the baseline's, in nats. `logit_distance`: mean distance of the scores before softmax from
    the baseline's, where 1 is the spread of the baseline's own scores from row to row. `perplexity_ratio`, of language
    models and with `heldout:`: the perplexity of the candidate by the baseline's. `operator_coverage`: share of
    the operators that ran on the device asked for. `operators_lost`: convolutions, products, attention and recurrent
    operators that the baseline is written with and the candidate is not. Models with values: `mae_increase`, and as
    divergence the mean difference of the two models in spreads of the baseline's values. Where a row may have several
    classes, an answer is right where all of them are, and `ece_increase` is about the answer for each class.

    ## Why it matters
    An INT8 copy that loses 0.3 points overall may lose 6 in the dark, flip 4 % of all answers, and be over-confident.
    Each kind of compression hides its damage in another place, so each has mandatory requirements: quantization on
    `ece_increase`, pruning on `worst_slice_drop`, distillation on `accuracy_drop` and `ece_increase`. Agreement with
    the baseline alone decides nothing: the baseline may be wrong itself. A layer that was left out because the top
    answer rarely changes shows in the scores behind that answer and in the count of operators; an operator that the
    device can't run is handed back to the CPU, with copies around it.

    ## Method
    Both models answer the same rows. Drops: Tango's score interval, corrected for skewness and continuity; exact
    McNemar is printed. The worst slice: all slices must hold, as in `slices`. Shares of rows: Clopper-Pearson. The
    increase of ECE: the bounds of both models, each at half the level, which is wide rather than narrow. Divergence and
    mean errors: BCa of the mean with at least 200 rows. Distance before softmax: Euclidean over the classes, each row's
    scores less their mean (softmax ignores what is added to all classes); with several classes a row, the log-odds of
    each. Perplexity: the ratio of `likelihood`, paired by document on the same tokens, one window of each; models with
    other tokenizers are refused. Probabilities determine these scores as logits do, unless one is 0, as a forest's may
    be: then there is no distance. Distances, and differences of values, are divided by the spread: the mean distance of
    the baseline's rows
    from their mean. It comes from the same rows, and its error counts. A copy that answers just as the baseline does
    has a value of 0 and no bound: its rows don't tell how far others may lie. Operators: seen as in `precision`, in one
    fresh process of the candidate and one of the baseline, for one item; exact facts. Lost operators are counted as the
    models are written, before a runtime fuses anything; between frameworks an attention counts as two products, and
    recurrent layers can't be counted. Speed: A B B A blocks of at least 1 s in pairs of fresh processes, one item at a
    time; t on the log ratio of each pair's medians (further candidates are timed against the check's own model). Size:
    bytes of the files. `candidates:` names further models for the table and the front (those that no other beats in
    size, speed and accuracy together); requirements are about `model:`. A model quantized with calibration data must
    name them (`quantization: {method: static, calibration: train}`), and they can't be the rows that it is judged on.
    With `float_model:` the signal-to-noise ratio of every tensor between the float and the quantized graph is shown
    (onnxruntime's debugger): a diagnosis, never a requirement.

    References: Tango, Statistics in Medicine 1998. Dutta et al., Accuracy is not all you need, NeurIPS 2024
    (flips). Hooker et al., What do compressed deep neural networks forget, 2019. Kalibera and Jones, ISMM 2013
    (pairs).

    ## What it cannot show
    Speed under load, memory and energy: see `load`, `memory`, `energy` of the candidate. Which rows pay for the
    compression, where no slice is named. Whether the calibration data resemble what comes in: see `shift`. Operators of
    models that show none (scikit-learn, Python, servers, files of predictions). Whether operators other than those
    counted were left out: a table names them where both models are of one framework, but exporters also fuse or fold
    them rightly. A network that is meant to have fewer layers loses operators by design.

    ## Example
    ```yaml
    - check: compression
      dataset: test
      method: quantization
      baseline: baseline
      by: [dark, occluded]
      require:
        - accuracy_drop <= 2 pp
        - ece_increase <= 0.05
        - worst_slice_drop <= 5 pp
        - size_ratio >= 2x
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    each_template: ClassVar[bool] = True
    compares: ClassVar[bool] = True
    shows: ClassVar[tuple[Shows, ...]] = ("only a difference of models",)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "size_ratio", "x", "higher", "Bytes of the baseline's files by those of the candidate's.",
            exact=True, neutral=1.0,
        ),
        Metric(
            "speedup", "x", "higher", "Median latency of the baseline by that of the candidate.",
            interval="t on the log ratio of each pair of fresh processes",
            neutral=1.0,
        ),
        Metric(
            "accuracy_drop", "pp", "lower", "Accuracy of the baseline minus the candidate's.",
            interval=_TANGO, neutral=0.0, label="loss of accuracy against the baseline",
        ),
        Metric(
            "top_5_drop", "pp", "lower", "Top-5 accuracy of the baseline minus the candidate's.",
            interval=_TANGO, neutral=0.0, label="loss of top-5 accuracy against the baseline",
        ),
        Metric(
            "ece_increase", "fraction", "lower", "`ece` of the candidate minus the baseline's.",
            interval="the bounds of both (test inversion), each at half the level", least=-1.0,
            neutral=0.0, scales="increase of an error", label="rise of the calibration error",
        ),
        Metric(
            "flip_rate", "%", "lower", "Share of rows that get another class.", interval=_SHARE,
            label="rows that get another class",
        ),
        Metric(
            "break_rate", "%", "lower", "Share of rows that only the baseline gets right.", interval=_SHARE,
            label="rows that only the baseline gets right",
        ),
        Metric(
            "worst_slice_drop", "pp", "lower", "The largest loss of accuracy of a slice.",
            interval=f"all slices must clear the threshold, each by {_TANGO}",
            neutral=0.0,
            extreme=True, label="loss of accuracy in the worst slice",
        ),
        Metric(
            "slices_too_small", "count", "lower", "Cells enumerated from columns with fewer than min_n rows.",
            exact=True, label="slices with too few rows",
        ),
        Metric(
            "output_divergence", "score", "lower", "Mean divergence of the outputs from the baseline's.",
            interval="BCa of the mean (saddlepoint) with at least 200 rows", label="divergence of the outputs",
        ),
        Metric(
            "logit_distance", "score", "lower",
            "Mean distance of the scores before softmax from the baseline's, by the spread of those.",
            interval="BCa of the mean (saddlepoint) with at least 200 rows",
        ),
        Metric(
            "perplexity_ratio", "x", "lower", "Perplexity of the candidate by the baseline's, on `heldout:`.",
            interval="BCa of a ratio of sums by document (saddlepoint) with at least 200 documents, tested at the "
                     "logarithm of the threshold",
            neutral=1.0, label="perplexity beside the baseline's",
        ),
        Metric(
            "operator_coverage", "%", "higher", "Operators that ran on the device asked for.", exact=True,
            label="operators on the device asked for",
        ),
        Metric(
            "operators_lost", "count", "lower",
            "Convolutions, products, attention and recurrent operators of the baseline that it is written without.",
            exact=True, label="operators that the baseline has and the candidate lacks",
        ),
        Metric(
            "mae_increase", "label", "lower", "Mean absolute error of the candidate minus the baseline's.",
            interval="BCa of the paired differences (saddlepoint) with at least 200 rows",
            neutral=0.0, label="rise of the mean absolute error",
        ),
    )  # fmt: skip

    check: Literal["compression"] = "compression"
    dataset: DatasetName
    method: Method = Field(description="How the candidate was made: it decides what must be required.")
    baseline: ModelName = Field("baseline", description="The model that it was made from.")
    candidates: tuple[ModelName, ...] = Field((), description="Further models for the table and the front.")
    by: Annotated[tuple[Cross | str, ...], Listing()] = Field(
        (), description="Slices, as in `slices`: names, columns, or {cross: [a, b]}."
    )
    min_n: Annotated[int, Listing()] = Field(
        100, ge=1, description="Rows from which on a cell enumerated from columns counts."
    )
    bins: int = Field(10, gt=1, le=100, description="Bins of `ece` before merging.")
    speed: bool = Field(True, description="Time the models; false: for predictions that were made elsewhere.")
    operators: bool = Field(True, description="Look at the operators; false: for models that show none.")
    heldout: Texts | None = Field(
        None, description="Language models: what `perplexity_ratio` is about: {dataset: books, column: body}."
    )
    float_model: str | None = Field(
        None, description="ONNX file of the same network in floats, for the signal-to-noise ratio of each tensor."
    )
    show_examples: Annotated[bool, Effort()] = Field(
        True, description="Show rows that only one of the models gets right."
    )

    @property
    def entries(self) -> tuple[tuple[str, ...], ...]:
        """Entries of ``by``, each as the names that are crossed."""
        return entries_of(self.by)

    @property
    def others(self) -> tuple[str, ...]:
        """Models that are compared with the baseline, the check's own first."""
        return tuple(dict.fromkeys((self.model, *self.candidates)))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models beside the subject of the check: the baseline and further candidates."""
        return (self.baseline, *(name for name in self.candidates if name != self.model))

    @model_validator(mode="after")
    def _mandatory(self) -> Self:
        if self.baseline in self.others:
            raise custom_error(Problem(f"{self.baseline!r} is compared with itself", remedy="name another `baseline:`"))
        about = {requirement.metric for requirement in self.blocking}
        wanted, why = MANDATORY[self.method]
        lacking = [metric for metric in wanted if metric not in about]
        if about and lacking:
            message = f"method {self.method} needs a requirement on {' and '.join(lacking)}: {why}"
            unit = {"ece_increase": "0.02"}.get(lacking[0], "2 pp")
            raise custom_error(Problem(message, remedy=f"add `{lacking[0]} <= {unit}` to `require:`"))
        return self

    def check_names(self, names: SpecNames) -> str | None:
        """Reason why small cells are not bounded or calibration can't be trusted; None where all is well."""
        enumerated = sorted({name for entry in self.entries for name in entry} - set(names.slices))
        about = {requirement.metric for requirement in self.blocking}
        if enumerated and "worst_slice_drop" in about and "slices_too_small" not in about:
            return (
                f"check {self.name!r} takes slices from {', '.join(enumerated)} and skips those with fewer than "
                f"{self.min_n} rows; bound them: add `slices_too_small == 0` to its requirements"
            )
        if self.method != "quantization" or self.model not in names.quantization:
            return None
        return uncalibrated(self.model, names.quantization[self.model], self.dataset)

    def columns_read(self, names: SpecNames) -> Mapping[str, tuple[str, ...]]:
        """Entries of ``by`` that are no slices."""
        columns = (name for entry in self.entries for name in entry if name not in (*names.slices, LABEL_WORD))
        read = {self.dataset: tuple(dict.fromkeys(columns))}
        if self.heldout is not None:
            read[self.heldout.dataset] = (*read.get(self.heldout.dataset, ()), self.heldout.column)
        return read

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass: another model, no slices, timings or operators, or too few rows for a bound.

        The best outcome for a quantized or pruned copy is that it answers as the baseline does; a student may be better
        than its teacher.
        """
        if requirement.model is not None:
            return f"{requirement.metric} is against `baseline:` already; remove {requirement.model} from the sentence"
        if requirement.metric == "worst_slice_drop" and not self.by:
            return "worst_slice_drop needs `by:`, the slices that it is about"
        if requirement.metric == "speedup" and not self.speed:
            return "speedup needs timings, and the check has `speed: false`"
        if requirement.metric in OF_OPERATORS and not self.operators:
            return f"{requirement.metric} needs the operators, and the check has `operators: false`"
        if requirement.metric == PERPLEXITY:
            if self.heldout is None:
                return f"{PERPLEXITY} needs `heldout:`, such as heldout: {{dataset: books, column: body}}"
            name = self.heldout.dataset
            return never_shown(requirement, "mean", Sample(name, rows.get(name), confidence, more="add documents"))
        sample = Sample(self.dataset, rows.get(self.dataset), confidence)
        if requirement.metric in DROPS:
            return None if self.method == "distillation" else never_shown_of_pairs(requirement, sample)
        if requirement.metric in RATES:
            return never_shown(requirement, "share", sample, "none of them changed")
        return never_shown(requirement, "mean", sample) if requirement.metric in MEANS else None

    def needs(self) -> tuple[Need, ...]:
        """Predictions of all models, the rows, and timings in pairs with the baseline."""
        models = (self.baseline, *self.others)
        answers = tuple(NeedPredictions(self.dataset, model) for model in models)
        seconds = PAIRS * (2 * START_S + 4 * BLOCK_S)
        timings = [NeedTiming(self.dataset, model, PAIRS * QUERIES, seconds) for model in self.others]
        timings.append(NeedTiming(self.dataset, self.baseline, PAIRS * QUERIES * len(self.others), 0.0))
        likelihoods: tuple[Need, ...] = ()
        if self.heldout is not None:
            asked = (self.baseline, *self.others)
            likelihoods = (
                NeedRows(self.heldout.dataset, columns=(self.heldout.column,)),
                *(NeedLikelihoods(self.heldout.dataset, model) for model in asked),
            )
        return (*answers, NeedRows(self.dataset, label=True), *likelihoods, *(timings if self.speed else ()))

    def paired_by_token(self) -> Iterable[tuple[Requirement, str]]:
        """Requirements on the ratio of perplexities."""
        return ((one, self.baseline) for one in self.requirements if one.metric == PERPLEXITY)

    def same(self, requirement: Requirement) -> Same | None:
        """Requirement as `quality` may make it too; None where it is about no metric of `quality`."""
        metric = LOST.get(requirement.metric)
        if metric is None:
            return None
        strict, margin = requirement.op == "<", -requirement.threshold
        return Same(metric, self.dataset, self.model, self.baseline, strict, margin)


def uncalibrated(model: str, quantization: Mapping[str, str], judged: str) -> str | None:
    """Reason why a quantized model's calibration can't be trusted; None where it can, or where it needs none.

    Args:
        model: Name of the model.
        quantization: Field of that name in the spec.
        judged: Dataset that the model is judged on.
    """
    if "method" not in quantization:
        return (
            f"the spec does not say how {model} was quantized; add `quantization: {{method: static, calibration: "
            "train}` to the model (method: dynamic or weight_only needs no calibration)"
        )
    if quantization["method"] in ("dynamic", "weight_only", "weight-only", "qat"):
        return None
    if "calibration" not in quantization:
        return (
            f"the spec does not say on which rows {model} was calibrated; add `calibration:`, the name of that "
            "dataset, to its `quantization:`"
        )
    if quantization["calibration"] == judged:
        return f"{model} was calibrated on {judged}, so {judged} can't judge it; take rows that it has not seen"
    return None
