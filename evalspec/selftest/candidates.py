"""Defects that may turn the requirements of a check red, mildest first of each kind."""

from __future__ import annotations

from collections.abc import Iterator

from evalspec.language.defects import SHARES, TIMES, Defect
from evalspec.planning import Plan, PlannedCheck
from evalspec.selftest.answers import (
    AllRight,
    ClassLost,
    SliceLost,
    TooSure,
    WrongAgain,
    WrongAndUnsure,
    WrongAnswers,
)
from evalspec.selftest.rows import (
    LabelTold,
    MissingCells,
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
    LongerGap,
    MoreOf,
    OtherCounts,
    Slower,
    SlowerTokens,
    SlowTail,
)

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
        *_of_groups(plan, planned),
        *_of_rows(plan, planned),
    )


def _of_answers(plan: Plan, planned: PlannedCheck) -> Iterator[Defect]:
    check = planned.check
    slices = {one.name for one in plan.spec.slices}
    own = [(dataset, model) for dataset, model in planned.predictions if model == check.model]
    for dataset, model in own or planned.predictions:
        of = f"of the answers of {model} to {dataset}"
        for part in dict.fromkeys(one.part for one in check.requirements if one.part is not None):
            for share, words in SHARES:
                if part in slices:
                    rows = f"{words} of the rows of the slice {part} of {dataset}"
                    yield SliceLost(f"{model} is wrong in {rows}", model, dataset, part, share)
                else:
                    rows = f"{words} of the rows of {part} in {dataset}"
                    yield ClassLost(f"{model} misses {rows}", model, dataset, part, share)
        for share, words in SHARES:
            yield WrongAnswers(f"{words} {of} are wrong", model, dataset, share)
        for share, words in SHARES:
            yield WrongAndUnsure(f"{words} {of} are wrong, and it is less sure of all", model, dataset, share)
        yield TooSure(f"{model} is sure of every answer to {dataset}", model, dataset, 0.999)
        yield TooSure(f"{model} is hardly sure of any answer to {dataset}", model, dataset, 0.0)
        yield AllRight(f"all {of} are right", model, dataset)
    for model in (check.model,) if planned.asked else ():
        for share, words in SHARES:
            yield WrongAgain(f"{words} of the answers of {model} to rows that were altered are wrong", model, share)


def _of_timings(planned: PlannedCheck) -> Iterator[Defect]:
    check = planned.check
    if not type(check).uses_model or check.dimension != "system":
        return
    model = check.model
    for defect, words in (
        (LaterFirst, "the first token of each answer of {model} takes {times:g} times as long"),
        (SlowerTokens, "each token after the first of {model} takes {times:g} times as long"),
        (LongerGap, "one gap makes the rest of each answer of {model} {times:g} times as long"),
    ):
        for times in TIMES:
            yield defect(words.format(model=model, times=times), model, times)
    for share, portion in TAILS:
        for times in TIMES:
            yield SlowTail(f"{portion} of the queries of {model} take {times:g} times as long", model, times, share)
    for times in TIMES:
        yield Slower(f"each query of {model} takes {times:g} times as long", model, times)
    for times in TIMES:
        yield MoreOf(f"{model} takes {times:g} times as much of everything that is counted", model, times)
    yield MoreOf(f"{model} takes a thousandth of everything that is counted", model, 0.001)
    for share, words in FEWER:
        yield FewerTokens(f"the answers of {model} have {words} of their tokens", model, share)
    yield CachedPrompts(f"{model} knows all prompts from before", model)
    yield OtherCounts(f"{model} reports three times its tokens", model, 3)
    for share, words in SHARES:
        yield Failing(f"{words} of the queries of {model} get no answer", model, share)


def _of_groups(plan: Plan, planned: PlannedCheck) -> Iterator[Defect]:
    """Groups that a check of a model looks at have few rows."""
    check = planned.check
    if check.dimension != "model":
        return
    for dataset, columns in check.columns_read(plan.spec.names).items():
        for column in columns:
            for share, words in FEW:
                yield OneValue(f"{words} of the rows of {dataset} have one value of {column}", dataset, column, share)


def _of_rows(plan: Plan, planned: PlannedCheck) -> Iterator[Defect]:
    if planned.check.dimension != "data":
        return
    for dataset in planned.datasets:
        part = plan.spec.datasets[dataset]
        names = tuple(name for name in (part.key, part.cluster) if name is not None)
        spared = names if part.label is None else (*names, part.label)
        others = [other for other in planned.datasets if other != dataset]
        for share, words in SHARES:
            for other in others:
                yield RowsOfAnother(f"{words} of the rows of {dataset} are rows of {other}", dataset, other, share)
            yield RepeatedRows(f"{words} of the rows of {dataset} are copies of others", dataset, share, names)
            yield MissingCells(f"{words} of the cells of {dataset} are missing", dataset, share, names)
            yield MovedColumns(
                f"{words} of the cells of {dataset} are far from where they were", dataset, share, spared
            )
            if part.label is not None:
                yield WrongLabels(f"{words} of the labels of {dataset} are wrong", dataset, part.label, share)
        if part.label is not None:
            for share, words in FEW:
                yield OneValue(f"{words} of the rows of {dataset} have one label", dataset, part.label, share)
    labels = {name: part.label for name in planned.datasets if (part := plan.spec.datasets[name]).label is not None}
    if labels:
        apart = {one for name in planned.datasets for one in (plan.spec.datasets[name].key,) if one is not None}
        yield LabelTold("columns tell the label", labels, tuple(sorted(apart)))
