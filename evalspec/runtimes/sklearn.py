"""scikit-learn models: skops files without trust, joblib and pickle files with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import model_validator

from evalspec.errors import InputError
from evalspec.imports import skops_without_torch
from evalspec.language.parts import Access, OutputName
from evalspec.pipeline.loaded import Loaded, Tensor
from evalspec.pipeline.model_fields import FileModel, usable_cpus
from evalspec.pipeline.objects import is_estimator
from evalspec.pipeline.untrusted_code import first_line, need_trust
from evalspec.runtimes.guards.observe import estimator_precision
from evalspec.runtimes.guards.skops_types import only_common_types
from evalspec.runtimes.guards.trees import TREES, check_trees

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PICKLES = (".joblib", ".pkl", ".pickle")
HARMLESS = (
    # A type of number: skops reads it from an empty array, without unpickling.
    "numpy.dtype",
    # Arrays of nodes; `check_trees` looks into them.
    *TREES,
    # Two fitted numbers, and the estimator that they belong to, whose own types are looked at like any other's.
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._CalibratedClassifier",
    # Step sizes and moments of a training that is over; a prediction does not touch them.
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
)
"""Types of scikit-learn and numpy that hold data only, and that skops leaves to its user."""
COEFFICIENTS = ("coef_", "intercept_", "coefs_", "intercepts_")
METHODS = ("predict_proba", "decision_function", "predict", "transform")


class Sklearn(FileModel):
    """An estimator or pipeline of scikit-learn.

    Its outputs are its methods: ``outputs: {probabilities: predict_proba}``, ``{logits: decision_function}``,
    ``{label: predict}`` or ``{value: predict}``. Left out, a classifier gives predict_proba or else predict, and a
    regressor predict. An estimator fitted on named columns is fed by those names.
    """

    extra_name: ClassVar[str] = "sklearn"
    packages: ClassVar[tuple[str, ...]] = ("sklearn", "skops", "pandas")
    suffixes: ClassVar[tuple[str, ...]] = (".skops", *PICKLES)
    stateless: ClassVar[bool] = True
    inspects_in_subprocess: ClassVar[bool] = True

    kind: Literal["sklearn"] = "sklearn"

    @model_validator(mode="after")
    def _runs_on_the_cpu(self) -> Self:
        if self.device != "cpu":
            raise ValueError(f"device {self.device!r}: scikit-learn runs on the cpu")
        return self

    def runs_code(self) -> tuple[str, ...]:
        """The stages that are code, and a pickle."""
        return (*super().runs_code(), *((f"the pickle {self.path}",) if self.path.endswith(PICKLES) else ()))

    def may_hide_code(self, access: Access) -> str | None:
        """Types in a skops file that are not known to be harmless."""
        path = self.model_file(access)
        return None if path.suffix in PICKLES or only_common_types(path) else _unknown_types(path, self.path)[1]

    def load(self, access: Access, *, threads: int | None = None) -> Loaded:
        path = self.model_file(access)
        estimator = _unpickled(path, self.path, access) if path.suffix in PICKLES else _skops(path, self.path, access)
        if not is_estimator(estimator):
            name = type(estimator).__name__
            raise InputError(f"{self.path!r} holds a {name}, which has neither predict nor transform")
        return loaded_estimator(estimator, self.outputs, threads or usable_cpus())


def _skops(path: Path, shown: str, access: Access) -> Any:
    """The estimator of a skops file, whose types are all known to be harmless.

    Raises:
        InputError: No skops file, types that are not known to be harmless, or a tree that points outside itself.
    """
    skops_without_torch()
    import skops.io

    unknown, foreign = _unknown_types(path, shown)
    if foreign is not None:
        need_trust(access, foreign)
    try:
        estimator = skops.io.load(path, trusted=unknown)
    except Exception as error:
        raise InputError(f"{shown!r} can't be loaded: {type(error).__name__}: {first_line(error)}") from error
    wrong = check_trees(estimator) if set(unknown) & set(TREES) and not access.trust else None
    if wrong is not None:
        need_trust(access, f"{shown!r} is not known to be harmless: {wrong}")
    return estimator


def _unknown_types(path: Path, shown: str) -> tuple[list[str], str | None]:
    """Types in a skops file that skops leaves to its user, and those that are not known to be harmless, in words.

    Raises:
        InputError: It is no skops file.
    """
    import zipfile

    skops_without_torch()
    import skops.io

    if not zipfile.is_zipfile(path):
        raise InputError(f"{shown!r} is not a skops file, or a truncated one", remedy="save it with skops.io.dump")
    try:
        unknown = list(skops.io.get_untrusted_types(file=path))
    except Exception as error:
        raise InputError(f"{shown!r} can't be read as a skops file: {first_line(error)}") from error
    foreign = [name for name in unknown if name not in HARMLESS]
    if not foreign:
        return unknown, None
    listed = ", ".join(foreign[:8]) + (", ..." if len(foreign) > 8 else "")
    return unknown, f"{shown!r} holds types that are not known to be harmless: {listed}"


def _unpickled(path: Path, shown: str, access: Access) -> Any:
    """The estimator of a joblib or pickle file, under trust.

    Raises:
        InputError: Not trusted, or unreadable.
    """
    need_trust(access, f"{shown!r} is a pickle, which can run any code when it is loaded")
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:
        raise InputError(f"{shown!r} can't be unpickled: {type(error).__name__}: {first_line(error)}") from error


def loaded_estimator(estimator: Any, outputs: Mapping[OutputName, str | int], threads: int) -> LoadedSklearn:
    """An estimator, ready to be asked.

    Args:
        estimator: Of scikit-learn, or made like one.
        outputs: As the spec has them; empty: what it can is taken.
        threads: That it may use.

    Raises:
        InputError: It lacks a method that the spec names.
    """
    import sklearn
    from sklearn.base import is_classifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it has no stubs

    names = getattr(estimator, "feature_names_in_", None)
    classes = getattr(estimator, "classes_", None)
    can = tuple(method for method in METHODS if hasattr(estimator, method))
    default: dict[OutputName, str] = {"value": "predict"} if "predict" in can else {"embedding": "transform"}
    if is_classifier(estimator):
        default = {"probabilities": "predict_proba"} if "predict_proba" in can else {"label": "predict"}
    wanted = tuple(dict.fromkeys(can[name] if isinstance(name, int) and 0 <= name < len(can) else name
                                 for name in (outputs or default).values()))  # fmt: skip
    unknown = [name for name in wanted if name not in can]
    if unknown:
        raise InputError(f"a {type(estimator).__name__} has no method {unknown[0]!r}", choices=can)
    columns = tuple(str(name) for name in names) if names is not None else ()
    width = getattr(estimator, "n_features_in_", None)
    return LoadedSklearn(
        observed={
            "precision": estimator_precision(estimator),
            "device": "cpu",
            "threads": threads,
            "framework": f"scikit-learn {sklearn.__version__}",
            "estimator": type(estimator).__name__,
        },
        input_names=columns or ("X",),
        output_names=tuple(str(name) for name in wanted),
        tensors={"X": Tensor(shape=(None, int(width)))} if width is not None and not columns else {},
        classes=None if classes is None else tuple(getattr(classes, "tolist", lambda: classes)()),
        by_column=bool(columns),
        default_outputs=default,
        estimator=estimator,
        limit=threadpool_limits(limits=threads),
    )


@dataclass(kw_only=True)
class LoadedSklearn(Loaded):
    """An estimator in memory."""

    estimator: Any
    limit: Any

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Each method that is asked for, on one batch."""
        import numpy as np

        rows = _frame(inputs, self.input_names) if self.by_column else inputs["X"]
        found: dict[str, NDArray[Any]] = {}
        for name in self.output_names:
            value = getattr(self.estimator, name)(rows)
            if isinstance(value, list):
                raise InputError(f"{name} gives {len(value)} targets; evalspec judges one")
            found[name] = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
        return found

    def parameters(self) -> int | None:
        """Coefficients and intercepts, of a pipeline those of its steps; None for what has none (trees, neighbours)."""
        return _coefficients(self.estimator)

    def steps(self) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
        """As `evalspec.language.abilities.Stepped.steps`: the steps of a pipeline, its last one as ``inference``."""
        pipeline: Any = getattr(self.estimator, "steps", ())
        if len(pipeline) < 2 or len(self.output_names) != 1:
            return (("inference", self.predict),)
        (method,) = self.output_names

        def infer(rows: Any) -> dict[str, NDArray[Any]]:
            import numpy as np

            return {method: np.asarray(getattr(pipeline[-1][1], method)(rows))}

        transforms = [(name, step.transform) for name, step in pipeline[:-1] if hasattr(step, "transform")]
        rows = ("frame", lambda inputs: _frame(inputs, self.input_names) if self.by_column else inputs["X"])
        return (rows, *((str(name), transform) for name, transform in transforms), ("inference", infer))

    def close(self) -> None:
        """Let the thread pools be as they were."""
        self.limit.restore_original_limits()


def _coefficients(estimator: Any) -> int | None:
    import numpy as np

    found = 0
    for _, step in getattr(estimator, "steps", [("", estimator)]):
        for name in COEFFICIENTS:
            value = getattr(step, name, None)
            arrays = value if isinstance(value, list) else [] if value is None else [value]
            found += sum(int(np.size(array)) for array in arrays)
    return found or None


def _frame(inputs: Mapping[str, NDArray[Any]], columns: Sequence[str]) -> Any:
    import pandas as pd

    return pd.DataFrame({name: inputs[name] for name in columns}, copy=False)
