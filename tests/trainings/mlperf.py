"""Submissions to MLPerf Training v5.1, by their numbers, written as logs in the format of mlperf-logging.

Numbers are those of mlcommons/training_results_v5.1 (4da2d1c): `tyche` and `theia` of NVIDIA, `DLRM` of Cisco (hpf_n8).
Reference points are those of mlcommons/logging (7bbf792), `rcp_checker/training_5.1.0`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.trainings.logs import write_mllog


@dataclass(frozen=True)
class Submission:
    """Runs of one system.

    Args:
        workers: GPUs.
        batch: Samples of a step.
        before_min: Initialisation before the clock, by run.
        missed_min, missed: The last evaluation before the target: when, and after how many samples or epochs.
        minutes, samples: The one that reached it.
    """

    workers: int
    batch: int
    before_min: tuple[float, ...]
    missed_min: tuple[float, ...]
    missed: tuple[float, ...]
    minutes: tuple[float, ...]
    samples: tuple[float, ...]

    def write(self, folder: Path, aborted: Iterable[int] = ()) -> None:
        """``result_0.txt`` and so on; a loss that falls to 3.3, or stays above it in aborted runs.

        Args:
            folder: Where.
            aborted: Runs that did not get there.
        """
        lost = set(aborted)
        for place, minutes in enumerate(self.minutes):
            last = 3.301 if place in lost else 3.29
            evaluations = [
                (self.missed_min[place], 3.32, self.missed[place]),
                (minutes, last, self.samples[place]),
            ]
            write_mllog(
                folder / f"result_{place}.txt", evaluations, seed=1_000 * self.workers + place,
                before_min=self.before_min[place], status="aborted" if place in lost else "success",
                batch=self.batch, prefix="", benchmark="llama31_8b",
            )  # fmt: skip


TYCHE_8 = Submission(
    8,
    16,
    (0.717, 0.71, 0.709, 0.714, 0.72, 0.717, 0.718, 0.714, 0.714, 0.721),
    (69.2028, 76.0876, 75.4724, 70.0093, 78.2861, 69.537, 75.1738, 74.6961, 75.0316, 74.5384),
    (159744, 172032, 172032, 159744, 172032, 159744, 172032, 172032, 172032, 172032),
    (75.2331, 81.4707, 80.8114, 76.1006, 83.8249, 75.5919, 80.4926, 79.9806, 80.3403, 79.8093),
    (172032, 184320, 184320, 172032, 184320, 172032, 184320, 184320, 184320, 184320),
)
TYCHE_72 = Submission(
    72,
    36,
    (1.475, 1.477, 1.471, 1.484, 1.468, 1.474, 1.462, 1.468, 1.463, 1.472),
    (12.8321, 13.9934, 13.0371, 14.1408, 12.9884, 14.1211, 13.9694, 13.8228, 13.968, 14.1959),
    (160056, 172368, 160056, 172368, 160056, 172368, 172368, 172368, 172368, 172368),
    (13.8207, 14.9947, 14.0405, 15.1532, 13.9898, 15.1318, 14.9696, 14.8127, 14.9675, 15.2128),
    (172368, 184680, 172368, 184680, 172368, 184680, 184680, 184680, 184680, 184680),
)
TYCHE_512 = Submission(
    512,
    64,
    (2.651, 2.643, 2.662, 2.689, 2.642, 2.681, 2.661, 2.663, 2.658, 2.645),
    (5.0167, 5.6012, 5.0088, 4.9961, 5.3005, 4.4091, 5.0054, 5.2932, 4.7073, 5.3022),
    (208896, 233472, 208896, 208896, 221184, 184320, 208896, 221184, 196608, 221184),
    (5.3112, 5.8961, 5.3035, 5.2898, 5.5991, 4.7031, 5.3001, 5.5873, 5.0018, 5.5968),
    (221184, 245760, 221184, 221184, 233472, 196608, 221184, 233472, 208896, 233472),
)
THEIA_8 = Submission(
    8,
    16,
    (1.307, 1.329, 1.321, 1.334, 1.337, 1.329, 1.321, 1.323, 1.324, 1.321),
    (64.3356, 58.9849, 64.2083, 59.5284, 59.5533, 59.3043, 64.581, 64.5174, 64.5096, 64.4615),
    (172032, 159744, 172032, 159744, 159744, 159744, 172032, 172032, 172032, 172032),
    (68.8782, 64.226, 68.7419, 64.8106, 64.8388, 64.5694, 69.1402, 69.0715, 69.0634, 69.0119),
    (184320, 172032, 184320, 172032, 172032, 172032, 184320, 184320, 184320, 184320),
)
THEIA_LORA_512 = Submission(
    512,
    64,
    (3.225, 3.215, 3.203, 3.523, 3.513, 3.185, 3.507, 3.25, 3.21, 3.183),
    (0.39, 0.3643, 0.3641, 0.3393, 0.3893, 0.3621, 0.3623, 0.4124, 0.3628, 0.4126),
    (6912, 6528, 6528, 6144, 6912, 6528, 6528, 7296, 6528, 7296),
    (0.4153, 0.3895, 0.3894, 0.3645, 0.4145, 0.3872, 0.3874, 0.4374, 0.3879, 0.4377),
    (7296, 6912, 6912, 6528, 7296, 6912, 6912, 7680, 6912, 7680),
)
LORA_8 = Submission(
    8,
    8,
    (1.733, 1.685, 1.713, 1.676, 1.727, 1.639, 1.724, 1.767, 1.775, 1.659),
    (6.3845, 6.4056, 6.4324, 6.4474, 6.5782, 6.5943, 8.5389, 8.5531, 8.2831, 6.4963),
    (2688, 2688, 2688, 2688, 2688, 2688, 3072, 3072, 3072, 2688),
    (8.5863, 8.6226, 8.3054, 8.6009, 8.2835, 8.4564, 10.6799, 10.5839, 10.2153, 8.2716),
    (3072, 3072, 3072, 3072, 3072, 3072, 3456, 3456, 3456, 3072),
)
LORA_512 = Submission(
    512,
    64,
    (2.839, 2.752, 2.714, 2.724, 2.723, 2.721, 2.737, 2.71, 2.693, 2.703),
    (0.4142, 0.4109, 0.439, 0.4682, 0.3825, 0.5251, 0.4122, 0.4414, 0.4692, 0.4408),
    (6528, 6528, 6912, 7296, 6144, 8064, 6528, 6912, 7296, 6912),
    (0.4427, 0.4395, 0.4676, 0.4968, 0.4111, 0.5536, 0.4409, 0.4701, 0.4978, 0.4695),
    (6912, 6912, 7296, 7680, 6528, 8448, 6912, 7296, 7680, 7296),
)
RETINANET_8 = Submission(
    8,
    256,
    (0.384, 0.384, 0.381, 0.389, 0.386),
    (16.9878, 16.9596, 16.7454, 16.6735, 16.8174),
    (3, 3, 3, 3, 3),
    (22.5077, 22.4683, 22.187, 22.1307, 22.2882),
    (4, 4, 4, 4, 4),
)
RETINANET_512 = Submission(
    512,
    1024,
    (0.403, 0.417, 0.411, 0.402, 0.42),
    (1.1825, 1.1667, 1.1794, 1.173, 1.173),
    (5, 5, 5, 5, 5),
    (1.3881, 1.3772, 1.3874, 1.3863, 1.3857),
    (6, 6, 6, 6, 6),
)
DLRM = Submission(
    8,
    160000,
    (2.751, 2.752, 2.762, 2.8, 2.755, 2.757, 2.76, 2.753, 2.786, 2.755),
    (1.3831, 1.5422, 1.5426, 1.4656, 1.4628, 1.465, 1.3836, 1.5434, 1.4702, 1.4595),
    (0.8493, 0.9492, 0.9492, 0.8993, 0.8993, 0.8993, 0.8493, 0.9492, 0.8993, 0.8993),
    (1.463, 1.6218, 1.6225, 1.5457, 1.5428, 1.5453, 1.4636, 1.6234, 1.5503, 1.5394),
    (0.8993, 0.9992, 0.9992, 0.9492, 0.9492, 0.9492, 0.8993, 0.9992, 0.9492, 0.9492),
)

REFERENCE: Mapping[int, Sequence[int]] = {
    16: (13, 13, 13, 13, 13, 13, 14, 13, 14, 13, 14, 13, 13, 13, 13, 13, 13, 13, 13, 13),
    32: (16, 14, 15, 15, 14, 14, 15, 15, 15, 14, 14, 14, 15, 15, 15, 14, 14, 14, 15, 15),
    64: (19, 17, 17, 19, 19, 19, 19, 19, 17, 19, 19, 19, 20, 18, 17, 19, 19, 18, 18, 18),
    96: (24, 23, 22, 22, 22, 22, 24, 22, 24, 22, 24, 21, 22, 22, 22, 23, 21, 23, 23, 22),
    128: (30, 28, 29, 28, 30, 30, 33, 28, 27, 25, 27, 31, 25, 28, 26, 29, 27, 26, 29, 27),
}
"""Evaluations to the target of llama31_8b, by batch size."""
EVERY: Mapping[int, int] = {96: 12_384}
"""Samples of an evaluation; of the other batch sizes 12,288."""


def reference_samples(batch: int) -> list[int]:
    return [EVERY.get(batch, 12_288) * one for one in REFERENCE[batch]]


def write_rcps(path: Path, batches: Iterable[int] = tuple(REFERENCE)) -> None:
    """``rcps_llama31_8b.json``, as mlperf-logging has it."""
    records = {
        f"llama31_8b_ref_{batch}": {
            "Benchmark": "llama31_8b", "Creator": "NVIDIA", "When": "Reference RCPs before 5.1 submission",
            "Platform": "2xDGX-B200", "Precision": "BF16", "BS": batch,
            "Hyperparams": {"opt_base_learning_rate": 4e-04, "gradient_accumulation_steps": 1},
            "Epochs to converge": reference_samples(batch),
        }
        for batch in batches
    }  # fmt: skip
    path.write_text(json.dumps(records, indent=2))
