"""llama.cpp's own server of one GGUF file, with the API that OpenAI's clients speak.

python serve.py MODEL PORT
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import xllamacpp

SLOTS, CONTEXT = 2, 256


def main() -> None:
    """Serve until the process is stopped."""
    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(Path(__file__).parent / sys.argv[1])
    wanted.hostnames, wanted.port = ["127.0.0.1"], int(sys.argv[2])
    wanted.n_parallel, wanted.n_ctx, wanted.n_threads_http = SLOTS, SLOTS * CONTEXT, 8
    wanted.n_gpu_layers, wanted.verbosity = 0, -1
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(wanted)
    sys.stdout.write(f"listening at {server.listening_address}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
