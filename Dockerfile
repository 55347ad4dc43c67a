# Oncebox in a small image: nothing runs as root, and nothing is installed that is not pinned.
# The commands of the first stage are run by a test in a folder of its own (tests/packaging).

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY requirements/build.txt requirements/run.txt requirements/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/build.txt
RUN python -m venv --without-pip /opt/oncebox \
 && /opt/build/bin/pip --python /opt/oncebox/bin/python install --no-cache-dir --require-hashes --only-binary :all: -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY docs docs
COPY src src
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/build/bin/pip --python /opt/oncebox/bin/python install --no-cache-dir --no-deps --no-index /dist/oncebox-*.whl

FROM python:3.13-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home --home-dir /data oncebox \
 && install --directory --owner oncebox --mode 0700 /data
COPY --from=build /opt/oncebox /opt/oncebox
ENV PATH=/opt/oncebox/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ONCEBOX_DATA_DIR=/data \
    ONCEBOX_HTTP__HOST=0.0.0.0 \
    ONCEBOX_SMTP__HOST=0.0.0.0
USER 10001
VOLUME /data
EXPOSE 8808 2525
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --start-interval=1s \
  CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8808, timeout=4); c.request('GET', '/readyz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["oncebox"]
CMD ["serve"]
