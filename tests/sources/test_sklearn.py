from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from pydantic import ValidationError

from evalspec.language.parts import Access
from evalspec.sources.sklearn import COLUMNS, ROWS, Bundled, BundledSet

NAMES = get_args(Bundled)
HERE = Access(Path())


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_columns_are_those_of_scikit_learn(name: str) -> None:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")()
    dataset = BundledSet(name=name)  # type: ignore[arg-type]
    table = dataset.read(HERE)
    assert table.num_rows == len(bunch.data) == ROWS[name]
    assert (table["target"].to_numpy() == bunch.target).all()
    if name == "digits":
        assert table.column_names == ["pixels", "target"]
        assert table["pixels"].to_pylist() == bunch.data.astype(int).tolist()
    else:
        folded = [re.sub("[^a-z0-9]+", "_", feature.lower()).strip("_") for feature in bunch.feature_names]
        assert list(COLUMNS[name]) == folded
        assert np.array_equal(np.stack([table[column].to_numpy() for column in folded], axis=1), bunch.data)
    header = dataset.header(HERE)
    assert header.rows == table.num_rows
    assert header.columns == {field.name: str(field.type) for field in table.schema}


def test_parts_are_disjoint_and_the_same_each_time() -> None:
    first = BundledSet(name="iris", rows=(0, 100), shuffle=3)
    rest = BundledSet(name="iris", rows=(100, 150), shuffle=3)
    assert first.read(HERE).equals(first.read(HERE))
    assert first.header(HERE).rows == 100
    together = sorted(map(str, first.read(HERE).to_pylist() + rest.read(HERE).to_pylist()))
    assert together == sorted(map(str, BundledSet(name="iris").read(HERE).to_pylist()))
    assert len(set(first.read(HERE)["target"].to_pylist())) == 3


def test_fields() -> None:
    for rows in ((10, 5), (0, 151), (0, 0)):
        with pytest.raises(ValidationError):
            BundledSet(name="iris", rows=rows)
    with pytest.raises(ValidationError):
        BundledSet(name="olivetti")  # type: ignore[arg-type]
    assert BundledSet(name="iris").label == "target"
    assert BundledSet(name="iris").files(HERE) == ()


def test_a_header_needs_no_scikit_learn() -> None:
    code = (
        "import sys; from pathlib import Path; from evalspec.language.parts import Access;"
        "from evalspec.sources.sklearn import BundledSet; BundledSet(name='wine').header(Access(Path()));"
        "sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
