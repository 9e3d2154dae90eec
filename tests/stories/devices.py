"""Stories of devices: heat, meters, precisions, stages, and what a smaller model gains on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evalspec.language.inputs import Predictions
from evalspec.language.timings import Telemetry
from tests.checks.model.test_stories import spread
from tests.checks.system.probed import precision, stages
from tests.checks.system.sustained.test_sustained import device
from tests.meters import Machine, telemetry
from tests.stories.planting import ASKED, ROWS, answered, clock, judged
from tests.stories.telling import Planted, Tale


def hot(tale: Tale, bad: bool) -> None:
    """45 TOPS for a quarter of a minute, then 20."""
    tale.ask("system", "sustained", "f11_sustained", "sustained_ratio >= 0.9x", "throttled == 0", dataset="asked",
             planted=Planted(device(15.0 if bad else 100.0, 45 / 20)))  # fmt: skip


@dataclass
class NearIdle(Machine):
    """Its meter is read before it works, and no longer: watts of rest beside the work of a peak."""

    def _told(self, watts: float, seconds: float) -> Telemetry | None:
        return telemetry(watts, 0.5, begin_s=-5.0, counter=self.counter)


def two_windows(tale: Tale, bad: bool) -> None:
    """Operations at the peak, watts near idle."""
    tale.ask("system", "energy", "f12_energy", "throughput_per_watt >= 0.5 samples/J", boundary="package",
             dataset="asked", planted=Planted(NearIdle() if bad else Machine()))  # fmt: skip


def tensor_floats(tale: Tale, bad: bool) -> None:
    """A flag puts TF32 under what is called FP32."""
    tale.echo("f15_model", {"x": "x"}, device="cuda:0", precision="fp32")
    computes = "tf32" if bad else "float32"
    found = precision([("mm", "aten.mm", "cuda:0", computes, "float32", "float32", 1e9)], device_observed="cuda:0")
    tale.ask("system", "precision", "f15_precision", "precision_coverage >= 95 %", "operator_coverage == 100 %",
             model="f15_model", dataset="asked",
             planted=Planted(probes=found, facts={"precision": "fp32"}))  # fmt: skip


def fallen_back(tale: Tale, bad: bool) -> None:
    """One operator that the accelerator does not have."""
    rows = [("conv", "Conv", "cuda:0", "float32", "float32", "float32", 9e6)] * 2
    if bad:
        rows.append(("odd", "NonMaxSuppression", "cpu", "float32", "", "int64", 10.0))
    tale.echo("f18_model", {"x": "x"}, device="cuda:0", precision="fp32")
    found = precision(rows, device_observed="cuda:0")
    tale.ask("system", "precision", "f18_precision", "operator_coverage == 100 %", model="f18_model", dataset="asked",
             planted=Planted(probes=found, facts={"precision": "fp32"}))  # fmt: skip


def pruned(tale: Tale, bad: bool) -> Predictions:
    """A tenth of the bytes; zeros that the device multiplies all the same.

    Returns:
        Answers of the model that it was made from.
    """
    said = []
    for name, right, size in (("f19_pruned", 0.949, 10_000), ("f19_whole", 0.95, 100_000)):
        said.append(judged(tale, name, "f19_rows", spread(right), weights=[f"{name}.bin"]))
        code = (tale.folder / f"stories_{name}.py").stat().st_size
        (tale.folder / f"{name}.bin").write_bytes(bytes(size - code))
    planted = replace(
        clock({"f19_pruned": 10.0 if bad else 4.0, "f19_whole": 10.0}, "f19_whole"),
        beside=answered(*said, slices={("rare", "f19_rows"): ROWS % 5 == 0}),
    )
    tale.slices.append({"name": "rare", "where": "one_in_five == True"})
    tale.ask("model", "compression", "f19_pruning", "size_ratio >= 5x", "speedup >= 1.5x", "accuracy_drop <= 1 pp",
             "worst_slice_drop <= 2 pp", method="pruning", model="f19_pruned", baseline="f19_whole",
             dataset="f19_rows", by=["rare"], show_examples=False, planted=planted)  # fmt: skip
    return said[1]


def starved(tale: Tale, bad: bool) -> None:
    """The accelerator works for 30 % of the time: augmentation on the processor takes the rest."""
    times = {"augment": 11.0 if bad else 2.0, "inference": 5.0}
    tale.ask("system", "stages", "f22_stages", "stage_share(augment) <= 50 %", "amdahl_ceiling(inference) >= 2x",
             dataset="asked", planted=Planted(probes=stages(times)))  # fmt: skip


def leaderboard(tale: Tale, bad: bool, whole: Predictions) -> None:
    """12 to 8 ms by rounding harder, which no leaderboard's accuracy shows."""
    dynamic = {"method": "dynamic"}
    new = judged(tale, "f29_int8", "f19_rows", spread(0.949), 0.999 if bad else 0.96, quantization=dynamic)
    planted = replace(clock({"f29_int8": 8.0, "f19_whole": 12.0}, "f19_whole"), beside=answered(new, whole))
    tale.ask("system", "latency", "f29_latency", "latency_p99 <= 10 ms", model="f29_int8",
             dataset="f19_rows", caching_audit=False, planted=clock({"f29_int8": 8.0}))  # fmt: skip
    tale.ask("model", "compression", "f29_compression", "accuracy_drop <= 1 pp", "ece_increase <= 0.02",
             "speedup >= 1.3x", method="quantization", model="f29_int8", baseline="f19_whole", dataset="f19_rows",
             show_examples=False, planted=planted)  # fmt: skip


def better_but(tale: Tale, bad: bool) -> None:
    """2.1 points more on the benchmark; 40 % more energy, and 25 points less outside."""
    judged(tale, "f30_new", "f30_benchmark", spread(0.782))
    judged(tale, "f30_old", "f30_benchmark", spread(0.761))
    judged(tale, "f30_new", "f30_field", spread(0.532 if bad else 0.772))
    tale.datasets["f30_benchmark"]["origin"] = {"source": "benchmark"}
    tale.datasets["f30_field"]["origin"] = {"source": "field"}
    machines = {"f30_new": Machine(active_w=140.0 if bad else 100.0), "f30_old": Machine(active_w=100.0, seed=1)}
    tale.ask("model", "quality", "f30_quality", "accuracy >= f30_old + 1 pp", model="f30_new", dataset="f30_benchmark",
             show_examples=False)  # fmt: skip
    tale.ask("model", "generalization", "f30_outside", "ood_gap(f30_field) <= 5 pp", model="f30_new",
             inside="f30_benchmark", outside=["f30_field"])  # fmt: skip
    tale.ask("system", "energy", "f30_energy", "energy_per_inference <= 1.1x f30_old", model="f30_new",
             boundary="package", dataset="f30_benchmark", duration="4 s",
             planted=Planted(lambda model, schedule: machines[model](model, schedule)))  # fmt: skip


def thirsty(tale: Tale, bad: bool) -> None:
    """1,200 a second at 4.2 W is no better than 1,000 at 1.8 W."""
    for name in ("f32_new", "f32_old"):
        tale.echo(name, {"x": "x"})
    new = Machine(4.2 if bad else 1.8, 0.5, 1 / 1.2, seconds=4.0)
    machines = {"f32_new": new, "f32_old": Machine(1.8, 0.5, 1.0, seconds=4.0, seed=1)}
    tale.ask("system", "energy", "f32_energy", "throughput_per_watt >= 0.95x f32_old", "active_power <= 2 W",
             model="f32_new", boundary="package", dataset="asked", duration="4 s",
             planted=Planted(lambda model, schedule: machines[model](model, schedule)))  # fmt: skip


def copied(tale: Tale, bad: bool) -> None:
    """2 ms on the accelerator; getting there and back takes longer."""
    there, back = (3.0, 2.5) if bad else (0.1, 0.1)
    tale.echo("f35_npu", {"x": "x"}, device="cuda:0")
    tale.ask(
        "system",
        "stages",
        "f35_stages",
        "stage_share(inference) >= 50 %",
        "stage_share(copy_to_device) <= 30 %",
        model="f35_npu",
        dataset="asked",
        planted=Planted(probes=stages({"copy_to_device": there, "inference": 2.0, "copy_to_host": back})),
    )
    tale.ask("system", "latency", "f35_latency", "latency_p50 <= 4 ms", model="f35_npu",
             planted=clock({"f35_npu": 2.0 + there + back}), **ASKED)  # fmt: skip
    conditions = {"model": "f35_npu", "boundary": "accelerator_only", "precision": "int8"}
    tale.more["claims"] = [{"metric": "latency_p50", "value": "2 ms", "by": "vendor", "conditions": conditions}]


def aliased(tale: Tale, bad: bool) -> None:
    """A meter that moves every two seconds, in a window of ten."""
    tale.ask("system", "energy", "f47_energy", "energy_per_inference <= 2 J", boundary="package", dataset="asked",
             planted=Planted(Machine(step_s=2.0 if bad else 0.0)))  # fmt: skip
