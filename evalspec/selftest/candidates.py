"""Defects that may turn the requirements of a check red, mildest first of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from evalspec.language.defects import SHARES, TIMES, Defect
from evalspec.planning import Plan, PlannedCheck
from evalspec.selftest.answers import (
    AllRight,
    BuriedTruth,
    ClassLost,
    HardlySure,
    OffValues,
    RankLost,
    SliceLost,
    TooSure,
    WrongAgain,
    WrongAndUnsure,
    WrongAnswers,
)
from evalspec.selftest.rows import (
    LabelTold,
    MissingCells,
    MovedColumn,
    MovedColumns,
    OneValue,
    RepeatedRows,
    RowsOfAnother,
    WrongLabels,
)
from evalspec.selftest.timings import (
    CachedPrompts,
    Failing,
    FewerTokens,
    LaterFirst,
    LessOf,
    LongerGap,
    MoreOf,
    OneMore,
    OtherCounts,
    OtherWords,
    Slower,
    SlowerTokens,
    SlowTail,
)

ROWS = ((1e-9, "one"), *SHARES)
"""The same of rows of a dataset, from one row on."""
DEVIATIONS = (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 3.0, 10.0)
PLACES = ("1", "2", "3", "4", "5", "6")
"""Counts that are more, one at a time, as they stand in a probe or among the facts of a model."""
LISTS = tuple(str(place) for place in range(1, 13))
"""The same of lists of words, such as where operators ran."""
COLUMNS = 4
"""So many columns of numbers tell the label, one at a time."""
FEW = ((0.9, "nine tenths"), (0.99, "99 %"))
TAILS = ((0.02, "2 %"), (0.2, "a fifth"))
"""Shares of queries that are slower alone: a 99th percentile tells the first, a 90th the second, a median neither."""
FEWER = ((0.5, "half"), (0.2, "a fifth"), (0.1, "a tenth"), (0.05, "a twentieth"), (0.01, "a hundredth"))


def candidates(plan: Plan, planned: PlannedCheck) -> tuple[Defect, ...]:
    """Defects planted for a check, in this order: what the check names itself, answers, timings, groups, rows."""
    return (
        *planned.check.defects(),
        *_of_answers(plan, planned),
        *_of_timings(planned),
        *_of_counts(planned),
        *_of_groups(plan, planned),
        *_of_rows(plan, planned),
    )


def _each(strengths: Iterable[tuple[float, str]], make: Callable[[float, str], Defect]) -> Iterator[Defect]:
    """A defect in its strengths."""
    return (make(strength, words) for strength, words in strengths)


def _of_answers(plan: Plan, planned: PlannedCheck) -> Iterator[Defect]:
    check = planned.check
    own = [(dataset, model) for dataset, model in planned.predictions if model == check.model]
    for dataset, model in own or planned.predictions:
        for part in _parts(planned):
            yield from _of_part(plan, part, model, dataset)
        yield from _of_all_answers(model, dataset)
    for model in (check.model,) if planned.asked else ():
        yield from _each(SHARES, lambda share, words, model=model: WrongAgain(  # type: ignore[misc]
            f"{words} of the answers of {model} to rows that were altered are wrong", model, share
        ))  # fmt: skip


def _parts(planned: PlannedCheck) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.part for one in planned.check.requirements if one.part is not None))


def _of_part(plan: Plan, part: str, model: str, dataset: str) -> Iterator[Defect]:
    if part in {one.name for one in plan.spec.slices}:
        return _each(SHARES, lambda share, words: SliceLost(
            f"{model} is wrong in {words} of the rows of the slice {part} of {dataset}", model, dataset, part, share
        ))  # fmt: skip
    return _each(SHARES, lambda share, words: ClassLost(
        f"{model} misses {words} of the rows of {part} in {dataset}", model, dataset, part, share
    ))  # fmt: skip


def _of_all_answers(model: str, dataset: str) -> Iterator[Defect]:
    of = f"of the answers of {model} to {dataset}"
    for largest, which in ((True, "largest"), (False, "smallest")):
        yield from _each(SHARES, lambda share, words, largest=largest, which=which: RankLost(  # type: ignore[misc]
            f"{model} misses {words} of the rows of the {which} class of {dataset}", model, dataset, which, share,
            largest,
        ))  # fmt: skip
    for deviations in DEVIATIONS:
        off = f"the values of {model} on {dataset} are off by {deviations:g} standard deviations"
        yield OffValues(off, model, dataset, deviations)
    yield from _each(SHARES, lambda share, words: BuriedTruth(
        f"where {model} was wrong on {dataset}, the truth is the least likely in {words} of the rows", model, dataset,
        share,
    ))  # fmt: skip
    yield from _each(SHARES, lambda share, words: WrongAnswers(f"{words} {of} are wrong", model, dataset, share))
    yield from _each(SHARES, lambda share, words: WrongAndUnsure(
        f"{words} {of} are wrong, and it is less sure of all", model, dataset, share
    ))  # fmt: skip
    yield TooSure(f"{model} is sure of every answer to {dataset}", model, dataset, 0.999)
    yield HardlySure(f"{model} is hardly sure of any answer to {dataset}", model, dataset, 0.0)
    yield AllRight(f"all {of} are right", model, dataset)


def _of_timings(planned: PlannedCheck) -> Iterator[Defect]:
    check = planned.check
    if not type(check).uses_model or check.dimension != "system":
        return
    model = check.model
    yield from _of_streams(model)
    for share, portion in TAILS:
        for times in TIMES:
            yield SlowTail(f"{portion} of the queries of {model} take {times:g} times as long", model, times, share)
    for times in TIMES:
        yield Slower(f"each query of {model} takes {times:g} times as long", model, times)
    yield from _each(SHARES, lambda share, words: Failing(
        f"{words} of the queries of {model} get no answer", model, share
    ))  # fmt: skip


def _of_counts(planned: PlannedCheck) -> Iterator[Defect]:
    """Counts that are known of a model, or were found out by processes of its own."""
    check = planned.check
    if not type(check).uses_model or check.dimension == "data":
        return
    model = check.model
    for place in PLACES:
        for times in TIMES:
            yield OneMore(f"count {place} of {model} is {times:g} times as much", model, times, place)
    for times in TIMES:
        yield MoreOf(f"{model} takes {times:g} times as much of everything that is counted", model, times)
    yield LessOf(f"{model} takes a thousandth of everything that is counted", model, 0.001)
    for place in LISTS:
        yield from _each(SHARES, lambda share, words, place=place: OtherWords(  # type: ignore[misc]
            f"{words} of the words of list {place} that a process found out of {model} are others", model, share, place
        ))  # fmt: skip


def _of_streams(model: str) -> Iterator[Defect]:
    for defect, words in (
        (LaterFirst, "the first token of each answer of {model} takes {times:g} times as long"),
        (SlowerTokens, "each token after the first of {model} takes {times:g} times as long"),
        (LongerGap, "one gap makes the rest of each answer of {model} {times:g} times as long"),
    ):
        for times in TIMES:
            yield defect(words.format(model=model, times=times), model, times)
    for share, words in FEWER:
        yield FewerTokens(f"the answers of {model} have {words} of their tokens", model, share)
    yield CachedPrompts(f"{model} knows all prompts from before", model)
    yield OtherCounts(f"{model} reports three times its tokens", model, 3)


def _of_groups(plan: Plan, planned: PlannedCheck) -> Iterator[Defect]:
    """Groups that a check looks at have few rows."""
    check = planned.check
    if check.dimension == "system":
        return
    for dataset, columns in check.columns_read(plan.spec.names).items():
        for column in columns:
            for share, words in FEW:
                yield OneValue(f"{words} of the rows of {dataset} have one value of {column}", dataset, column, share)


def _of_rows(plan: Plan, planned: PlannedCheck) -> Iterator[Defect]:
    if planned.check.dimension != "data":
        return
    datasets = {name: plan.spec.datasets[name] for name in planned.datasets}
    for dataset, part in datasets.items():
        names = tuple(name for name in (part.key, part.cluster) if name is not None)
        for column in _parts(planned):
            yield from _each(SHARES, lambda share, words, dataset=dataset, column=column: MovedColumn(  # type: ignore[misc]
                f"{words} of the cells of {column} of {dataset} are far from where they were", dataset, share, (),
                column,
            ))  # fmt: skip
        read = planned.check.columns_read(plan.spec.names).get(dataset, ())
        for other in planned.datasets:
            if other != dataset:
                yield from _of_two(dataset, other, tuple(dict.fromkeys((*names, *read))))
        yield from _of_one(dataset, names)
        if part.label is not None:
            yield from _of_labels(dataset, part.label)
        yield from _each(SHARES, lambda share, words, dataset=dataset, part=part, names=names: MovedColumns(  # type: ignore[misc]
            f"{words} of the cells of {dataset} are far from where they were", dataset, share,
            names if part.label is None else (*names, part.label),
        ))  # fmt: skip
    labels = {name: part.label for name, part in datasets.items() if part.label is not None}
    keys = tuple(sorted({part.key for part in datasets.values() if part.key is not None}))
    for place in range(COLUMNS) if labels else ():
        yield LabelTold(f"column {place + 1} of numbers tells the label", labels, keys, place)


def _of_two(dataset: str, other: str, columns: tuple[str, ...]) -> Iterator[Defect]:
    """Rows that stand in two datasets; or cells that do, of columns that a check reads."""
    for column in columns:
        yield from _each(ROWS, lambda share, words, column=column: RowsOfAnother(  # type: ignore[misc]
            f"{words} of the cells of {column} of {dataset} are those of {other}", dataset, other, share, column
        ))  # fmt: skip
    yield from _each(ROWS, lambda share, words: RowsOfAnother(
        f"{words} of the rows of {dataset} are rows of {other}, nearly", dataset, other, share, near=True
    ))  # fmt: skip
    yield from _each(ROWS, lambda share, words: RowsOfAnother(
        f"{words} of the rows of {dataset} are rows of {other}", dataset, other, share
    ))  # fmt: skip


def _of_one(dataset: str, names: tuple[str, ...]) -> Iterator[Defect]:
    yield from _each(ROWS, lambda share, words: RepeatedRows(
        f"{words} of the rows of {dataset} are copies of others", dataset, share, names
    ))  # fmt: skip
    yield from _each(SHARES, lambda share, words: MissingCells(
        f"{words} of the cells of {dataset} are missing", dataset, share, names
    ))  # fmt: skip


def _of_labels(dataset: str, label: str) -> Iterator[Defect]:
    yield from _each(SHARES, lambda share, words: WrongLabels(
        f"{words} of the labels of {dataset} are wrong", dataset, label, share
    ))  # fmt: skip
    yield from _each(FEW, lambda share, words: OneValue(
        f"{words} of the rows of {dataset} have one label", dataset, label, share
    ))  # fmt: skip
