"""Base classes of everything that a spec is made of; everybody imports them from here.

- `Check` (in ``check.py``): an entry under ``system``, ``model`` or ``data``. It declares metrics and fields, says in
  ``needs()`` what must be there, and ``run(inputs)`` gives a `CheckResult`, which decides nothing.
- `Model` (in ``model.py``): an entry of ``models``. ``load()`` gives a `LoadedModel`: arrays in, arrays out.
- `Training` (in ``training.py``): an entry of ``trainings``, a `Dataset` whose rows are the evaluations of its runs.
- `Dataset` (in ``dataset.py``): an entry of ``datasets``. ``header()`` tells its columns, ``read()`` and ``batches()``
  give its rows.

A part only validates. It never probes: no network, no clock, no environment, no files. What it reads later, it reads
through `Access`, which says where it may look and what it may run.
"""

from __future__ import annotations

from evalspec.language.names import DatasetName, ModelName, Name, Sentence, SpecNames, TrainingName, check_where
from evalspec.language.parts.check import (
    Check,
    CheckResult,
    Known,
    Need,
    NeedLikelihoods,
    NeedPredictions,
    NeedRows,
    NeedTiming,
    TrialRuns,
)
from evalspec.language.parts.dataset import BATCH_ROWS, Dataset
from evalspec.language.parts.model import LoadedModel, Model, OptionScore, OutputName, ShownRows
from evalspec.language.parts.part import Access, Part
from evalspec.language.parts.secret import Secret
from evalspec.language.parts.training import Training

__all__ = [
    "BATCH_ROWS",
    "Access",
    "Check",
    "CheckResult",
    "Dataset",
    "DatasetName",
    "Known",
    "LoadedModel",
    "Model",
    "ModelName",
    "Name",
    "Need",
    "NeedLikelihoods",
    "NeedPredictions",
    "NeedRows",
    "NeedTiming",
    "OptionScore",
    "OutputName",
    "Part",
    "Secret",
    "Sentence",
    "ShownRows",
    "SpecNames",
    "Training",
    "TrainingName",
    "TrialRuns",
    "check_where",
]
