"""`python`: a function of your own, and what it says of each row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints, model_validator

from evalspec.errors import SpecError
from evalspec.evidence.metric import Metric
from evalspec.evidence.units import UNITS
from evalspec.language.parts import Check, DatasetName, Need, NeedPredictions, NeedRows, SpecNames
from evalspec.language.requirement import Requirement, split_sentence
from evalspec.language.units import custom_error, split_quantity

FUNCTION = re.compile(r"(?P<file>[^:]+\.py):(?P<name>[a-z][a-z0-9_]*)")
VALUE = Metric(
    "value",
    "score",
    "neither",
    "What the function says of a row, averaged over the rows; a requirement calls it by the function's name.",
    interval="Clopper-Pearson of yes or no, else BCa of the mean, or Gaffke's where few rows carry a share",
)
KINDS = ("require", "warn")
SINGLE = ("slo", "sla")


class OwnFunction(Check):
    """A function of your own says something of each row: yes or no, or a number.

    ## What it measures
    The mean of what a function gives for the rows of a dataset. A requirement calls this value by the function's name:
    `function: checks/own.py:blank_rate` makes `blank_rate`. Under `data:` the function is given the rows, under
    `model:` the model's answers to them too, by the names of its parameters:

    - `rows`: a dict of arrays by column, as numpy has them; a missing number is NaN, a missing text None.
    - `table`, `frame`: the same as a table of pyarrow, or as a frame of pandas.
    - `answers` (under `model:`): a dict of what the model gives, `label`, `probabilities`, `classes`, `value` or
      `text`, and the `truth` where the dataset has a label.

    It returns one value for each row, in their order: True or False, a number, or None for a row that does not count.
    Or a single number; or an estimate of `evalspec.api`, such as `proportion(hits)`.

    ## Why it matters
    What makes a model or its data fit for a purpose is often known to one team only: an identifier that must have a
    check digit, a forbidden phrase, the cost of an error. Five lines say it, and the gate gives the interval.

    ## Method
    Shares of True have Clopper-Pearson's bounds, after Korn and Graubard where the dataset has a `cluster:`. Numbers
    have those of a mean: BCa with at least 200 rows, if it is not a few rows that carry them. Where the requirement is
    a share (`<= 1 %`), every number must lie in 0..1, and then there are bounds from one row on (Gaffke). A single
    number is shown and has no bound, so it decides nothing: it may stand under `warn:`. Function and file are code:
    they run under `--trust` only, in a process that this check has for itself, and the digest of the file, and of those
    beside it that it imports, is part of what the result rests on.

    References: Clopper and Pearson, Biometrika 1934. Korn and Graubard, Survey Methodology 1998. Efron, JASA 1987.
    Gaffke, Mathematical Methods of Statistics 2005.

    ## What it cannot show
    Whether the function computes what its name says. Which direction is better: both operators are accepted. How two
    models differ: a requirement names a number.

    ## Example
    ```yaml
    - check: python
      dataset: test
      function: checks/own.py:blank_rate
      require: [blank_rate <= 1 %]
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (VALUE,)

    check: Literal["python"] = "python"
    dataset: DatasetName
    function: Annotated[str, StringConstraints(pattern=r"^[^:]+\.py:[a-z][a-z0-9_]*$")] = Field(
        description="File and function: `checks/own.py:blank_rate`; runs under --trust."
    )

    @classmethod
    def under(cls, dimension: str) -> type[Check]:
        """Under `data:` it has no model."""
        return _OfRows if dimension == "data" else OwnFunction

    @classmethod
    def metrics_of(cls, entry: Mapping[str, Any]) -> tuple[Metric, ...]:
        """One, called like the function, in the unit that the sentences are written in."""
        match = FUNCTION.fullmatch(str(entry.get("function")))
        if match is None:
            return cls.metrics
        units = [unit for one in _sentences(entry) for unit in _unit(one)]
        unit = next(iter(units), "score")
        return (
            Metric(match["name"], unit, "neither", f"What the function says: {match[0]}.", interval=VALUE.interval),
        )

    @model_validator(mode="before")
    @classmethod
    def _own_sentences(cls, values: Any) -> Any:
        """Sentences are about the function, whose name is next to them."""
        if not isinstance(values, Mapping):
            return values
        from evalspec.language.requirement import parse_requirement

        metrics = cls.metrics_of(values)

        def read(one: Any, key: str) -> Any:
            return parse_requirement(one, metrics, blocking=key != "warn") if isinstance(one, str) else one

        read_values = dict(values)
        try:
            for key in KINDS:
                if isinstance(values.get(key), list | tuple):
                    read_values[key] = tuple(read(one, key) for one in values[key])
            for key in SINGLE:
                if key in values:
                    read_values[key] = read(values[key], key)
        except SpecError as error:
            raise custom_error(error.problems[0]) from error
        return read_values

    @property
    def named(self) -> tuple[str, str]:
        """The file, and the function's name."""
        file, _, name = self.function.rpartition(":")
        return file, name

    @property
    def own_metrics(self) -> tuple[Metric, ...]:
        """The one that is called like the function."""
        return self.metrics_of({"function": self.function, "require": self.requirements})

    def check_names(self, names: SpecNames) -> str | None:
        """A requirement names a number."""
        against = next((one for one in self.requirements if one.model is not None), None)
        return None if against is None else f"{against.sentence!r} names a model; write a number, with its unit"

    def runs_code(self) -> tuple[str, ...]:
        """The function."""
        return (f"the function {self.function}",)

    def files_named(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """The file that holds the function."""
        yield ("function",), self.named[0]

    def needs(self) -> tuple[Need, ...]:
        """Rows, and what the model says of them."""
        return (NeedRows(self.dataset), NeedPredictions(self.dataset, self.model, label=False))


class _OfRows(OwnFunction):
    __doc__ = OwnFunction.__doc__

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"

    def needs(self) -> tuple[Need, ...]:
        """Rows alone."""
        return (NeedRows(self.dataset),)


def _sentences(entry: Mapping[str, Any]) -> Iterable[Any]:
    """All that stands where sentences do."""
    for key in KINDS:
        found = entry.get(key)
        yield from found if isinstance(found, list | tuple) else ()
    yield from (entry[key] for key in SINGLE if key in entry)


def _unit(sentence: Any) -> tuple[str, ...]:
    """The unit of the metric that a sentence is about, where it tells."""
    if isinstance(sentence, Requirement):
        return (sentence.unit,)
    try:
        written = split_quantity(split_sentence(str(sentence)).right)[1]
    except SpecError:
        return ()
    if written not in UNITS:
        return ()
    return ("fraction",) if UNITS[written].kind == "fraction" else (written,)
