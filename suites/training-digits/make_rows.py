"""Write the rows of this suite: scikit-learn's digits, cut into rows to train on, to evaluate on, and unseen ones."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

ENDS = {"train": 1000, "valid": 1400, "unseen": 1797}

if __name__ == "__main__":
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.target))
    first = 0
    for name, end in ENDS.items():
        rows = order[first:end]
        first = end
        pixels = pa.array([one.astype(np.uint8) for one in digits.data[rows]], pa.list_(pa.uint8(), 64))
        table = pa.table({"pixels": pixels, "digit": pa.array(digits.target[rows], pa.int64())})
        pq.write_table(table, Path(__file__).with_name(f"{name}.parquet"), compression="zstd")
