"""What Triton's own client writes and reads, for the tests to hold ours against.

    python triton_client.py encode|decode FOLDER

Runs in an environment of its own that has tritonclient. `encode` reads FOLDER/NAME.npy with NAME the protocol's type,
and writes what it would send; `decode` reads answers and writes what it makes of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tritonclient.http as triton


def encode(folder: Path) -> None:
    """NAME.npy to NAME.body and NAME.length, and the same with a named output in NAME-y.body."""
    for path in folder.glob("*.npy"):
        kind, array = path.stem, np.load(path, allow_pickle=True)
        tensor = triton.InferInput("x", list(array.shape), kind)
        tensor.set_data_from_numpy(array, binary_data=True)
        for name, outputs in ((kind, None), (f"{kind}-y", [triton.InferRequestedOutput("y", binary_data=True)])):
            body, length = triton.InferenceServerClient.generate_request_body([tensor], outputs=outputs)
            (folder / f"{name}.body").write_bytes(body)
            (folder / f"{name}.length").write_text(str(length))


def decode(folder: Path) -> None:
    """NAME.answer, of which NAME.header bytes are JSON (none: all of it), to NAME.read.npy."""
    for path in folder.glob("*.answer"):
        header = path.with_suffix(".header")
        length = int(header.read_text()) if header.exists() else None
        found = triton.InferenceServerClient.parse_response_body(path.read_bytes(), header_length=length)
        np.save(folder / f"{path.stem}.read.npy", found.as_numpy("y"), allow_pickle=True)


if __name__ == "__main__":
    {"encode": encode, "decode": decode}[sys.argv[1]](Path(sys.argv[2]))
