"""What the end-to-end tests share: an issuer, tokens, and real processes started on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.background import Background
from tests.e2e.deployment import AUDIENCE, READ, WRITE, Deployment
from tests.issuer import Issuer


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    with Background() as background:
        made = Issuer(audience=AUDIENCE)
        background.run(made.up())
        yield made
        background.run(made.down())


@pytest.fixture(scope="session")
def token(issuer: Issuer) -> Callable[..., str]:
    """`token("alice")`, with both scopes the agents' skill needs unless told otherwise."""

    def mint(subject: str, scope: str = f"{WRITE} {READ}") -> str:
        return issuer.mint(sub=subject, scope=scope, client_id="planner")

    return mint


@pytest.fixture(scope="session")
def deployment(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("deployment"), issuer.url) as made:
        yield made
