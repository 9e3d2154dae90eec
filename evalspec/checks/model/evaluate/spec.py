"""`evaluate`: scores of metric modules of the `evaluate` library, your own among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Listing
from evalspec.language.names import Name
from evalspec.language.parts import Check, DatasetName, Need, NeedPredictions, SpecNames


class Evaluate(Check):
    """Scores that metric modules of the Hugging Face `evaluate` library give to a model's answers.

    ## What it measures
    `score(name)`: the number that the module called `name` under `modules:` gives for `predictions` and `references`,
    which are class indices in the order of the model's classes, values, or texts (a list of texts as the reference,
    where the label column has lists). Where a module gives several numbers, the one with the module's name counts.

    ## Why it matters
    A team's own metric, such as the cost of errors, often decides about a release. As a module it is one file that this
    gate, a notebook and a training loop share. This package ships some of its own metrics that way:
    `evalspec.metrics.path("ece")` is the file of `ece`; `brier`, `exact_match` and `token_f1` are there too.

    ## Method
    The module is loaded from its file, never by name from a hub, and only under `--trust`, because it is code. Rows, or
    whole clusters, are dealt to 200 groups; the score is computed once over all rows and once without each group, and
    the pseudo-values are averaged like the losses of rows: BCa by saddlepoint with at least 200 rows, unless a few rows
    carry the score. The score is also computed over 50 halves of the groups: where what the groups add explains less
    than nine tenths of the differences between these halves, as with a median, a percentile or a maximum, there is a
    value and no bound.

    References: Tukey, Annals of Mathematical Statistics 1958. Shao and Tu, The Jackknife and Bootstrap, 1995.

    ## What it cannot show
    Whether the module computes what its name says. A score that depends on few rows, such as a maximum, a median (of
    absolute errors too) or a percentile: it has no bound, so it decides nothing. Which direction is better: both
    operators are accepted.

    ## Example
    ```yaml
    - check: evaluate
      dataset: test
      modules: {cost: metrics/cost.py}
      require: [score(cost) <= 0.2]
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "score",
            "score",
            "neither",
            "What a metric module gives.",
            parts="module",
            interval="jackknife over 200 groups of rows, BCa of the pseudo-values",
        ),
    )

    check: Literal["evaluate"] = "evaluate"
    dataset: DatasetName
    modules: Annotated[dict[Name, str], Listing()] = Field(
        min_length=1, description="Name: file of a metric module of the `evaluate` library; runs under --trust."
    )

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """Names of the modules."""
        return tuple(self.modules)

    def runs_code(self) -> tuple[str, ...]:
        """Code that the check runs: its modules."""
        return tuple(f"the module {path}" for path in self.modules.values())

    def files_named(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Files of the modules, each with its place in the check."""
        yield from ((("modules", name), path) for name, path in self.modules.items())

    def needs(self) -> tuple[Need, ...]:
        """Predictions of the model."""
        return (NeedPredictions(self.dataset, self.model),)
