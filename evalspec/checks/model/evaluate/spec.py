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
    """What metric modules of the Hugging Face `evaluate` library say of a model's answers.

    ## What it measures
    `score(name)`: the number that the module called `name` under `modules:` gives for `predictions` and `references`:
    class indices in the order of the model's classes, values, or texts (a list of texts as reference, where the label
    column has lists). Where a module gives several numbers, the one that is called like the module counts.

    ## Why it matters
    A team's own metric, such as a cost of errors, is often what the release hangs on. As a module it is one file that
    this gate, a notebook and a training loop share. This package ships some of its own numbers that way:
    `evalspec.metrics.path("ece")` is the file of `ece`, and of `brier`, `exact_match` and `token_f1` alike.

    ## Method
    The module is loaded from its file, never by name from a hub, and only under `--trust`: it is code. Rows, or whole
    clusters, are dealt to 200 groups; the score is computed once of all rows and once without each group, and the
    pseudo-values are averaged like item losses: BCa by saddlepoint, from 200 rows on, where no few rows carry the
    score. The score is computed of 50 halves of the groups too: where what their groups add does not explain nine
    tenths of how these differ, as with a median, a percentile or a maximum, there is a value and no bound.

    References: Tukey, Annals of Mathematical Statistics 1958. Shao and Tu, The Jackknife and Bootstrap, 1995.

    ## What it cannot show
    Whether the module computes what its name says. A score that hangs on few rows, such as a maximum, a median (of
    absolute errors too) or a percentile: it has no bound, so it decides nothing. Which direction is better: both
    operators are taken.

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
        """The names of the modules."""
        return tuple(self.modules)

    def runs_code(self) -> tuple[str, ...]:
        """Its modules."""
        return tuple(f"the module {path}" for path in self.modules.values())

    def files_named(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Its modules."""
        yield from ((("modules", name), path) for name, path in self.modules.items())

    def needs(self) -> tuple[Need, ...]:
        """Predictions of the model."""
        return (NeedPredictions(self.dataset, self.model),)
