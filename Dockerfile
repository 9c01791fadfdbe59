# The image of bayplan: the locked dependencies and the package in a virtual environment, without build
# tools and without what is never imported. Nothing is written at run time, so it runs with a read-only
# root file system. Built twice from one commit with one base, /opt/bayplan is the same, byte for byte.
ARG PYTHON=3.13.9-slim-trixie

FROM python:${PYTHON} AS build
# The time of every file; the release gives that of the commit.
ARG SOURCE_DATE_EPOCH=315532800
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
WORKDIR /src
RUN python -m venv /opt/bayplan
# By themselves, so that a changed source file does not install them again. Of the official client only the
# credentials are read (see client/kubeconfig.py): its calls and models are three quarters of it.
COPY requirements.lock .
RUN /opt/bayplan/bin/pip install --no-compile --no-deps --require-hashes --only-binary :all: -r requirements.lock \
    && cd /opt/bayplan/lib/python3*/site-packages \
    && rm -r kubernetes/aio numpy/f2py \
    && find kubernetes/client/api kubernetes/client/models -name '*.py' ! -name __init__.py -delete \
    && find numpy -depth -type d -name tests -exec rm -r {} + \
    && find . -name '*.pyi' -delete
COPY pyproject.toml README.md LICENSE ./
COPY src src
# Compiled files that depend on nothing but their source: no process has to write or check them.
RUN python -m venv /opt/tools \
    && /opt/tools/bin/pip wheel --no-deps --wheel-dir /wheels . \
    && /opt/bayplan/bin/pip install --no-compile --no-deps --no-index /wheels/*.whl \
    && /opt/bayplan/bin/pip uninstall -q -y pip \
    && find /opt/bayplan -depth -type d -name __pycache__ -exec rm -r {} + \
    && /opt/bayplan/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/bayplan/lib \
    && /opt/bayplan/bin/bayplan config show > /dev/null \
    && /opt/bayplan/bin/python -B -c 'import bayplan.app.process, bayplan.view.server, kubernetes.config.kube_config' \
    && find /opt/bayplan -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="bayplan" \
      org.opencontainers.image.description="A Kubernetes scheduler whose plugins are written in Python" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/bayplan /opt/bayplan
ENV PATH=/opt/bayplan/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["bayplan"]
CMD ["run"]
