"""States of the trainer of Hugging Face."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from evalspec.errors import InputError
from evalspec.trainings.reading.files import LogFile
from evalspec.trainings.reading.log import TrainingLog
from evalspec.trainings.reading.run import Evaluation, TrainingRun

COUNTS = ("step", "epoch", "num_input_tokens_seen")
"""Keys of an entry that say how far the training had come."""


class TrainerStateTraining(TrainingLog):
    """`trainer_state.json` of Hugging Face's trainer, a file for each run; name that of the last checkpoint.

    It holds no times, so that it shows samples and final values alone.
    """

    kind: Literal["trainer_state"] = "trainer_state"
    batch: int | None = Field(None, ge=1, description="Samples of a step, all workers together.")

    def runs(self, file: LogFile) -> Iterable[TrainingRun]:
        """The run of one file."""
        try:
            state = json.loads(file.text())
        except (ValueError, RecursionError) as error:
            message = f"{file.name} is not JSON, or was cut off"
            raise InputError(message, remedy="name the trainer_state.json of the checkpoint before") from error
        history = state.get("log_history") if isinstance(state, dict) else None
        if not isinstance(history, list) or not all(isinstance(one, dict) for one in history):
            raise InputError(f"{file.name} has no `log_history`, which every trainer_state.json has")
        evaluations = tuple(one for entry in history for one in self._evaluations(entry))
        done, planned = state.get("global_step"), state.get("max_steps")
        yield TrainingRun(
            file.name, evaluations, seed=file.seed, workers=file.workers, batch=self.batch,
            # Early stopping ends before the last step as well, so that only its mark tells a run that broke off.
            status="cut" if _number(done) is not None and _number(planned) is not None and done < planned
            and not _stopped(state) else "ended",
        )  # fmt: skip

    def _evaluations(self, entry: Mapping[str, Any]) -> Iterable[Evaluation]:
        step = _number(entry.get("step"))
        samples = None if step is None or self.batch is None else step * self.batch
        for name, value in entry.items():
            number = _number(value)
            if name not in COUNTS and number is not None:
                yield Evaluation(name, number, None, None if step is None else int(step), samples)


def _stopped(state: Mapping[str, Any]) -> bool:
    """True if the trainer itself decided to stop."""
    callbacks = state.get("stateful_callbacks")
    control = callbacks.get("TrainerControl") if isinstance(callbacks, dict) else None
    said = control.get("args") if isinstance(control, dict) else None
    return isinstance(said, dict) and bool(said.get("should_training_stop"))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if math.isinf(value) else float(value)
