"""A training that sleeps: it stands for one that learns, and breaks as it is asked to."""

from __future__ import annotations

from pathlib import Path

TRAIN = """
import json, os, random, sys, time
seed, out, how = int(sys.argv[1]), sys.argv[2], sys.argv[3]
workers = int(sys.argv[4]) if len(sys.argv) > 4 else 1
if how == "late":
    time.sleep(0.4)
begun = time.time()
draw = random.Random(0 if how == "constant" else seed)
if how == "never logs":
    sys.exit("no such device")
if how == "no log":
    sys.exit(0)
if how == "two crash" and seed in (2, 3):
    sys.exit("diverged")
with open(os.path.join(out, "log.jsonl"), "w", buffering=1) as log:
    for step in range(1, 9):
        time.sleep(0.02)
        value = min(0.99, 0.80 + 0.03 * step + 0.01 * draw.random())
        if how == "nan" and seed % 2:
            value = float("nan")
        if how == "crash at the end" and step == 8:
            sys.exit("out of disk")
        print(json.dumps({"t": time.time() - begun, "step": step, "samples": 32 * step, "val_accuracy": value}),
              file=log)
        if how == "hang":
            time.sleep(60)
        if how == "memory":
            hoard = bytearray(400 * 2**20)
            time.sleep(60)
        if how == "slow":
            time.sleep(0.05)
        if how == "pauses":
            begun += 0.16
            time.sleep(0.16)
with open(os.path.join(out, "model.txt"), "w") as file:
    file.write(str(seed))
"""

SPEC = """
evalspec: 1
name: toy
trainings:
  recipe:
    kind: command
    run: [python, train.py, "{{seed}}", "{{out}}", {how}]
    seeds: {seeds}
    limit: {limit}
    log: {{kind: jsonl, path: "{{out}}/log.jsonl", time: t, samples: samples}}
    {more}
system:
  - check: time_to_accuracy
    training: recipe
    target: {target}
    held: 3
    require: [{require}]
policy: {{screens: 'off'}}
"""


def write_toy(
    folder: Path,
    how: str = "well",
    *,
    seeds: str = "5",
    limit: str = "20 s",
    target: str = "val_accuracy >= 94 %",
    require: str = "time_to_accuracy_p50 <= 15 s",
    more: str = "",
) -> Path:
    """Its code and its gate; returns the gate."""
    (folder / "train.py").write_text(TRAIN)
    gate = folder / "gate.yaml"
    gate.write_text(SPEC.format(how=how, seeds=seeds, limit=limit, target=target, require=require, more=more))
    return gate
