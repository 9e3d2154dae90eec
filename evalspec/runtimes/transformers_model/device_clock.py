"""Times of tokens on a CUDA device, beside those of the clock that everything else is timed with."""

from __future__ import annotations

from typing import Any

from evalspec.clocks import now_ns
from evalspec.errors import InvalidError

TOLERANCE, LEAST_MS = 0.05, 1.0
"""The two may differ by this share of a stretch of tokens, or by so many ms where that is more."""


class DeviceClock:
    """Events on the device's own stream, one for each token; on a CPU it does nothing.

    Args:
        place: The device.
    """

    def __init__(self, place: Any) -> None:
        self._place = place
        self._on = place.type == "cuda"
        self._events: list[Any] = []
        self._heard_ns: list[int] = []
        if self._on:
            import torch

            torch.cuda.synchronize(place)
            self.tick()
            self._heard_ns.append(now_ns())

    def tick(self) -> None:
        """Put an event behind all that was asked of the device."""
        if self._on:
            import torch

            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(self._place))
            self._events.append(event)

    def heard(self, at_ns: int) -> None:
        """When the token of the last event was here, on `evalspec.clocks.now_ns`."""
        if self._on:
            self._heard_ns.append(at_ns)

    def check(self) -> None:
        """Stop where a time on the device is another than here.

        Raises:
            InvalidError: It is.
        """
        if not self._on:
            return
        self._events[-1].synchronize()
        for event, heard_ns in zip(self._events[1:], self._heard_ns[1:], strict=True):
            device_ms = float(self._events[0].elapsed_time(event))
            wall_ms = (heard_ns - self._heard_ns[0]) / 1e6
            if abs(wall_ms - device_ms) > max(LEAST_MS, TOLERANCE * wall_ms):
                raise InvalidError(
                    f"the device reports that tokens took {device_ms:.2f} ms and the clock here {wall_ms:.2f} ms: "
                    "times of tokens are not those of the work"
                )
