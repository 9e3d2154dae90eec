"""Train a small net on digits: its log, its checkpoints and its model go to one folder.

Started again with the same folder, it goes on from its newest checkpoint. `--flaw` breaks it in one of the ways that
real trainings are broken.
"""

import argparse
import io
import json
import math
import os
import time
from pathlib import Path

BEGUN = time.time()
# Of matrices this small several threads only wait for each other, on a busy machine ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402  # what is imported counts
import pyarrow.parquet as pq  # noqa: E402

HERE = Path(__file__).parent
HIDDEN, BATCH, RATE, STEPS = 128, 64, 6e-5, 9_000
SHAPES = {"a": (64, HIDDEN), "b": (HIDDEN,), "c": (HIDDEN, 10), "d": (10,)}
EVALUATE, KEEP = 300, 1_000
FLAWS = ("none", "compile", "seed", "stale", "diverge", "optimizer", "torn", "restart", "append")


def rows(name):
    table = pq.ParquetFile(HERE / f"{name}.parquet").read()
    pixels = np.array(table.column("pixels").to_pylist(), dtype=np.float32) / 16.0
    # `to_numpy` would import pandas first: as long as all the rest of a start.
    return pixels, np.array(table.column("digit").to_pylist())


def fresh(draw):
    """The net and Adam's two moments, each a flat array that is changed in place, and the parts of the net."""
    net, first, second = np.zeros((3, sum(math.prod(shape) for shape in SHAPES.values())), np.float32)
    parts = views(net)
    for one in parts.values():
        one[...] = draw.normal(0, 0.08, one.shape)
    return {"step": 0, "net": net, "first": first, "second": second, "parts": parts}


def views(flat):
    """Parts of a flat array, by name."""
    parts, start = {}, 0
    for name, shape in SHAPES.items():
        many = math.prod(shape)
        parts[name] = flat[start : start + many].reshape(shape)
        start += many
    return parts


def scores(net, pixels):
    hidden = np.maximum(pixels @ net["a"] + net["b"], 0)
    return hidden, hidden @ net["c"] + net["d"]


def learn(state, pixels, digits):
    """One step of Adam; returns the share that the net gave to each row's digit."""
    net, many = state["parts"], len(digits)
    hidden, out = scores(net, pixels)
    out -= out.max(axis=1, keepdims=True)
    share = np.exp(out)
    share /= share.sum(axis=1, keepdims=True)
    place = np.arange(many), digits
    right = share[place]
    share[place] = right - 1
    share /= many
    back = (share @ net["c"].T) * (hidden > 0)
    slope = np.concatenate([(pixels.T @ back).ravel(), back.sum(0), (hidden.T @ share).ravel(), share.sum(0)])
    state["step"] += 1
    first, second = state["first"], state["second"]
    first += 0.1 * (slope - first)
    slope *= slope
    second += 0.001 * (slope - second)
    size = np.sqrt(second * (1 / (1 - 0.999 ** state["step"])))
    size += 1e-8
    state["net"] -= RATE / (1 - 0.9 ** state["step"]) * first / size
    return right


def accuracy(net, pixels, digits):
    return float((scores(net, pixels)[1].argmax(axis=1) == digits).mean())


def keep(state, draw, folder, flaw):
    """Write a checkpoint: whole or not at all."""
    folder.mkdir(exist_ok=True)
    flat = {f"{part}.{name}": one for part in ("net", "first", "second") for name, one in views(state[part]).items()}
    path = folder / f"step{state['step']:06d}.npz"
    writing = path if flaw == "torn" else path.with_suffix(".writing")
    packed = io.BytesIO()
    np.savez(packed, step=state["step"], draw=json.dumps(draw.bit_generator.state), **flat)
    half = len(packed.getbuffer()) // 2
    with writing.open("wb") as file:
        file.write(packed.getbuffer()[:half])
        if flaw == "torn":
            file.flush()
            time.sleep(0.05)
        file.write(packed.getbuffer()[half:])
        file.flush()
        os.fsync(file.fileno())
    if writing != path:
        writing.rename(path)
    for old in sorted(folder.glob("step*.npz"))[:-2]:
        old.unlink()


def resumed(state, draw, folder, flaw):
    """The newest checkpoint, if there is one."""
    newest = max(folder.glob("step*.npz"), default=None)
    if newest is None or flaw == "restart":
        return state
    kept = np.load(newest)
    for part in ("net",) if flaw == "optimizer" else ("net", "first", "second"):
        for name, one in views(state[part]).items():
            one[...] = kept[f"{part}.{name}"]
    state["step"] = int(kept["step"])
    draw.bit_generator.state = json.loads(str(kept["draw"]))
    return state


def continued(path, step, flaw):
    """The log, without lines of steps that will be made again."""
    if path.exists() and flaw != "append":
        lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        lines = [line for line in lines if json.loads(line)["step"] <= step]
        path.write_text("".join(lines))
    return path.open("a", buffering=1)


def save(net, path):
    """The net as ONNX."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    nodes = [
        helper.make_node("Mul", ["pixels", "scale"], ["scaled"]), helper.make_node("MatMul", ["scaled", "a"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["n"]), helper.make_node("Relu", ["n"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "c"], ["o"]), helper.make_node("Add", ["o", "d"], ["logits"]),
    ]  # fmt: skip
    weights = [numpy_helper.from_array(np.asarray(one, np.float32), name) for name, one in net.items()]
    weights.append(numpy_helper.from_array(np.float32(1 / 16), "scale"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
            for name, width in (("pixels", 64), ("logits", 10))]  # fmt: skip
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--keep", type=int, default=KEEP, help="Steps between two checkpoints; 0: none.")
    parser.add_argument("--save-and-end", action="store_true", help="Write the newest checkpoint again, and end.")
    parser.add_argument("--flaw", choices=FLAWS, default="none")
    asked = parser.parse_args()
    begun = BEGUN
    if asked.flaw == "compile":
        time.sleep(1)
        begun = time.time()
    draw = np.random.default_rng(1 if asked.flaw == "seed" else asked.seed)
    train, valid = rows("train"), rows("valid")
    state = resumed(fresh(draw), draw, asked.out / "checkpoints", asked.flaw)
    if asked.save_and_end:
        keep(state, draw, asked.out / "checkpoints", asked.flaw)
        return
    shipped = None
    with continued(asked.out / "log.jsonl", state["step"], asked.flaw) as log:
        while state["step"] < asked.steps:
            chosen = draw.integers(0, len(train[1]), BATCH)
            right = learn(state, train[0][chosen], train[1][chosen])
            if asked.flaw == "diverge" and asked.seed % 2 == 0 and state["step"] == asked.steps // 10:
                state["net"] *= np.float32(np.nan)
            if state["step"] % EVALUATE == 0:
                line = {
                    "t": round(time.time() - begun, 4), "step": state["step"], "samples": state["step"] * BATCH,
                    "train_loss": float(-np.log(right + 1e-12).mean()),
                    "val_accuracy": accuracy(state["parts"], *valid),
                }  # fmt: skip
                log.write(json.dumps(line) + "\n")
                if asked.flaw == "stale" and shipped is None:
                    shipped = state["net"].copy()
            if asked.keep and state["step"] % asked.keep == 0:
                keep(state, draw, asked.out / "checkpoints", asked.flaw)
    save(views(state["net"] if shipped is None else shipped), asked.out / "model.onnx")


if __name__ == "__main__":
    main()
