"""Rows that two runs answered otherwise: what was fixed, what was broken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import EvalspecError
from evalspec.evidence.record import Record
from evalspec.language.parts import Access
from evalspec.lineage.run_comparison import Flips
from evalspec.running.children.jobs import SpecParts, predictions_file
from evalspec.stats.run_to_run import Change

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.answers.file import Answers


def accuracy_change(one: Flips, alpha: float) -> Change | None:
    """Change of the accuracy, paired by row; None where the truth is not at hand.

    Args:
        one: Rows that both runs answered.
        alpha: One-sided level of each bound.
    """
    import numpy as np

    from evalspec.stats.shares.paired import paired_proportion

    if one.fixed is None or one.broken is None:
        return None
    # Rows that are right or wrong in both runs only count.
    after, before = np.zeros(one.rows, bool), np.zeros(one.rows, bool)
    after[list(one.fixed)], before[list(one.broken)] = True, True
    difference = paired_proportion(after, before, one.clusters).difference()
    if difference.value is None:
        return None
    lower, upper = (difference.bound(1.0 - alpha, side) for side in ("lower", "upper"))
    return Change(difference.value, lower, upper, is_ratio=False)


def flips(before: Record, after: Record, first: Path, second: Path, access: Access | None) -> tuple[Flips, ...]:
    """Every model and dataset that both runs have answers for, where the rows are the same.

    Args:
        before: The earlier run.
        after: The later run.
        first: Its folder.
        second: The other's.
        access: Where datasets may be read, for the truth; None: not at all.

    Raises:
        RecordError: A file of answers can't be read.
    """
    ours, theirs = ({one.name: one.digest for one in run.datasets} for run in (before, after))
    found = []
    for dataset in ours:
        if ours[dataset] != theirs.get(dataset):
            continue
        for model in (one.name for one in before.models):
            paths = [folder / "evidence" / predictions_file(dataset, model) for folder in (first, second)]
            if all(path.is_file() for path in paths):
                found.append(_one(dataset, model, paths, second, ours[dataset], access))
    return tuple(found)


def _one(dataset: str, model: str, paths: list[Path], folder: Path, digest: str, access: Access | None) -> Flips:
    import numpy as np

    from evalspec.answers.file import compared_exactly, compared_numbers, read_answers

    old, new = (read_answers(path) for path in paths)
    if old.n != new.n or old.task != new.task:
        return Flips(dataset, model, 0, 0, None, None, "the answers are about different rows or of a different kind")
    one, other = compared_numbers(old), compared_numbers(new)
    if old.task == "classes" and old.classes is not None and new.classes is not None:
        one, other = (np.asarray(found.classes, dtype=object)[found.predicted] for found in (old, new))
        differ = one != other
    else:
        differ = one != other if compared_exactly(old) else ~np.isclose(one, other, rtol=1e-6, atol=1e-9)
    changed = int(np.count_nonzero(differ))
    if old.task != "classes":
        return Flips(
            dataset, model, old.n, changed, None, None, "only answers that are classes are right or wrong row by row"
        )
    try:
        truth, clusters = _truth(dataset, folder, digest, new, access)
    except EvalspecError as error:
        return Flips(dataset, model, old.n, changed, None, None, str(error))
    fixed = tuple(np.flatnonzero((one != truth) & (other == truth)).tolist())
    broken = tuple(np.flatnonzero((one == truth) & (other != truth)).tolist())
    return Flips(dataset, model, old.n, changed, fixed, broken, clusters=clusters)


def _truth(
    dataset: str, folder: Path, digest: str, answers: Answers, access: Access | None
) -> tuple[NDArray[np.object_], NDArray[np.int64] | None]:
    """The true class of each row, as text, and what rows share.

    Raises:
        EvalspecError: It can't be read again as it was.
    """
    import numpy as np

    from evalspec.answers.from_labels import true_answers
    from evalspec.errors import InputError
    from evalspec.loading import load_kept
    from evalspec.running.children.reader import dataset_record
    from evalspec.sources.reading.open import clusters, open_dataset

    if access is None:
        raise InputError("the datasets were not read again")
    spec = load_kept(folder)
    if dataset not in spec.datasets:
        raise InputError(f"dataset {dataset} is not in the spec beside the record")
    parts = SpecParts(models={}, datasets=dict(spec.datasets), slices={}, access=access, rows=None)
    if dataset_record(dataset, parts).digest != digest:
        raise InputError(f"dataset {dataset} has changed since")
    part = spec.datasets[dataset]
    if part.label is None or answers.classes is None:
        raise InputError(f"dataset {dataset} has no label")
    table = open_dataset(part, access)
    found, _ = true_answers(table, part.label, answers, access)
    assert found is not None
    shared = None if part.cluster is None else clusters(table, part.cluster)
    return np.asarray(answers.classes, dtype=object)[found], shared
