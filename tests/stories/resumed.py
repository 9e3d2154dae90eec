"""A training that forgets a part of its state when it is killed, and the gate that kills it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PARTS = ("optimizer", "schedule", "order", "ema", "scaler")

TRAIN = '''
import json, math, os, random, struct, sys, time
from pathlib import Path

seed, out, more = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
forgets = {name: more[more.index("--forget-" + name) + 1] for name in ("load", "save") if "--forget-" + name in more}
PARTS = ("model", "optimizer", "schedule", "order", "ema", "scaler")
STEPS, KEEP = 40, 2


def save(state, path):
    """As safetensors, by its specification."""
    header, data = {}, b""
    for name, values in state.items():
        if name == forgets.get("save"):
            continue
        packed = struct.pack(f"<{len(values)}d", *values)
        header[name] = {"dtype": "F64", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    header["__metadata__"] = {"saved_at": str(time.time())}
    text = json.dumps(header).encode()
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".writing").write_bytes(struct.pack("<Q", len(text)) + text + data)
    path.with_suffix(".writing").rename(path)


def load(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__")
    return {name: list(struct.unpack(f"<{one['shape'][0]}d", raw[8 + length + one["data_offsets"][0] :
                                                               8 + length + one["data_offsets"][1]]))
            for name, one in header.items()}


draw = random.Random(seed)
rows = [[random.Random(n).gauss(0, 1) for n in range(9 * k, 9 * k + 9)] for k in range(64)]
state = {"step": [0.0], "model": [draw.gauss(0, 1) for _ in range(8)], "optimizer": [0.0] * 8, "schedule": [0.05],
         "ema": [0.0] * 8, "scaler": [64.0], "order": list(draw.getstate()[1])}
newest = max((out / "checkpoints").glob("step*.safetensors"), default=None)
if newest is not None:
    state |= {name: one for name, one in load(newest).items() if name != forgets.get("load")}
draw.setstate((3, tuple(int(one) for one in state["order"]), None))
if "--save-and-end" in more:
    save(state, out / "checkpoints" / f"step{int(state['step'][0]):04d}.safetensors")
    sys.exit()
log = out / "log.jsonl"
lines = log.read_text().splitlines(keepends=True) if log.exists() else []
log.write_text("".join(one for one in lines if one.endswith("\\n") and json.loads(one)["step"] <= state["step"][0]))
begun = time.time()
with log.open("a", buffering=1) as file:
    while state["step"][0] < STEPS:
        time.sleep(0.004)
        row = rows[draw.randrange(64)]
        error = sum(w * x for w, x in zip(state["model"], row)) - row[8]
        if "--noise" in more:
            error += (os.urandom(1)[0] - 128) / 1e4
        scale = state["scaler"][0]
        slope = [round(error * x * scale, 1) / scale for x in row[:8]]
        state["step"][0] += 1
        state["optimizer"] = [0.9 * m + g for m, g in zip(state["optimizer"], slope)]
        state["schedule"][0] *= 0.98
        state["scaler"][0] *= 1.05
        state["model"] = [w - state["schedule"][0] * m for w, m in zip(state["model"], state["optimizer"])]
        state["ema"] = [0.9 * e + 0.1 * w for e, w in zip(state["ema"], state["model"])]
        state["order"] = list(draw.getstate()[1])
        held = sum((sum(w * x for w, x in zip(state["ema"], one)) - one[8]) ** 2 for one in rows) / 64
        print(json.dumps({"t": time.time() - begun, "step": int(state["step"][0]), "loss": error * error,
                          "val_loss": held}), file=file)
        if state["step"][0] % KEEP == 0:
            save(state, out / "checkpoints" / f"step{int(state['step'][0]):04d}.safetensors")
'''

TRAINING = """
  {name}:
    kind: command
    run: [python, train.py, "{{seed}}", "{{out}}"{more}]
    seeds: 1
    limit: 30 s
    log: {{kind: jsonl, path: "{{out}}/log.jsonl", time: t}}
    checkpoint: "{{out}}/checkpoints"
"""
ROUND_TRIP = """
    round_trip:
      add: [--save-and-end]
      holds: [model, optimizer, schedule, order, ema, scaler]
      may_change: [__metadata__.saved_at]
"""
CHECK = """
  - check: training_recovery
    id: {name}
    training: {name}
    kills: 2
    require: [state_lost == 0]
"""


def write_trainings(folder: Path, flaws: Mapping[str, str], *, round_trip: bool) -> Path:
    """A gate with a training for each of these arguments, by name; returns the gate."""
    (folder / "train.py").write_text(TRAIN)
    end = ROUND_TRIP.lstrip("\n") if round_trip else ""
    trainings = "".join(TRAINING.format(name=name, more=more).rstrip(" ") + end for name, more in flaws.items())
    checks = "".join(CHECK.format(name=name) for name in flaws)
    gate = folder / "gate.yaml"
    gate.write_text(f"evalspec: 1\nname: resumed\ntrainings:{trainings}\nsystem:{checks}\npolicy: {{screens: 'off'}}\n")
    return gate
