"""TLS: what we show, whom we believe, and what a failed handshake means.

Owns: the contexts of both sides, the traffic port under TLS and its change of files.
Never: reads a name in a certificate (identity/certificates.py does), or accepts what does not verify.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from aiohttp import web
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sidecar.config import Limits, Tls, UpstreamTls
from sidecar.proxy.from_files import FromFiles

BACKLOG = 1024

_VERIFY = {"optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(tls: Tls) -> ssl.SSLContext:
    """What callers meet. Raises ValueError, which names the key and the file."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _show(context, "tls", tls.certificate_file, tls.key_file)
    if tls.client_ca_file is not None:
        _believe(context, "tls.client_ca_file", tls.client_ca_file)
        context.verify_mode = _VERIFY[tls.client_certificate]
    return context


def client_context(key: str, tls: UpstreamTls) -> ssl.SSLContext:
    """How an agent is verified, always. `key` is where `tls` is in the policy. Raises ValueError like `server_context`."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca_file is not None:
        _believe(context, f"{key}.ca_file", tls.ca_file)
    else:
        context.load_default_certs()
    if tls.certificate_file is not None and tls.key_file is not None:
        _show(context, key, tls.certificate_file, tls.key_file)
    elif tls.certificate_file is not None or tls.key_file is not None:
        raise ValueError(f"{key}: `certificate_file` and `key_file` belong together; write both")
    return context


def why(problem: BaseException) -> str:
    """Why a connection to an agent failed, for operators: which check its certificate failed, or the kind of error."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError) and getattr(cause, "verify_message", None):
            return f"its certificate does not verify: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and getattr(cause, "reason", None):
            return f"TLS failed: {cause.reason}"
        cause = cause.__cause__ or cause.__context__
    return type(problem).__name__


def _context(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # What a CA file holds is believed as it stands, an intermediate authority without its root too.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _believe(context: ssl.SSLContext, key: str, path: str) -> None:
    _read(key, path)
    try:
        context.load_verify_locations(cafile=path)
    except (ssl.SSLError, OSError):
        raise ValueError(
            f"{key}: `{path}` holds no certificates that can be read; write PEM, `-----BEGIN CERTIFICATE-----`"
        ) from None


def _show(context: ssl.SSLContext, key: str, certificate: str, private: str) -> None:
    try:
        context.load_cert_chain(certificate, private, password=_no_pass_phrase)
    except (ValueError, OSError):  # ssl.SSLError is one; it tells neither which file it was nor what is wrong
        raise ValueError(_fault(key, certificate, private)) from None


def _no_pass_phrase() -> NoReturn:
    """OpenSSL would ask at the terminal."""
    raise ValueError("the key is encrypted")


def _fault(key: str, certificate: str, private: str) -> str:
    shown = _read(f"{key}.certificate_file", certificate)
    secret = _read(f"{key}.key_file", private)
    try:
        x509.load_pem_x509_certificates(shown)
    except ValueError:
        return (
            f"{key}.certificate_file: `{certificate}` holds no certificate that can be read;"
            " write PEM, the certificate first and its chain below"
        )
    try:
        load_pem_private_key(secret, None)
    except TypeError:
        return (
            f"{key}.key_file: `{private}` is encrypted, and nobody is there to type a pass phrase;"
            " write the key without one, `openssl pkey -in KEY -out PLAIN_KEY`"
        )
    except (ValueError, UnsupportedAlgorithm):
        return f"{key}.key_file: `{private}` holds no private key that can be read; write PEM, `-----BEGIN PRIVATE KEY-----`"
    return (
        f"{key}.key_file: `{private}` does not belong to the first certificate of `{certificate}`, or that certificate"
        " is too weak for TLS; write the key it was issued for"
    )


def _read(key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise ValueError(f"{key}: cannot read `{path}`: {problem.strerror}") from None


def tls_files(
    tls: Tls, changed: Callable[[ssl.SSLContext], Awaitable[None]] | None = None
) -> FromFiles[ssl.SSLContext]:
    """What callers meet, made anew when a file changes. Raises ValueError like `server_context`."""
    paths = [path for path in (tls.certificate_file, tls.key_file, tls.client_ca_file) if path is not None]
    return FromFiles("tls", paths, partial(server_context, tls), changed)


class UpstreamContext:
    """The TLS side of one agent's address: what `aiohttp` and `asyncio` are to be told, as the files are now."""

    def __init__(self, key: str, tls: UpstreamTls) -> None:
        """Raises ValueError."""
        paths = [path for path in (tls.ca_file, tls.certificate_file, tls.key_file) if path is not None]
        self.files = FromFiles(key, paths, partial(client_context, key, tls))
        self._server_name = tls.server_name
        self.start, self.close = self.files.start, self.files.close

    def options(self) -> dict[str, Any]:
        """`ssl` and, where the policy names the agent otherwise than its URL, `server_hostname`."""
        if self._server_name is None:
            return {"ssl": self.files.value}
        return {"ssl": self.files.value, "server_hostname": self._server_name}


class TlsSite(web.BaseSite):
    """A port under TLS: one listening socket for each address, and in turn a server for each state of the files.

    A context cannot forget an authority, and its ticket keys outlive a change of it. So changed files make a new
    context, which a new server uses on the same socket before the old one lets go of it: nobody is refused in between,
    no session goes on under authorities it was not begun under, and connections that are there stay as they are.

    That nobody is refused holds on uvloop: asyncio's own loop drops what it accepted in the very moment a server closes.
    """

    __slots__ = ("_address", "_limits", "_servers", "_sockets", "files")

    def __init__(self, runner: web.BaseRunner, host: str | None, port: int, tls: Tls, limits: Limits) -> None:
        """Raises ValueError, which names the key and the file."""
        super().__init__(runner, backlog=BACKLOG)
        self.files = tls_files(tls, self._replace)
        self._address = (host, port)
        self._limits = limits
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []

    @property
    def name(self) -> str:
        host, port = self._address
        return f"https://{host}:{port}"

    async def start(self) -> None:
        """Raises OSError."""
        await super().start()
        host, port = self._address
        server = await self._serve(self.files.value, host=host, port=port)
        self._server = server
        self._sockets = [socket.socket(fileno=os.dup(bound.fileno())) for bound in server.sockets]
        self.files.start()

    async def stop(self) -> None:
        """Listen no more. Connections are left to the runner."""
        await self.files.close()
        self._let_go(self._servers)
        for bound in self._sockets:
            bound.close()
        await super().stop()

    async def _replace(self, context: ssl.SSLContext) -> None:
        before = list(self._servers)
        try:
            for bound in self._sockets:
                await self._serve(context, sock=bound.dup())
        except OSError:
            self._let_go([server for server in self._servers if server not in before])
            raise
        self._let_go(before)
        self._server = self._servers[0]

    async def _serve(self, context: ssl.SSLContext, **where: Any) -> asyncio.Server:
        assert self._runner.server is not None
        server = await asyncio.get_running_loop().create_server(
            self._runner.server,
            **where,
            ssl=context,
            backlog=BACKLOG,
            ssl_handshake_timeout=self._limits.header_timeout,
            ssl_shutdown_timeout=self._limits.body_timeout,  # within which what is written must be taken
            start_serving=False,
        )
        self._servers.append(server)  # before the next await, so that `stop` finds it
        await server.start_serving()
        return server

    def _let_go(self, servers: list[asyncio.Server]) -> None:
        for server in tuple(servers):
            server.close()
            self._servers.remove(server)
