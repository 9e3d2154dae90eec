"""Makes the files of ``suites/predictions``: what a team has whose model can't leave its own platform.

    python suites/predictions/make_predictions.py

A logistic model of scikit-learn's wine data, cross-validated so that every row is predicted by a model that never saw
it; then only predictions, labels and a table are written. The digest that it prints is that of the model fitted on all
rows: what the spec states as its `artifact:`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEED = 3


def main() -> None:
    """Write both files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    wine = load_wine()
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, max_iter=1000))
    folds = StratifiedKFold(10, shuffle=True, random_state=SEED)
    probabilities = cross_val_predict(model, wine.data, wine.target, cv=folds, method="predict_proba")
    order = np.random.default_rng(SEED).permutation(len(wine.target))
    columns = {"id": np.arange(len(wine.target)), "cultivar": wine.target_names[wine.target].astype(str)}
    columns |= {name: wine.data[:, index] for index, name in enumerate(wine.feature_names[:4])}
    pq.write_table(pa.table(columns), HERE / "test.parquet")
    # In another order on purpose: rows are joined by key.
    made = {"id": order} | {f"p_{name}": probabilities[order, index] for index, name in enumerate(wine.target_names)}
    pq.write_table(pa.table(made), HERE / "predictions.parquet")
    final = model.fit(wine.data, wine.target)[-1]
    weights = np.concatenate([final.coef_, final.intercept_[:, None]], axis=1)
    print(f"sha256:{hashlib.sha256(weights.astype('<f8').tobytes()).hexdigest()}")


if __name__ == "__main__":
    main()
