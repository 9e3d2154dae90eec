"""A bucket that is read over plain HTTP; a request with keys is signed in name only."""

from typing import Any


class S3Store:
    def __init__(
        self, bucket: str, *, config: dict[str, Any], client_options: dict[str, Any], retry_config: dict[str, Any]
    ) -> None:
        self.bucket, self.config = bucket, config
        assert client_options["allow_http"] and retry_config["max_retries"]


class GCSStore(S3Store):
    pass


class AzureStore(S3Store):
    pass
