"""All that an extension may import: a check, a kind of model, a kind of dataset of your own.

Names stay as they are within a version of the API (`API_VERSION`); everything else of the package may change in any
release. The estimators import numpy, so they are imported when they are first used: take them inside of functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalspec.errors import (
    InputError,
    InvalidError,
    NotRunError,
    Problem,
    SpecError,
    did_you_mean,
)
from evalspec.evidence.blocks import (
    Bar,
    Bars,
    Block,
    Column,
    Curve,
    Example,
    Examples,
    Histogram,
    Interval,
    Intervals,
    Matrix,
    Points,
    Reference,
    Series,
    Table,
    Text,
)
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts
from evalspec.evidence.frozen import Cell
from evalspec.evidence.metric import Metric, Shows
from evalspec.evidence.remedies import CorrectLabels, Recalibrate, RemoveRows
from evalspec.language.declarations import Circumstance, ClassOfModel, Effort, Listing, Rows
from evalspec.language.defects import Defect
from evalspec.language.header import Header
from evalspec.language.inputs import Inputs, Predictions, Samples, Schedule
from evalspec.language.likelihoods import TokenLikelihoods, Windows
from evalspec.language.parts import (
    Access,
    Check,
    CheckResult,
    Dataset,
    DatasetName,
    LoadedModel,
    Model,
    ModelName,
    Need,
    NeedLikelihoods,
    NeedPredictions,
    NeedRows,
    NeedTiming,
    Part,
    Sentence,
    SpecNames,
    Training,
    TrainingName,
)
from evalspec.language.requirement import Requirement
from evalspec.language.units import Duration, Milliseconds, PercentagePoints, QueryRate, Share, Size

if TYPE_CHECKING:
    from evalspec.stats.exact import Exact
    from evalspec.stats.means.mean import mean, paired_mean, t_mean
    from evalspec.stats.resampling.bootstrap import bca, paired_statistic
    from evalspec.stats.shares.paired import paired_proportion
    from evalspec.stats.shares.proportion import proportion
    from evalspec.stats.timing.percentile import percentile
    from evalspec.stats.value_only import ValueOnly

API_VERSION = 1
"""Raised where a name goes or changes its meaning."""

_ESTIMATORS = {
    "Exact": "evalspec.stats.exact",
    "ValueOnly": "evalspec.stats.value_only",
    "bca": "evalspec.stats.resampling.bootstrap",
    "mean": "evalspec.stats.means.mean",
    "paired_mean": "evalspec.stats.means.mean",
    "paired_proportion": "evalspec.stats.shares.paired",
    "paired_statistic": "evalspec.stats.resampling.bootstrap",
    "percentile": "evalspec.stats.timing.percentile",
    "proportion": "evalspec.stats.shares.proportion",
    "t_mean": "evalspec.stats.means.mean",
}

__all__ = [
    "API_VERSION",
    "Access",
    "Bar",
    "Bars",
    "Block",
    "Cell",
    "Check",
    "CheckResult",
    "Circumstance",
    "ClassOfModel",
    "Column",
    "Comparison",
    "ComparisonParts",
    "CorrectLabels",
    "Curve",
    "Dataset",
    "DatasetName",
    "Defect",
    "Duration",
    "Effort",
    "Estimate",
    "Exact",
    "Example",
    "Examples",
    "Fact",
    "Header",
    "Histogram",
    "InputError",
    "Inputs",
    "Interval",
    "Intervals",
    "InvalidError",
    "Listing",
    "LoadedModel",
    "Matrix",
    "Measured",
    "Metric",
    "Milliseconds",
    "Model",
    "ModelName",
    "Need",
    "NeedLikelihoods",
    "NeedPredictions",
    "NeedRows",
    "NeedTiming",
    "NotRunError",
    "Part",
    "Parts",
    "PercentagePoints",
    "Points",
    "Predictions",
    "Problem",
    "QueryRate",
    "Recalibrate",
    "Reference",
    "RemoveRows",
    "Requirement",
    "Rows",
    "Samples",
    "Schedule",
    "Sentence",
    "Series",
    "Share",
    "Shows",
    "Size",
    "SpecError",
    "SpecNames",
    "Table",
    "Text",
    "TokenLikelihoods",
    "Training",
    "TrainingName",
    "ValueOnly",
    "Windows",
    "bca",
    "did_you_mean",
    "mean",
    "paired_mean",
    "paired_proportion",
    "paired_statistic",
    "percentile",
    "proportion",
    "t_mean",
]


def __getattr__(name: str) -> object:
    """An estimator, imported when it is first used (PEP 562).

    Raises:
        AttributeError: There is no such name.
    """
    if name not in _ESTIMATORS:
        raise AttributeError(f"module 'evalspec.api' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ESTIMATORS[name]), name)
