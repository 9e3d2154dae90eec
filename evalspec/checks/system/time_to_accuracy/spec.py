"""`time_to_accuracy`: how long a training recipe takes to reach a quality, over seeds, from the logs of its runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from pydantic import Field

from evalspec.errors import InputError, Problem
from evalspec.evidence.metric import Metric
from evalspec.evidence.written import in_unit, shown_unit
from evalspec.language.declarations import Circumstance, Effort
from evalspec.language.header import Header, Misfit
from evalspec.language.parts import Check, DatasetName, Model, Need, NeedRows, Part, SpecNames, TrainingName
from evalspec.language.parts.model import OutputName
from evalspec.language.predictions import GIVES, Task
from evalspec.language.where import column_family
from evalspec.scoring.catalogue.boxes import BOXES, missing_detection
from evalspec.scoring.catalogue.masks import MASKS
from evalspec.scoring.catalogue.metrics import CLASSIFICATION, LABELS, METRICS, REGRESSION, SliceMetric
from evalspec.scoring.catalogue.text import TEXTS, missing_package
from evalspec.timing.targets import (
    EVALUATION_COLUMNS,
    NO_MEASURE,
    Quantity,
    Target,
    TargetSentence,
    check_training,
    is_planned,
    read_target,
)
from evalspec.timing.training_defects import training_defects

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.defects import Defect
    from evalspec.language.requirement import Requirement

QUANTILES = {"p50": 0.5, "p80": 0.8, "p90": 0.9}
QUANTITIES: Mapping[Quantity, tuple[str, str]] = {
    "time": ("min", "Time to the target"),
    "samples": ("samples", "Samples seen up to the target"),
    "cost": ("USD", "Price of the process up to the target, all workers"),
    "energy": ("kJ", "Energy taken up to the target"),
}
REACHED: Mapping[str, tuple[Quantity, float]] = {
    f"{what}_to_accuracy_{name}": (what, q) for what in QUANTITIES for name, q in QUANTILES.items()
}
LOGGED: Mapping[Quantity, str] = {"time": "time_s", "samples": "samples", "cost": "usd_h", "energy": "energy_j"}
"""Column without which a quantity is not known."""
FINAL, FINAL_SHARE = "final_accuracy_p20", 0.8
RATE = "convergence_rate"
LEAST_CONFIDENCE = 0.8
MOST_MIN = 5_256_000.0
"""Ten years: no training takes that long."""
ACCURACY = "accuracy"
METRICS_OF: Mapping[Task, tuple[Metric, ...]] = {
    "classes": CLASSIFICATION, "values": REGRESSION, "labels": LABELS, "text": TEXTS, "boxes": BOXES, "mask": MASKS,
    "embedding": (),
}  # fmt: skip
"""Metrics that can be computed from what a model of each task gives."""
OUTPUTS: Mapping[OutputName, Task] = {
    "boxes": "boxes", "mask": "mask", "text": "text", "value": "values", "logits": "classes",
    "probabilities": "classes", "label": "classes", "embedding": "embedding",
}  # fmt: skip
"""Task that an output of a model shows, the telling ones first."""
OF_PROBABILITIES = frozenset({"roc_auc", "average_precision", "log_loss", "brier"})
OF_TWO_CLASSES = frozenset({"precision", "recall", "f1"})
SCORED = frozenset(get_args(SliceMetric))
"""Metrics that a saved model can be scored by."""
SUGGESTED: Mapping[Task, str] = {
    "classes": "macro_f1", "values": "rmse", "labels": "micro_f1", "text": "exact_match", "boxes": "map",
    "mask": "mean_iou",
}  # fmt: skip
"""One for each task, which is named to whoever wrote another."""
_BINOMIAL = "exact binomial over runs: order statistics"


class Confirmation(Part):
    """Rows that no run ever saw, on which the model that each has saved is scored."""

    dataset: DatasetName = Field(description="Rows that no run ever saw.")
    metric: SliceMetric | None = Field(
        None,
        description="Metric of the check `quality` that the saved models are scored by, precision, recall and f1 of "
        "the second of two classes; default: accuracy, if the target is about it.",
    )
    apart_from: tuple[DatasetName, ...] = Field(
        (), description="Datasets that the runs train and evaluate on: rows of `dataset` among them void the check."
    )

    @property
    def scored_by(self) -> str:
        """Metric that the saved models are scored by."""
        return self.metric or ACCURACY


def measure_named(measure: str) -> str | None:
    """Quality metric that a measure of a log is named after; None: none is known.

    Args:
        measure: `val_accuracy`, `eval/macro_f1`, `top5_accuracy`.
    """
    words = f"_{'_'.join(re.findall(r'[a-z0-9]+', measure.lower()))}_"
    if re.search(r"_top_?(k|[02-9]|1[0-9]+)_", words):
        return "top_k_accuracy"
    named = [one.name for one in METRICS if f"_{one.name}_" in words]
    return max(named, key=len, default=None)


def tasks_declared(model: Model) -> tuple[Task, ...]:
    """Tasks that a model can have, as far as the spec shows it; empty: any.

    Args:
        model: With its outputs and classes.
    """
    shown = next((task for name, task in OUTPUTS.items() if name in model.outputs), None)
    if shown not in (None, "classes"):
        return (shown,)
    if shown is None and (model.outputs or model.classes is None):
        return ()
    one: Task = "labels" if model.multilabel else "classes"
    # Outputs that no spec names are told by their names in the model.
    return (one,) if shown is not None else (one, "boxes", "mask")


class TimeToAccuracy(Check):
    """Time, samples and money that a training recipe takes to reach a quality, over seeds.

    ## What it measures
    Of a training, logs of several runs with different seeds: `time_to_accuracy_p50`, `_p80`, `_p90` [min] until the
    measure of `target:` is reached; `samples_to_accuracy_p50` to `_p90` likewise, which tell convergence from speed;
    `cost_to_accuracy_p50` to `_p90` [USD] where the training has a price (process clock x price x workers);
    `energy_to_accuracy_p50` to `_p90` [kJ] where the log has it; `convergence_rate` [%], the share of runs that get
    there; `final_accuracy_p20`, which 4 of 5 seeds end at or above.

    ## Why it matters
    One run is one draw. Real runs of one recipe differ by 4 to 24 %, some diverge, and the best of 20 seeds is what
    gets reported. At the edge, a mean without the fastest and the slowest run passes 15 to 52 % of the time, the best
    of N nearly always.

    ## Method
    A run has reached the target at the first evaluation whose value, and those of the next `held` - 1, are at it. The
    truth lies between that evaluation and the one before it: PASS counts the later one, FAIL the earlier. A run that
    never got there, crashed, gave NaN or went over the training's `limit:` counts as later than any limit. One whose
    log stops in the middle counts so for a PASS, and as open for a FAIL.
    With k of N runs within X, `p_q <= X` is decided by the exact binomial: p of PASS is P(Bin(N, q) >= k), p of FAIL
    P(Bin(N, q) <= k), and bounds are order statistics. If all runs are within, p50 needs 5 runs, p80 14 and
    p90 29; with one miss 8, 22 and 46. It holds whatever the distribution: Student's t on
    logarithms errs 11 to 17 % in place of 5 % on real lists of MLPerf.
    `<= 1.05x baseline`, another training, is decided by exact permutation of log-rank scores of the candidate's runs
    and the baseline's times 1.05, both cut at the smaller limit; bounds by inversion over the factor. With a log
    that stops in the middle there is no comparison.
    The clock starts with the process (`clock: process`): imports, compilation and loading are in, as far as the log has
    them. `clock: run_start` starts where the log's own clock does, and the time before it is told.
    `samples_to_accuracy_p50 <= 1.05x reference` with `kind: rcp` compares with the reference convergence points of
    MLPerf at the batch size of the runs. Between two batch sizes the points are interpolated, in their order; outside
    of them there is no comparison.
    Runs that the gate makes itself (`kind: command`): the clock starts with the process, by the harness's own clock. A
    run that crashes, runs out of memory or is killed at the limit got nowhere, whatever its log says. One beside which
    other work took the machine is made again once with a new seed, and told; where that has other work beside it too,
    times that are shown to hold in spite of it stand, and all others are INVALID.
    `confirm:` scores the model that each run saved on rows that no run ever saw, by accuracy or by another metric of
    `quality` (`metric:`), with its bounds. A run whose model misses the target there, and by more than its bound leaves
    to chance, has not reached it; one that misses it by no more than that counts as not reached for a PASS, and as
    reached for a FAIL. Runs that log more at their end than their models have there, by twice what the bound leaves to
    chance, are a doubt and told, since times are by the log. So is a model that ships and is better than all fresh
    runs: of N runs one in N + 1 is that by chance. Rows of `apart_from:` that are more than 1 % of those that confirm
    make it INVALID, and fewer are told; rows are the same where all that the model reads and the label are, however
    rows are numbered, and texts spaced and spelled. So does one model, to the byte, that runs with different seeds have
    saved.
    Fewer samples than a reference, shown at 95 %, is a doubt and told: other data, another model, an easier evaluation,
    or leaked validation rows.
    `report: [mlperf]` shows the score of MLPerf Training beside the verdict: drop the fastest and the slowest run, mean
    of the rest, invalid with two runs that did not converge (of 40 runs, four on each side). Against reference points
    it shows the test of convergence, too: the least mean of samples by a one-sided t-test at 5 %, as the rules
    have it, whose deviation is without the dropped points, and as `rcp_checker` of mlperf-logging does, whose deviation
    is of all points and which prunes slow batch sizes. A submission that was faster by chance gets a normalised
    score. None of it decides anything: not too fast is not as good.

    References: Conover, Practical Nonparametric Statistics (quantile test). Peto and Peto (1972), JRSS A 135. MLPerf
    Training rules, with the appendix on reference convergence points.

    ## What it cannot show
    Of logs: that no run was left out, unless `seeds:` says how many were started; that they are of this code and these
    data; that reference points are for this target. Without `confirm:` that the saved model is as good as the log says;
    early stopping on test rows looks like any other target. With it: that a run has trained the model that it saved,
    and did not copy it with a mark of its own; that no row is one of those that the runs saw with another digit.

    ## Example
    ```yaml
    - check: time_to_accuracy
      training: recipe
      target: val_accuracy >= 94 %
      held: 3
      require:
        - time_to_accuracy_p50 <= 30 min
        - convergence_rate >= 70 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    uses_model: ClassVar[bool] = False
    compares_with: ClassVar[Literal["model", "training"]] = "training"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(f"{what}_to_accuracy_{name}", unit, "lower", f"{words} that {100 * q:g} % of runs stay within.",
                   interval=_BINOMIAL, least=0.0, most=MOST_MIN if what == "time" else None)
            for what, (unit, words) in QUANTITIES.items() for name, q in QUANTILES.items()
        ),
        Metric(RATE, "%", "higher", "Share of runs that reach the target.", interval="Clopper-Pearson"),
        Metric(FINAL, "fraction", "higher", "Value of the measure that 4 of 5 runs end at or above.",
               interval=_BINOMIAL),
    )  # fmt: skip

    check: Literal["time_to_accuracy"] = "time_to_accuracy"
    training: TrainingName = Field(description="The training.")
    target: Annotated[TargetSentence, Circumstance()] = Field(
        description="Measure of its logs that a run must reach: `val_accuracy >= 94 %`, `eval_loss <= 3.3`."
    )
    held: Annotated[int, Circumstance()] = Field(
        1, ge=1, le=1000, description="Evaluations in a row that must be at the target; the first of them counts."
    )
    clock: Annotated[Literal["process", "run_start"], Circumstance()] = Field(
        "process", description="Where times start: with the process, or with the log's own clock."
    )
    confirm: Annotated[Confirmation | None, Circumstance()] = Field(
        None, description="Rows that no run ever saw: a run counts if the model that it saved is at the target on them."
    )
    report: Annotated[tuple[Literal["mlperf"], ...], Effort()] = Field(
        (), description="Scores of others that are shown, and decide nothing."
    )

    @property
    def goal(self) -> Target:
        """The target, taken apart."""
        return read_target(self.target)

    def needs(self) -> tuple[Need, ...]:
        """The rows of the training, of those that it is held against, and those that confirm it."""
        names = dict.fromkeys((self.training, *self.sides_named))
        if self.confirm is None:
            return tuple(NeedRows(name, EVALUATION_COLUMNS) for name in names)
        logs = tuple(NeedRows(name, (*EVALUATION_COLUMNS, "saved")) for name in names)
        return (*logs, NeedRows(self.confirm.dataset, label=True), *map(NeedRows, self.confirm.apart_from))

    def check_names(self, names: SpecNames) -> str | None:
        """Fault of a comparison that can't be made, or of a target on another scale."""
        for one in self.requirements:
            if one.model == self.training:
                return f"{self.name} would compare {one.model} with itself: name another training"
            if one.model is not None and one.metric not in REACHED:
                return f"{one.metric} can't be compared with {one.model}: write a number"
            if one.model is not None and one.threshold and one.has_offset:
                return f"two trainings are compared by a factor: write {one.metric} {one.op} 1.05x {one.model}"
            if one.metric == FINAL and not self.goal.rising:
                return f"{FINAL} is of a measure that rises, and the target is {self.target!r}: remove the sentence"
        return None if self.confirm is None else self._fault_of(self.confirm)

    def _fault_of(self, confirm: Confirmation) -> str | None:
        """Fault of a confirmation: what it scores is not what the target is about."""
        if confirm.dataset in confirm.apart_from:
            return f"`confirm:` names {confirm.dataset} as rows that the runs saw and never saw: name two datasets"
        named = measure_named(self.goal.metric)
        if confirm.metric is None and named not in (None, ACCURACY):
            such = f", such as `confirm: {{metric: {named}}}`" if named in SCORED else ""
            return (
                f"the target is about {self.goal.metric}, which is not accuracy: name what the saved models are scored "
                f"by{such}"
            )
        metric = next(one for one in METRICS if one.name == confirm.scored_by)
        better = "rises" if metric.better == "higher" else "falls"
        if (better == "rises") != self.goal.rising:
            such = ACCURACY if self.goal.rising else "log_loss"
            return (
                f"`confirm:` scores {metric.name}, better when it {better}, and the target is {self.target!r}: name "
                f"the metric that the target is about, such as `confirm: {{metric: {such}}}`"
            )
        if metric.unit == "fraction" and self.goal.value > 1.0:
            return (
                f"`confirm:` scores {metric.name}, a fraction of 1, and the target is {self.target!r}: write one up to "
                "100 %"
            )
        if metric.unit != "fraction" and self.goal.percent:
            return (
                f"`confirm:` scores {metric.name}, which is not a share, and the target {self.target!r} is in %: write "
                "it without %"
            )
        return missing_package(metric.name) or missing_detection(metric.name)

    def fault_of_made(self, training: str, model: Model) -> str | None:
        """Answers that the metric of `confirm:` can't be computed from, where the spec says what the model gives."""
        if self.confirm is None or training != self.training:
            return None
        metric, tasks = self.confirm.scored_by, tasks_declared(model)
        if tasks and not any(one.name == metric for task in tasks for one in METRICS_OF[task]):
            what = GIVES[tasks[0]]
            such = f": name a metric of {what}, such as {SUGGESTED[tasks[0]]}" if tasks[0] in SUGGESTED else ""
            return f"the model gives {what}, and {metric} of `confirm:` can't be computed from them{such}"
        if (
            "label" in model.outputs
            and metric in OF_PROBABILITIES
            and not {"logits", "probabilities"} & {*model.outputs}
        ):
            return (
                f"{metric} of `confirm:` is of probabilities, and `outputs` names labels alone: add logits or "
                "probabilities, or name one of classes, such as macro_f1"
            )
        several = isinstance(model.classes, tuple | list) and len(model.classes) != 2
        if several and metric in OF_TWO_CLASSES:
            return (
                f"{metric} of `confirm:` is of the second of two classes, and the model has "
                f"{len(model.classes or ())}: name macro_{metric}"
            )
        return None

    def check_headers(self, headers: Mapping[str, Header], labels: Mapping[str, str]) -> Iterator[Misfit]:
        """A label of words, of which there are no errors in numbers."""
        if self.confirm is None or self.confirm.dataset not in headers:
            return
        label = labels.get(self.confirm.dataset, "")
        holds = headers[self.confirm.dataset].columns.get(label, "")
        of_numbers = any(one.name == self.confirm.scored_by for one in REGRESSION)
        if of_numbers and column_family(holds) == "text":
            message = f"{self.confirm.scored_by} is of numbers, and the label {label!r} holds {holds}"
            yield Misfit(("confirm", "metric"), Problem(message, remedy="name a metric of classes, such as accuracy"))

    def measures_read(self, training: str) -> tuple[str, ...]:
        """The measure of the target."""
        return (self.goal.metric,)

    def inspects(self) -> tuple[NeedRows, ...]:
        """Runs and measures of the training, whose number says what can be shown, and of those it is held against."""
        own = ("run", "status", "metric", "value", "limit_s", *LOGGED.values())
        others = ("metric",)
        return (NeedRows(self.training, own), *(NeedRows(name, others) for name in self.sides_named))

    def inspect_rows(self, tables: Mapping[str, pa.Table], rows: Mapping[str, int | None]) -> object:
        """Number of runs; refuses a measure that is not logged, a limit that is too short, and too few runs."""
        table = tables[self.training]
        planned = is_planned(table)
        if not planned:
            check_training(self.goal, self.training, table)
        runs = len(set(table.column("run").to_pylist()))
        limits = [one for one in table.column("limit_s").to_pylist() if one is not None]
        for one in self.requirements:
            self._check_limit(one, limits[0] if limits else None)
            self._check_runs(one, runs)
            self._check_logged(one, table, planned=planned)
            if one.model is not None:
                self._check_points(one, tables[one.model], one.model)
        return runs

    def _check_points(self, one: Requirement, beside: pa.Table, name: str) -> None:
        """Refuse to hold anything but samples against reference points."""
        if set(beside.column("metric").to_pylist()) == {NO_MEASURE} and REACHED[one.metric][0] != "samples":
            message = f"{one.sentence!r} asks for more than {name} knows, which are points in samples"
            raise InputError(message, remedy=f"require samples_to_accuracy_p50 <= 1.05x {name}")

    def _check_limit(self, one: Requirement, limit_s: float | None) -> None:
        if limit_s is None or one.model is not None or not one.metric.startswith("time_"):
            return
        # As far as a float tells them apart: seconds are no whole number of minutes.
        if limit_s < 60.0 * one.threshold * (1.0 - 1e-9):
            unit = shown_unit("min", one.written_unit)
            limit = f"{in_unit(limit_s, 's', unit):g} {unit}"
            message = f"{one.sentence!r} asks for more than the limit of {self.training}, {limit}"
            raise InputError(message, remedy="raise `limit:`, so that a run has the time that it is allowed")

    def _check_logged(self, one: Requirement, table: pa.Table, *, planned: bool) -> None:
        what = REACHED[one.metric][0] if one.metric in REACHED else None
        # What a run that is still to be made will log is not known, but for its price.
        if what is None or (planned and what != "cost") or table.column(LOGGED[what]).null_count < len(table):
            return
        remedy = "add `cost:`, the price of a worker" if what == "cost" else "name the column that has it"
        raise InputError(f"no log of {self.training} says the {what} that {one.sentence!r} is about", remedy=remedy)

    def _check_runs(self, one: Requirement, runs: int) -> None:
        from evalspec.stats.training.reached import runs_to_pass

        share = REACHED[one.metric][1] if one.metric in REACHED else FINAL_SHARE if one.metric == FINAL else None
        if share is None or one.model is not None:
            return
        # The policy's confidence is not known here; below the least that it can be nothing ever passes.
        needed = runs_to_pass(share, LEAST_CONFIDENCE)
        if runs < needed:
            message = f"{runs} runs of {self.training} can't show {one.sentence!r}: {needed} are needed at least"
            raise InputError(message, remedy="train more seeds, or require a lower quantile")

    def defects(self) -> tuple[Defect, ...]:
        """Runs that take longer, need more samples, or never get there."""
        return tuple(training_defects(self.training, self.goal))
