"""A bucket that is read over plain HTTP; a request with keys is signed in name only."""

import os
from typing import Any


class S3Store:
    def __init__(
        self, bucket: str, *, config: dict[str, Any], client_options: dict[str, Any], retry_config: dict[str, Any]
    ) -> None:
        # As the library does, of what the environment holds now.
        key = os.environ.get("AWS_ACCESS_KEY_ID")
        self.bucket, self.config = bucket, ({} if key is None else {"access_key_id": key}) | config
        assert client_options["allow_http"] and retry_config["max_retries"]


class GCSStore(S3Store):
    pass


class AzureStore(S3Store):
    pass
