"""Requirement sentences: ``METRIC[(PART)] OP VALUE [UNIT]`` or ``METRIC[(PART)] OP [Kx] MODEL [+|- VALUE [UNIT]]``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from evalspec.errors import Problem, ProblemCode, SpecError, did_you_mean
from evalspec.evidence.metric import Metric, Op
from evalspec.evidence.units import UNITS
from evalspec.language.reach import check_difference, check_reach, never_shown_zero
from evalspec.language.units import NUMBER, bare_remedy, check_size, convert, split_quantity, units_like

OPERATORS: tuple[Op, ...] = ("<=", ">=", "==", "<", ">")
_OPERATOR = "|".join(OPERATORS)
_SENTENCE = re.compile(rf"(?P<metric>[^\s()\[\]<>=]+) ?(?:\((?P<part>.*?)\))? (?P<op>{_OPERATOR}) (?P<right>.+)")
_TIGHT = re.compile(rf"(?P<left>[^<>=≤≥]+?) ?(?P<op>{_OPERATOR}|=<|=>|=|≤|≥) ?(?P<right>[^<>=≤≥]+)")
_AGAINST = re.compile(
    rf"(?:(?P<factor>{NUMBER})x )?(?P<model>[a-z][a-z0-9_]*)(?: (?P<sign>[+-]) (?P<offset>.+))?", re.ASCII
)
_TIGHT_SIGN = re.compile(r"(?P<model>[a-z][a-z0-9_]*) ?(?P<sign>[+-]) ?(?P<offset>[0-9.].*)", re.ASCII)
_LOOKS_ALIKE = {"=<": "<=", "=>": ">=", "=": "==", "≤": "<=", "≥": ">="}
_GRAMMAR = "write METRIC[(PART)] OP VALUE [UNIT] or METRIC[(PART)] OP [Kx] MODEL [+|- VALUE [UNIT]]"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A parsed requirement with its metric.

    Args:
        sentence: The text as written, with white space collapsed.
        metric: Name of the metric.
        part: Its part, or None.
        op: The operator.
        threshold: Threshold of the value, the difference or the ratio, in ``unit``.
            Against a model: the offset in ``unit``; 0 if there is only a factor.
        unit: Unit of the threshold: the metric's own (``label`` is replaced by the dataset's label unit, if it has
            one); ``pp`` for differences of fractions; ``x`` for pure ratios (``<= 1.2x baseline``).
        model: The model on the right side, or None.
        factor: K of ``Kx``; 1 if there is none.
        has_offset: It has ``+|- VALUE``; ``>= baseline`` counts as an offset of 0.
        written_unit: Unit as written, if it differs from ``unit``; otherwise empty.
    """

    sentence: str
    metric: str
    part: str | None
    op: Op
    threshold: float
    unit: str
    model: str | None = None
    factor: float = 1.0
    has_offset: bool = False
    written_unit: str = ""

    @property
    def is_ratio(self) -> bool:
        """True if it is decided as a ratio: a factor other than 1 and no offset."""
        return self.model is not None and self.factor != 1.0 and not self.has_offset

    @property
    def upper(self) -> bool:
        """True if it bounds the value from above."""
        return self.op in ("<=", "<")

    def name(self, check_id: str) -> str:
        """Name in ``--only``, waivers, JUnit, compare and links; it does not depend on the threshold."""
        part = f"({self.part})" if self.part is not None else ""
        against = f" vs {self.model}" if self.model is not None else ""
        return f"{check_id}/{self.metric}{part}{against}"


@dataclass(frozen=True, slots=True)
class Same:
    """Claim of a requirement on a paired difference, in whichever check it stands.

    Args:
        metric: Of `quality`, with its part where it has one.
        dataset: Whose rows are paired.
        model: The model.
        baseline: The model that it is held against.
        strict: Equal to the margin is not enough.
        margin: The least that the metric may differ by, model less baseline, better upwards; in the requirement's unit.
    """

    metric: str
    dataset: str
    model: str
    baseline: str
    strict: bool
    margin: float


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence taken apart, not yet held against a metric."""

    text: str
    metric: str
    part: str | None
    op: Op
    right: str


def fold(text: str) -> str:
    """The text with its white space folded."""
    return " ".join(text.split())


def split_sentence(text: str) -> Sentence:
    """Metric, part, operator and right side of a sentence.

    Raises:
        SpecError: It is no sentence; says how it is written.
    """
    text = fold(text)
    match = _SENTENCE.fullmatch(text)
    if match is None:
        raise SpecError(_no_sentence(text))
    part = match["part"]
    if part is not None:
        part = part.strip()
        if not part:
            raise SpecError(Problem(f"{text!r} has empty brackets", remedy="name a part, or leave the brackets out"))
    return Sentence(text, match["metric"], part, cast(Op, match["op"]), match["right"])


def _no_sentence(text: str) -> Problem:
    """Problem of a text that is no sentence."""
    tight = _TIGHT.fullmatch(text)
    if tight is None or (f" {tight['op']} " in text and tight["op"] in OPERATORS and "[" not in tight["left"]):
        return Problem(f"{text!r} is not a requirement", remedy=_GRAMMAR)
    op = _LOOKS_ALIKE.get(tight["op"], tight["op"])
    left = tight["left"].replace("[", "(").replace("]", ")")
    written = f"write {left} {op} {_spaced(tight['right'])}"
    if left != tight["left"]:
        return Problem(f"{text!r} has square brackets, which end a list in YAML", remedy=written)
    if op != tight["op"]:
        return Problem(f"{tight['op']!r} is not an operator of a requirement", choices=OPERATORS, remedy=written)
    return Problem(f"{text!r} has no spaces around {op!r}", remedy=written)


def parse_requirement(
    text: str,
    metrics: Sequence[Metric],
    *,
    label_unit: str | None = None,
    models: Sequence[str] | None = None,
    blocking: bool = False,
    compared: str = "model",
) -> Requirement:
    """A sentence, held against the metrics that a check declares.

    Args:
        text: The sentence.
        metrics: The check's metrics.
        label_unit: Unit of the dataset's label, where it has one.
        models: Names of the spec's models; None: not known here, any name will do.
        compared: What the names on the right are of.
        blocking: It stands in ``require`` or ``slo``: then it may not be about a mean latency.

    Raises:
        SpecError: With one problem: what is wrong and what to write instead.
    """
    sentence = split_sentence(text)
    metric = find_metric(sentence.metric, metrics)
    if sentence.part is not None and metric.parts is None:
        raise SpecError(
            Problem(f"{metric.name} has no parts, so ({sentence.part}) names nothing", remedy="leave the brackets out")
        )
    if blocking and metric.instead:
        raise SpecError(_mean(metric))
    _check_operator(sentence, metric)
    unit = metric.unit if metric.unit != "label" or label_unit is None else label_unit
    number = re.match(NUMBER, sentence.right, re.ASCII)
    against = _AGAINST.fullmatch(sentence.right)
    if against is None:
        if number is None:
            raise SpecError(_no_value(sentence, metric))
        if re.match(r" ?x ?[a-z]", sentence.right[number.end() :]):
            raise SpecError(_no_factor(sentence, number[0]))
        threshold = _value(sentence, metric, unit)
        check_reach(sentence, metric, unit, threshold)
        written = _other_unit(sentence.right, unit)
        return Requirement(
            sentence.text, metric.name, sentence.part, sentence.op, threshold, unit, written_unit=written
        )
    if models is not None and against["model"] not in models:
        raise SpecError(_unknown_name(against["model"], models, compared))
    return _against(sentence, metric, unit, against)


def sentence_schema(metrics: Sequence[Metric]) -> dict[str, object]:
    """JSON Schema of the sentences over some metrics: beginnings that an editor completes, or the whole grammar."""
    beginnings = [beginning for metric in metrics for beginning in _beginnings(metric)]
    names = "|".join(metric.name for metric in metrics)
    pattern = rf"^({names})( ?\(.+\))? ({_OPERATOR}) .+$"
    return {"type": "string", "anyOf": [{"enum": beginnings}, {"pattern": pattern}]}


def _beginnings(metric: Metric) -> list[str]:
    operators: dict[str, tuple[Op, ...]] = {"lower": ("<=",), "higher": (">=",), "neither": ("<=", ">=")}
    shown = (*operators[metric.better], "==") if metric.exact else operators[metric.better]
    return [f"{metric.name} {op} " for op in shown] + ([f"{metric.name}("] if metric.parts else [])


def find_metric(name: str, metrics: Sequence[Metric]) -> Metric:
    """The metric of this name.

    Raises:
        SpecError: There is none.
    """
    for metric in metrics:
        if metric.name == name:
            return metric
    names = tuple(metric.name for metric in metrics)
    raise SpecError(
        Problem(
            f"unknown metric {name!r}",
            choices=names,
            remedy=did_you_mean(name, names),
            code=ProblemCode.UNKNOWN_METRIC,
            value=name,
        )
    )


def _mean(metric: Metric) -> Problem:
    return Problem(
        f"a mean hides slow queries, so {metric.name} can't block",
        choices=metric.instead,
        remedy="require a percentile, or move the sentence to `warn`",
    )


def _check_operator(sentence: Sentence, metric: Metric) -> None:
    """Refuse ``==`` on what is estimated, and an operator that points the wrong way."""
    op, name = sentence.op, metric.name
    if op == "==":
        if not metric.exact:
            direction = "<=" if metric.better == "lower" else ">="
            number = re.match(NUMBER, sentence.right, re.ASCII)
            zero = number is not None and float(number[0]) == 0.0 and never_shown_zero(metric)
            raise SpecError(
                Problem(
                    f"{name} is estimated from a sample, and '==' is for exact counts",
                    remedy=f"write {name} {direction} {'and a number above 0' if zero else _spaced(sentence.right)}",
                )
            )
        return
    right_way = {"lower": ("<=", "<"), "higher": (">=", ">"), "neither": OPERATORS}[metric.better]
    if op not in right_way:
        raise SpecError(
            Problem(
                f"{op!r} points the wrong way: {metric.better} {name} is better",
                remedy=f"write {name} {right_way[0]} {_spaced(sentence.right)}",
                code=ProblemCode.WRONG_DIRECTION,
            )
        )


def _no_value(sentence: Sentence, metric: Metric) -> Problem:
    """Problem of a right side that is neither a number nor a model."""
    left = f"{metric.name} {sentence.op}"
    tight = _TIGHT_SIGN.fullmatch(sentence.right)
    if tight is not None:
        return Problem(
            f"{sentence.right!r} is not understood: put spaces around the sign",
            remedy=f"write {left} {tight['model']} {tight['sign']} {_spaced(tight['offset'])}",
        )
    return Problem(
        f"{sentence.right!r} is neither a number with a unit nor a model",
        remedy=f"write {left} followed by a number with its unit or by the name of a model",
    )


def _no_factor(sentence: Sentence, factor: str) -> Problem:
    """A factor that is not in one piece, or what follows it is not understood."""
    rest = sentence.right[len(factor) :].strip().removeprefix("x").strip()
    right = re.sub(r" ?([+-]) ?(?=[0-9.])", r" \1 ", f"{factor}x {rest}")
    return Problem(
        f"{sentence.right!r} is not understood",
        remedy=f"write {sentence.metric} {sentence.op} {right}" if right != sentence.right else _GRAMMAR,
    )


def _spaced(quantity: str) -> str:
    """A number and its unit, or a model and what is added to it, with the spaces between them."""
    number = re.match(NUMBER, quantity, re.ASCII)
    if number is not None:
        unit = quantity[number.end() :].strip()
        return quantity if unit.startswith("x") else f"{number[0]} {unit}".strip()
    tight = _TIGHT_SIGN.fullmatch(quantity)
    return quantity if tight is None else f"{tight['model']} {tight['sign']} {_spaced(tight['offset'])}"


def _unknown_name(name: str, models: Sequence[str], compared: str) -> Problem:
    return Problem(f"unknown {compared} {name!r}", choices=tuple(models), remedy=did_you_mean(name, models))


def _value(sentence: Sentence, metric: Metric, unit: str) -> float:
    """The threshold in ``unit``, where no model stands on the right."""
    number, written = split_quantity(sentence.right)
    if written is not None:
        return _converted(number, written, metric, unit)
    if number == 0 or unit in ("score", "count", "label"):
        return number
    if unit == "fraction":
        if not 0 <= number <= 1:
            raise SpecError(
                Problem(f"{number:g} is outside 0..1, the range of {metric.name}", remedy=f"write {number:g} %")
            )
        return number
    raise SpecError(_no_unit(number, unit))


def _no_unit(number: float, unit: str) -> Problem:
    return Problem(f"{number:g} has no unit", choices=units_like(unit), remedy=bare_remedy(number, unit))


def _converted(number: float, written: str, metric: Metric, unit: str) -> float:
    if unit == written and unit not in ("fraction", "count", "score", "label"):
        return number
    if unit == "label":
        raise SpecError(
            Problem(
                f"{metric.name} has the unit of the label, and the dataset names none",
                remedy=f"add `label_unit: {written}` to the dataset, or leave {written!r} out",
            )
        )
    if unit in ("count", "score"):
        plain = number / 100.0 if unit == "score" and written == "%" else number
        raise SpecError(Problem(f"{metric.name} has no unit, so {written!r} does not fit", remedy=f"write {plain:g}"))
    if unit == "pp" and written == "%":
        raise SpecError(
            Problem(f"{metric.name} is a difference of fractions: % does not fit", remedy=f"write {number:g} pp")
        )
    if written == "pp" and unit in ("fraction", "%"):
        raise SpecError(
            Problem(f"{metric.name} is a fraction, and pp is for differences", remedy=f"write {number:g} %")
        )
    try:
        return convert(number, written, unit)
    except SpecError as error:
        problem = error.problems[0]
        message = f"unit {written!r} does not fit {metric.name}" if written in UNITS else problem.message
        raise SpecError(Problem(message, choices=problem.choices, remedy=problem.remedy)) from error


def _against(sentence: Sentence, metric: Metric, unit: str, match: re.Match[str]) -> Requirement:
    """A requirement that names a model on its right."""
    factor = 1.0 if match["factor"] is None else float(match["factor"])
    check_size(factor, match["factor"] or "1")
    if not factor > 0:
        raise SpecError(Problem(f"the factor {match['factor']}x must be above 0", remedy="write such as 1.2x"))
    is_fraction = unit in UNITS and UNITS[unit].kind == "fraction"
    own = "pp" if is_fraction else unit
    offset = 0.0
    if match["offset"] is not None:
        offset = _offset(sentence, metric, own, match)
    elif factor != 1.0:
        own = "x"
    if own == "pp" and is_fraction:
        check_difference(sentence, metric, offset, factor)
    return Requirement(
        sentence=sentence.text,
        metric=metric.name,
        part=sentence.part,
        op=sentence.op,
        threshold=offset,
        unit=own,
        model=match["model"],
        factor=factor,
        has_offset=match["offset"] is not None or factor == 1.0,
        written_unit="" if match["offset"] is None else _other_unit(match["offset"], own),
    )


def _other_unit(quantity: str, unit: str) -> str:
    """The unit of a quantity, where it differs from this one."""
    written = split_quantity(quantity)[1]
    return "" if written is None or written == unit else written


def _offset(sentence: Sentence, metric: Metric, unit: str, match: re.Match[str]) -> float:
    """The signed offset from the model's value, in ``unit``."""
    number, written = split_quantity(match["offset"])
    sign, model = match["sign"], match["model"]
    if number < 0:
        raise SpecError(Problem(f"{sign} {match['offset']} has two signs", remedy="write one"))
    if unit == "pp" and number != 0 and written != "pp":
        raise SpecError(_no_points(metric, sentence.op, number, written, sign, model))
    if written is None:
        if number != 0 and unit not in ("score", "count", "label"):
            raise SpecError(
                Problem(f"{number:g} has no unit", choices=units_like(unit), remedy=bare_remedy(number, unit))
            )
    else:
        number = _converted(number, written, metric, unit)
    return -number if sign == "-" else number


def _no_points(metric: Metric, op: Op, number: float, written: str | None, sign: str, model: str) -> Problem:
    """A difference of fractions that is not in percentage points."""
    left = f"{metric.name} {op}"
    if written == "%":
        factor = 1 - number / 100 if sign == "-" else 1 + number / 100
        message = f"'{sign} {number:g} %' could be points or a share"
        return Problem(message, remedy=f"write {left} {model} {sign} {number:g} pp, or {left} {factor:g}x {model}")
    if written is None:
        points = number * 100 if number <= 1 else number
        return Problem(
            f"{number:g} has no unit: differences of fractions are in pp",
            remedy=f"write {left} {model} {sign} {points:g} pp",
        )
    return Problem(f"unit {written!r} does not fit a difference of {metric.name}", choices=("pp",))
