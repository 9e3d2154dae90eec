"""Environment variables of a child, set before it imports anything."""

from __future__ import annotations


def child_environment(*, trust: bool, hub: bool, metadata: bool, threads: int) -> dict[str, str]:
    """Environment variables of a child beside those of its parent.

    Args:
        trust: Code that the spec names may run, and pickles may be read.
        hub: A model or dataset hub may be contacted.
        metadata: So may the address at which a machine of a provider asks for the credentials of its role.
        threads: Of the processor.
    """
    environment = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_EVALUATE_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONHASHSEED": "0",
    }
    if not trust:
        environment["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    if not metadata:
        environment["AWS_EC2_METADATA_DISABLED"] = "true"
    if not hub:
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return environment
