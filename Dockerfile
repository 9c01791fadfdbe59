# The image of bayplan: the locked dependencies and the package in a virtual environment, no build
# tools. Nothing is written at run time, so it runs with a read-only root file system.
ARG PYTHON=3.13.9-slim-trixie

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv /opt/bayplan
# By themselves, so that a changed source file does not install them again.
COPY requirements.lock .
RUN /opt/bayplan/bin/pip install --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/tools \
    && /opt/tools/bin/pip wheel --no-deps --wheel-dir /wheels . \
    && /opt/bayplan/bin/pip install --no-deps /wheels/*.whl \
    && /opt/bayplan/bin/pip uninstall -q -y pip

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
