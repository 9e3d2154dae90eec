"""The median latency of one model, by evalspec and by a peer, blocks A B B A in one process.

    python tests/benchmarks/same_model.py [--rounds 20] [--queries 200]

ONNX: the same file, the same onnxruntime with the same settings, beside LoadGen's SingleStream. torch: the same
exported program, from an array to an array, beside ``torch.utils.benchmark``. One thread; six convolutions.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import beside
import numpy as np

CHANNELS, PIXELS, ROWS, LAYERS = 64, 56, 64, 6
ABOUT_S = 0.015
"""What a query takes: the timer is asked for seconds, not for a count."""
SHAPE = (CHANNELS, PIXELS, PIXELS)


def images() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(ROWS, *SHAPE)).astype(np.float32)


def module() -> object:
    import torch

    torch.manual_seed(1)
    convolutions = [torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(LAYERS)]
    layers = [layer for one in convolutions for layer in (one, torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()).eval()


def save(folder: Path) -> None:
    """The same network as ONNX and as an exported program."""
    import torch
    from onnx import TensorProto, helper, numpy_helper, save_model

    network = module()
    assert isinstance(network, torch.nn.Sequential)
    torch.export.save(torch.export.export(network, (torch.zeros(1, *SHAPE),)), folder / "m.pt2")
    nodes, weights, last = [], [], "x"
    for number, layer in enumerate(one for one in network if isinstance(one, torch.nn.Conv2d)):
        assert layer.bias is not None
        for name, value in (("w", layer.weight), ("b", layer.bias)):
            weights.append(numpy_helper.from_array(value.detach().numpy(), f"{name}{number}"))
        inputs = [last, f"w{number}", f"b{number}"]
        nodes.append(helper.make_node("Conv", inputs, [f"c{number}"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
        last = f"r{number}"
    nodes += [helper.make_node("GlobalAveragePool", [last], ["p"]), helper.make_node("Flatten", ["p"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *SHAPE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CHANNELS])],
        weights,
    )
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "m.onnx")


def ours(folder: Path, kind: str) -> Callable[[int], float]:
    """Measures a block of so many queries; gives its median in ms."""
    from evalspec.language.inputs import Schedule
    from evalspec.language.parts import Access
    from evalspec.measure.samples import read_samples
    from evalspec.measure.session import Session
    from evalspec.pipeline.serve import Served, ServedRows
    from evalspec.runtimes.onnx import Onnx
    from evalspec.runtimes.torch import Torch

    kinds = {"onnx": (Onnx, "m.onnx", "y"), "torch": (Torch, "m.pt2", "output")}
    runtime, path, output = kinds[kind]
    access = Access(folder=folder)
    classes = tuple(str(index) for index in range(CHANNELS))
    model = runtime(path=path, outputs={"logits": output}, classes=classes)
    loaded = model.load(access, threads=1)
    rows = ServedRows(Served(model, loaded, access), {loaded.input_names[0]: images()})
    session = Session(rows, Schedule(kind="single_stream", queries=100_000), folder / "samples")
    session.warm_up()

    def measure(queries: int) -> float:
        before = session.count
        session.block(0, queries, 0.0)
        samples = read_samples(folder / "samples", model="convolutions", process=0)
        assert samples.ok.all() and len(samples.ok) == before + queries
        return float(np.median((samples.end_ns - samples.sent_ns)[before:])) / 1e6

    return measure


def loadgen(folder: Path) -> Callable[[int], float]:
    import onnxruntime
    from loadgen_side import run

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), options, providers=["CPUExecutionProvider"])
    rows = images()

    def serve(index: int) -> None:
        session.run(None, {"x": rows[index : index + 1]})

    for index in range(ROWS):
        serve(index)
    return lambda queries: run("SingleStream", queries, ROWS, serve)["50.00 percentile latency (ns)"] / 1e6


def timer(folder: Path) -> Callable[[int], float]:
    import torch
    from torch.utils.benchmark import Timer

    network = torch.export.load(folder / "m.pt2").module()
    names = {"network": network, "from_numpy": torch.from_numpy, "row": images()[:1]}

    def measure(queries: int) -> float:
        with torch.inference_mode():
            timed = Timer("network(from_numpy(row)).numpy()", globals=names, num_threads=1)
            return 1e3 * float(timed.blocked_autorange(min_run_time=queries * ABOUT_S).median)

    measure(ROWS)
    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    sys.path.insert(0, str(beside.loadgen_folder()))
    with tempfile.TemporaryDirectory() as name:
        save(Path(name))
        for kind, peer, title in (("onnx", loadgen, "LoadGen"), ("torch", timer, "torch.utils.benchmark")):
            sides = (ours(Path(name), kind), peer(Path(name)))
            found: tuple[list[float], list[float]] = ([], [])
            for turn in range(options.rounds):
                for side in (0, 1) if turn % 2 == 0 else (1, 0):
                    found[side].append(sides[side](options.queries))
            print(beside.head(f"{kind} model", "evalspec", title))
            print(beside.row("median latency, ms", *found))


if __name__ == "__main__":
    main()
