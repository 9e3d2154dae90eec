"""Workers of one model that start together, before the first of them is measured: imports then share the processors."""

from __future__ import annotations

from collections.abc import Callable

from evalspec.language.parts import Model
from evalspec.running.children.process import Child

MOST = 4
"""Workers that hold the model at once."""
MOST_BYTES = 256 * 2**20
"""Size of a model of which several are held at once."""


class StartedAhead:
    """Fresh workers of one model; those that come next are loaded and asleep while one is measured."""

    def __init__(self, start: Callable[[], Child], *, together: bool) -> None:
        """Starts nothing yet.

        Args:
            start: Starts a worker.
            together: Several may hold the model at once.
        """
        self._start = start
        self._together = together
        self._ready: list[Child] = []

    def take(self, left: int) -> Child:
        """A worker, which the caller closes.

        Args:
            left: Workers that will be taken, this one included, as far as is known; others may follow on the last.

        Raises:
            EvalspecError: As a worker raises it that can't load the model.
        """
        if not self._ready:
            count = MOST if left == 1 else min(left, MOST)
            self._ready = [self._start() for _ in range(count if self._together else 1)]
            if self._together:
                for one in self._ready:
                    one.tell({"do": "load"})
                for one in self._ready:
                    one.answer()
        return self._ready.pop(0)

    def close(self) -> None:
        """End the workers that nobody has taken."""
        for one in self._ready:
            one.close()
        self._ready = []


def may_start_together(model: Model, size_bytes: object) -> bool:
    """True where workers that hold a model and are not asked do nothing, and have room beside each other.

    Code of the spec may do something by itself, and what is on a GPU takes its memory from the one that is measured.

    Args:
        model: As the spec has it.
        size_bytes: Of its files, as far as it is known.
    """
    if model.served or model.in_memory or model.runs_code() or model.device != "cpu":
        return False
    return isinstance(size_bytes, int | float) and size_bytes <= MOST_BYTES
