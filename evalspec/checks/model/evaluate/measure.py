"""Measurement of `evaluate`: load modules from files, score, jackknife."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.pipeline.untrusted_code import first_line
from evalspec.scoring.scored_rows import needs_task
from evalspec.stats.resampling.jackknife import jackknife

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.checks.model.evaluate.spec import Evaluate
    from evalspec.language.inputs import Inputs


def measure(check: Evaluate, inputs: Inputs) -> CheckResult:
    """Score a model's answers with every module.

    Raises:
        InputError: A module may not run, can't be loaded or gives no number.
        NotRunError: The evaluate library is not installed, or the dataset has no truth.
    """
    answers = inputs.predictions(check.dataset)
    needs_task(answers, ("classes", "values", "text"), "evaluate")
    given = (answers.predicted, answers.values, answers.texts)
    said = next((one for one in given if one is not None), None)
    if answers.truth is None or said is None:
        raise NotRunError(f"dataset {check.dataset} has no label, or the model gives no answers to score")
    files = {name: inputs.code(path, f"module {name}") for name, path in check.modules.items()}
    scores: dict[str, Estimate] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, file in files.items():
            score = scorer(name, file, Path(folder), said, answers.truth)
            scores[name] = jackknife(score, answers.n, rng=inputs.rng, clusters=answers.clusters)
    return CheckResult(
        estimates={"score": Parts(scores)},
        counts=Counts(attempted=answers.n, used=answers.n),
        conditions={f"module {name}": hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()},
    )


def scorer(
    name: str, file: Path, folder: Path, said: NDArray[Any], truth: NDArray[Any]
) -> Callable[[NDArray[np.int64]], float]:
    """Build the function from row indices to the score that a module gives for these rows.

    Args:
        name: Name of the module in the spec.
        file: File of the module.
        folder: Folder for the copy that the library makes of the file.
        said: shape (n,), the model's answers.
        truth: shape (n,).

    Raises:
        InputError: The module can't be loaded.
        NotRunError: The library is not installed.
    """
    # Read when the library is first imported: it copies modules to where this points.
    os.environ.setdefault("HF_MODULES_CACHE", str(folder))
    try:
        import evaluate
    except ImportError as error:
        raise NotRunError("the evaluate library is not installed: pip install 'evalspec-gate[huggingface]'") from error
    try:
        module = evaluate.load(str(file), module_type="metric", cache_dir=str(folder))
    except Exception as error:
        raise InputError(f"{file.name} is not a module of the evaluate library: {first_line(error)}") from error

    def score(rows: NDArray[np.int64]) -> float:
        try:
            scores = module.compute(predictions=said[rows].tolist(), references=references(truth[rows]))
        except Exception as error:
            raise InputError(f"module {name} raised {type(error).__name__}: {first_line(error)}") from error
        return number(name, scores)

    return score


def references(truth: NDArray[Any]) -> list[Any]:
    """Truth as modules take it: one value a row, or a list where rows have several references.

    Args:
        truth: shape (n,).
    """
    return [list(one) if isinstance(one, tuple) else one for one in truth.tolist()]


def number(name: str, found: object) -> float:
    """Number that a module gave.

    Raises:
        InputError: The module gave none, or several of which none has the module's name.
    """
    if not isinstance(found, Mapping):
        raise InputError(f"module {name} gave {type(found).__name__}, not a dict of numbers")
    numbers = {key: float(value) for key, value in found.items() if isinstance(value, int | float)}
    if len(numbers) == 1:
        return next(iter(numbers.values()))
    if name in numbers:
        return numbers[name]
    raise InputError(
        f"module {name} gave {len(numbers)} numbers, none of them called {name!r}",
        choices=numbers,
        remedy="call the module as the number that you mean",
    )
