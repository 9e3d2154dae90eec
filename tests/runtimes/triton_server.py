"""Starts the Triton Inference Server, with a model for each type of numbers that gives back what it is given.

    python triton_server.py PORT

Runs in an environment of its own that has the wheel nvidia-pytriton, whose server it is; in a folder that it may fill.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

TYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "STRING",
)  # fmt: skip
MODEL = """
import sys
sys.path[:0] = {path!r}
import triton_python_backend_utils as utils


class TritonPythonModel:
    def execute(self, requests):
        given = [utils.get_input_tensor_by_name(one, "x").as_numpy() for one in requests]
        return [utils.InferenceResponse([utils.Tensor("y", array)]) for array in given]
"""
CONFIG = """
backend: "python"
max_batch_size: 64
input [{{name: "x" data_type: TYPE_{kind} dims: [-1]}}]
output [{{name: "y" data_type: TYPE_{kind} dims: [-1]}}]
instance_group [{{kind: KIND_CPU}}]
"""


def main(port: int) -> None:
    import pytriton

    home = Path(pytriton.__file__).parent
    parts, here = home / "tritonserver", Path.cwd()
    shutil.copytree(parts / "backends", here / "backends", dirs_exist_ok=True)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = here / "backends" / "python" / "triton_python_backend_stub"
    shutil.copy(parts / "python_backend_stubs" / version / stub.name, stub)
    stub.chmod(0o755)
    for kind in TYPES:
        model = here / "models" / kind.lower() / "1" / "model.py"
        model.parent.mkdir(parents=True, exist_ok=True)
        model.write_text(MODEL.format(path=[place for place in sys.path if place]))
        (model.parents[1] / "config.pbtxt").write_text(CONFIG.format(kind=kind))
    libraries = [str(home.parent / "nvidia_pytriton.libs"), os.environ.get("LD_LIBRARY_PATH", "")]
    server = parts / "bin" / "tritonserver"
    server.chmod(0o755)
    asked = [
        f"--model-repository={here / 'models'}", f"--backend-directory={here / 'backends'}", f"--http-port={port}",
        "--http-address=127.0.0.1", "--allow-grpc=false", "--allow-metrics=false",
    ]  # fmt: skip
    environment = os.environ | {"LD_LIBRARY_PATH": ":".join(one for one in libraries if one)}
    os.execve(server, [str(server), *asked], environment)


if __name__ == "__main__":
    main(int(sys.argv[1]))
