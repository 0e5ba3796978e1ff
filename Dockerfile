# Two stages: the first builds a wheel and a virtual environment, the second holds the environment and nothing else.
# Both start from the same image, since an environment belongs to the interpreter it was made with.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY sidecar ./sidecar
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
 && python -m venv /opt/a2a-sidecar \
 && /opt/a2a-sidecar/bin/python -m pip install --no-cache-dir /wheels/*.whl \
 && /opt/a2a-sidecar/bin/python -m compileall -q /opt/a2a-sidecar/lib \
 && /opt/a2a-sidecar/bin/python -c "from aiohttp import http_parser as p; raise SystemExit(p.HttpRequestParser is p.HttpRequestParserPy and 'aiohttp has no C parser here')" \
 && /opt/a2a-sidecar/bin/python -m pip uninstall --yes pip setuptools \
 && mkdir /data

FROM python:3.11-slim
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="a2a-sidecar" \
      org.opencontainers.image.description="Policy enforcement sidecar for A2A agents" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/a2a-sidecar /opt/a2a-sidecar
# The one place that is written to; everything else may be read-only.
COPY --from=build --chown=65532:65532 /data /data
VOLUME ["/data"]
# SQLite spills large sorts into files: beside the ledger, as nothing else is writable.
ENV PATH=/opt/a2a-sidecar/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SQLITE_TMPDIR=/data
# By number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /data
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
# Kubernetes asks the admin port (`/livez`, `/readyz`); a check inside the image would be a second opinion.
HEALTHCHECK NONE
# The program itself is process 1: no shell stands between it and SIGTERM.
ENTRYPOINT ["a2a-sidecar"]
CMD ["run", "--policy", "/etc/a2a-sidecar/policy.yaml"]
