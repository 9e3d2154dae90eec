"""Types that a skops file names, read without scikit-learn: does it hold any but the most common?

Nothing rests on it but time: whoever loads the file looks at its types again, with skops.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

SCHEMA = "schema.json"
MOST_BYTES = 16 * 2**20
"""Of a schema that is read here."""
PLAIN = {
    "JsonNode": "builtins", "TypeNode": "builtins", "ListNode": "builtins", "DictNode": "builtins",
    "TupleNode": "builtins", "NdArrayNode": "numpy",
}  # fmt: skip
"""Kinds of nodes without code, and the package of their types."""
PLAIN_TYPES = frozenset({
    "str", "int", "float", "bool", "list", "dict", "tuple", "ndarray", "float64", "float32", "int64", "int32", "bool_",
    "str_",
})  # fmt: skip
ESTIMATORS = frozenset({
    "sklearn.calibration.CalibratedClassifierCV",
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.ensemble._forest.ExtraTreesClassifier",
    "sklearn.ensemble._forest.ExtraTreesRegressor",
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.ensemble._forest.RandomForestRegressor",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.linear_model._base.LinearRegression",
    "sklearn.linear_model._coordinate_descent.ElasticNet",
    "sklearn.linear_model._coordinate_descent.Lasso",
    "sklearn.linear_model._logistic.LogisticRegression",
    "sklearn.linear_model._ridge.Ridge",
    "sklearn.neighbors._classification.KNeighborsClassifier",
    "sklearn.neural_network._multilayer_perceptron.MLPClassifier",
    "sklearn.neural_network._multilayer_perceptron.MLPRegressor",
    "sklearn.pipeline.FeatureUnion",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.MaxAbsScaler",
    "sklearn.preprocessing._data.MinMaxScaler",
    "sklearn.preprocessing._data.RobustScaler",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._encoders.OneHotEncoder",
    "sklearn.preprocessing._encoders.OrdinalEncoder",
    "sklearn.svm._classes.SVC",
    "sklearn.tree._classes.DecisionTreeClassifier",
    "sklearn.tree._classes.DecisionTreeRegressor",
})  # fmt: skip
"""Estimators that skops trusts."""


def only_common_types(path: Path) -> bool:
    """True where every type in a skops file is one of `ESTIMATORS` or plain; False also where it can't be read here."""
    try:
        with zipfile.ZipFile(path) as packed:
            if packed.getinfo(SCHEMA).file_size > MOST_BYTES:
                return False
            left = [json.loads(packed.read(SCHEMA))]
    except (OSError, ValueError, KeyError, RuntimeError, RecursionError, NotImplementedError, zipfile.BadZipFile):
        return False
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            if "__loader__" in node and not _is_common(node):
                return False
            left += node.values()
    return True


def _is_common(node: dict[str, object]) -> bool:
    loader, module, name = (str(node.get(key)) for key in ("__loader__", "__module__", "__class__"))
    if loader == "ObjectNode":
        return f"{module}.{name}" in ESTIMATORS
    return PLAIN.get(loader) == module and name in PLAIN_TYPES
