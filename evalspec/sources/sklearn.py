"""The data sets that come with scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Dataset
from evalspec.sources.reading.arrays import array_column

Bundled = Literal["digits", "iris", "wine", "breast_cancer", "diabetes"]
_CELL = ("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave_points",
         "symmetry", "fractal_dimension")  # fmt: skip
# Rows and columns as scikit-learn has them, so that a spec can be validated without importing it.
ROWS: Mapping[str, int] = {"digits": 1797, "iris": 150, "wine": 178, "breast_cancer": 569, "diabetes": 442}
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "digits": ("pixels",),
    "iris": ("sepal_length_cm", "sepal_width_cm", "petal_length_cm", "petal_width_cm"),
    "wine": ("alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols", "flavanoids",
             "nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue", "od280_od315_of_diluted_wines",
             "proline"),
    "breast_cancer": tuple(f"mean_{name}" for name in _CELL) + tuple(f"{name}_error" for name in _CELL)
    + tuple(f"worst_{name}" for name in _CELL),
    "diabetes": ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"),
}  # fmt: skip
TARGET = "target"


class BundledSet(Dataset):
    """One of scikit-learn's bundled sets. The label is the column ``target``; digits have their 64 ``pixels`` (0..16).

    Columns are scikit-learn's, with underscores: ``sepal length (cm)`` is ``sepal_length_cm``.
    """

    extra_name: ClassVar[str] = "sklearn"
    packages: ClassVar[tuple[str, ...]] = ("sklearn",)
    plain_header: ClassVar[bool] = True

    kind: Literal["sklearn"] = "sklearn"
    name: Bundled = Field(description="Which one.")
    rows: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]] | None = Field(
        None, description="First row and end row (counted from 0, end excluded), after `shuffle`; default: all."
    )
    shuffle: int | None = Field(None, ge=0, description="Seed for shuffling, before `rows`; default: no shuffling.")
    label: str | None = Field(TARGET, description="Column with the true label.")

    @model_validator(mode="after")
    def _rows_are_there(self) -> BundledSet:
        if self.rows is not None and not self.rows[0] < self.rows[1] <= ROWS[self.name]:
            raise ValueError(
                f"rows {list(self.rows)} are not within 0..{ROWS[self.name]} of {self.name}, in rising order"
            )
        return self

    def files(self, access: Access) -> tuple[Path, ...]:
        """None: it comes with the package."""
        return ()

    def header(self, access: Access) -> Header:
        """Rows and columns, without importing scikit-learn."""
        number = "fixed_size_list<item: uint8>[64]" if self.name == "digits" else "double"
        target = "double" if self.name == "diabetes" else "int64"
        start, stop = self.rows or (0, ROWS[self.name])
        return Header(rows=stop - start, columns={**dict.fromkeys(COLUMNS[self.name], number), TARGET: target})

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, these columns.

        Raises:
            InputError: A column isn't there.
        """
        import sklearn.datasets

        names = choose(columns, [*COLUMNS[self.name], TARGET], f"scikit-learn's {self.name}")
        bunch = getattr(sklearn.datasets, f"load_{self.name}")()
        order = np.arange(ROWS[self.name])
        if self.shuffle is not None:
            np.random.default_rng(self.shuffle).shuffle(order)
        order = order[slice(*self.rows) if self.rows else slice(None)]
        data, target = bunch.data[order], bunch.target[order]
        found = {TARGET: target.astype(np.float64 if self.name == "diabetes" else np.int64)}
        if self.name == "digits":
            found["pixels"] = data.astype(np.uint8)
        else:
            found |= dict(zip(COLUMNS[self.name], data.T, strict=True))
        return pa.table({name: array_column(found[name], name) for name in names})
