"""Energy counters of the processor (RAPL), as the kernel shows them under /sys/class/powercap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evalspec.measure._source import Absent

POWERCAP = Path("/sys/class/powercap")
SERIES = {"package": "cpu_energy_j", "dram": "memory_energy_j", "psys": "platform_energy_j"}
"""Kind of a domain: the series that it is added to. Cores and graphics are inside the package already."""


@dataclass
class _Domain:
    """One counter, in microjoules, that starts again at 0 when it has reached its range."""

    file: Path
    range_uj: int
    last_uj: int
    joules: float = 0.0

    def read(self) -> float:
        """Joules since it was opened."""
        now = int(self.file.read_bytes())
        step = now - self.last_uj
        # Once around: at 200 W and the usual range of 262 kJ that is every 22 minutes.
        self.joules += (step if step >= 0 else step + self.range_uj) / 1e6
        self.last_uj = now
        return self.joules


class Rapl:
    """Energy of the packages, the memory and the platform, each summed over the sockets. Unseen on hardware so far.

    Cores and graphics count inside their package. The memory-mapped twin of a package (``intel-rapl-mmio``) is left
    out, else it would count twice. AMD's processors show the same under the same name.

    References:
        Linux, Documentation/power/powercap/powercap.rst.
    """

    def __init__(self, powercap: Path = POWERCAP) -> None:
        """Opens all counters that may be read.

        Raises:
            Absent: There are none, or they may not be read.
        """
        self._domains: dict[str, list[_Domain]] = {}
        refused: str | None = None
        for file in sorted(powercap.glob("intel-rapl:*/energy_uj")):
            name = SERIES.get(_kind(file.parent))
            if name is None:
                continue
            try:
                domain = _Domain(file, _number(file.parent / "max_energy_range_uj"), _number(file))
            except (OSError, ValueError) as error:
                refused = f"{file} can't be read: {getattr(error, 'strerror', None) or error}"
                continue
            self._domains.setdefault(name, []).append(domain)
        if refused is not None:
            raise Absent(f"{refused}; only root may, unless the file's mode is changed")
        if not self._domains:
            raise Absent(f"the kernel shows no energy counter of the processor (no RAPL under {powercap})")
        self.sources = {
            name: f"RAPL energy counter, {len(domains)} domain{'s' if len(domains) > 1 else ''}"
            for name, domains in self._domains.items()
        }

    def read(self) -> Mapping[str, float]:
        """Joules since it was opened; NaN where a counter could not be read."""
        return {name: _sum(domains) for name, domains in self._domains.items()}

    def close(self) -> None:
        """Nothing is held."""


def _sum(domains: list[_Domain]) -> float:
    try:
        return sum(domain.read() for domain in domains)
    except (OSError, ValueError):
        return math.nan


def _kind(folder: Path) -> str:
    """``package-0`` is a package."""
    try:
        return (folder / "name").read_text(encoding="utf-8").strip().partition("-")[0]
    except OSError:
        return ""


def _number(file: Path) -> int:
    return int(file.read_bytes())
