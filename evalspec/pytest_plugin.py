"""``pytest --evalspec gate/``: one item for each requirement of a spec. Without the option nothing is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("evalspec", "specs of evalspec as tests")
    group.addoption("--evalspec", action="store_true", help="Collect specs (evalspec.yaml): one item a requirement.")
    group.addoption("--evalspec-trust", action="store_true", help="Let specs run code that they name, as --trust does.")
    group.addoption("--evalspec-output", metavar="DIR", help="Put runs here, in a folder for each spec; not there yet.")


def pytest_configure(config: pytest.Config) -> None:
    """Have specs collected where they are asked for."""
    if config.getoption("--evalspec"):
        from evalspec.pytest_gates import Gates

        config.pluginmanager.register(Gates(config), "evalspec-gates")
