# One image for every process of Onbeat: web unless told otherwise, and beats, workers, Flower or a command by what it is
# told. compose.yaml starts them all; docs/how-to/deploy.md says how.

FROM python:3.11-slim-bookworm AS builder
ENV PIP_NO_CACHE_DIR=1
WORKDIR /srv/onbeat
# Before the code, which changes more often; and by the launcher itself, which later finds this work done.
COPY onbeat requirements.txt ./
RUN ["python3", "-c", "import runpy; runpy.run_path('onbeat')['prepare_environment'](['requirements.txt'])"]
# The log names the package index that this was built from.
RUN .venv/bin/python -m pip uninstall --quiet --yes pip setuptools && rm .venv/install.log
WORKDIR /srv/code
COPY . .
# Compiled here, since nothing can be kept where the code is only to be read. By hash: times get lost on the way.
RUN python3 -m compileall -q --invalidation-mode checked-hash . && chmod -R a+rX .

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="Onbeat" org.opencontainers.image.licenses="MIT"
ENV DATA_DIR=/data \
    PATH=/srv/onbeat/.venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN groupadd --gid 10001 onbeat \
    && useradd --uid 10001 --gid onbeat --home-dir /data --no-create-home --shell /usr/sbin/nologin onbeat \
    && install --directory --owner onbeat --group onbeat --mode 700 /data
WORKDIR /srv/onbeat
COPY --from=builder /srv/onbeat/.venv .venv
COPY --from=builder /srv/code .
# By number: Kubernetes cannot tell that a name is not root.
USER 10001:10001
EXPOSE 8000
# Other kinds have other probes: compose.yaml names them.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 \
    CMD ["./onbeat", "probe", "web"]
CMD ["gunicorn", "scheduler_project.wsgi", "--bind", "0.0.0.0:8000"]
