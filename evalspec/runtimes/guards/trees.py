"""Trees of scikit-learn from a file that nobody vouches for: do their nodes stay inside them?

scikit-learn walks a tree in compiled code that checks no bounds, so skops leaves it to its user whether a tree may be
loaded. A tree whose indices are checked here is data and nothing more.
"""

from __future__ import annotations

import pickle
from io import RawIOBase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TREE = ("sklearn.tree._tree", "Tree")
_PREDICTOR = ("sklearn.ensemble._hist_gradient_boosting.predictor", "TreePredictor")
TREES = (".".join(_TREE), ".".join(_PREDICTOR))
"""Types that `check_trees` looks into."""
_BOOSTING = "sklearn.ensemble._gb"
_HOLDERS = (
    "sklearn.tree._classes",
    "sklearn.ensemble._forest",
    _BOOSTING,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting",
)
"""Modules whose estimators give their trees exactly the columns that they count in ``n_features_in_``."""
_FITTED = ("tree_", "estimators_", "_predictors")
"""What such an estimator has once it is fitted; a forest also keeps the unfitted one that it was made from."""


def check_trees(estimator: Any) -> str | None:
    """Fault of the trees anywhere inside an estimator; None: there is none.

    Args:
        estimator: As loaded, before it is asked anything.
    """
    try:
        _Visit(None).dump(estimator)
    except _BadTree as error:
        return str(error)
    except (pickle.PicklingError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return f"its parts can't be inspected ({type(error).__name__})"
    return None


class _BadTree(Exception):
    """A tree that may not be walked; says why."""


class _Nowhere(RawIOBase):
    def write(self, data: Any) -> int:
        return len(data)


class _Visit(pickle.Pickler):
    """Meets every object that an estimator is made of; what is written goes nowhere."""

    def __init__(self, width: int | None) -> None:
        """``width``: columns that the trees met may read; None: no estimator that holds trees was entered yet."""
        super().__init__(_Nowhere())
        self.width = width

    def persistent_id(self, obj: Any) -> str | None:
        """Look at one object; one that is done with gets a name, so that it is not entered."""
        import numpy as np

        kind = type(obj)
        if (kind.__module__, kind.__name__) in (_TREE, _PREDICTOR):
            if self.width is None:
                raise _BadTree("there is a tree where none is expected")
            (_check_tree if kind.__name__ == "Tree" else _check_predictor)(obj, self.width)
            return "checked"
        if kind is np.ndarray and obj.dtype != object:
            return "numbers"
        if kind.__module__ in _HOLDERS and any(hasattr(obj, name) for name in _FITTED):
            return self._enter(obj)
        if kind.__module__ == "sklearn.ensemble._iforest":
            raise _BadTree(f"the columns of the trees of an {kind.__name__} can't be checked")
        return None

    def _enter(self, holder: Any) -> str | None:
        width = getattr(holder, "n_features_in_", None)
        if width is None:
            raise _BadTree(f"a {type(holder).__name__} does not say how many columns it takes")
        if self.width is None:
            _Visit(int(width)).dump(holder)
            if type(holder).__module__ == _BOOSTING:
                _check_stages(holder, int(width))
            return "checked"
        if width != self.width:
            raise _BadTree(f"a tree takes {width} columns inside an estimator that takes {self.width}")
        return None


def _check_tree(tree: Any, width: int) -> None:
    # The arrays of a tree are as long as its node_count says, so that is looked at first.
    if not 0 < tree.node_count <= tree.capacity or tree.value.size < tree.node_count or tree.n_features != width:
        raise _BadTree("a tree's sizes disagree")
    inner = tree.children_left != -1
    _check_nodes(inner, tree.children_left, tree.children_right, tree.feature, width)


def _check_predictor(predictor: Any, width: int) -> None:
    nodes = predictor.nodes
    if nodes["is_categorical"].any():
        raise _BadTree("splits by category can't be checked")
    _check_nodes(nodes["is_leaf"] == 0, nodes["left"], nodes["right"], nodes["feature_idx"], width)


def _check_nodes(
    inner: NDArray[Any], left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], width: int
) -> None:
    """A child comes after its parent, so that a walk ends, and is there; a feature is one of the columns."""
    import numpy as np

    parents = np.flatnonzero(inner)
    for children in (left[parents], right[parents]):
        if ((children <= parents) | (children >= len(inner))).any():
            raise _BadTree("a tree's nodes point outside it or back")
    if ((feature[parents] < 0) | (feature[parents] >= width)).any():
        raise _BadTree(f"a tree reads a column outside the {width}")


def _check_stages(holder: Any, width: int) -> None:
    """Each stage of a gradient boosting has as many trees as the sums that they are added to."""
    import numpy as np

    # The sums are made in Python, from parts that are checked by now; one row shows how many there are.
    try:
        sums = holder._raw_predict_init(np.zeros((1, width), dtype=np.float32))
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise _BadTree(f"its initial sums can't be computed ({type(error).__name__})") from error
    if sums.ndim != holder.estimators_.ndim or sums.shape[1] != holder.estimators_.shape[1]:
        raise _BadTree("a stage has a different number of trees than sums")
