# syntax=docker/dockerfile:1
# Three images: `docker build --target api .` has no PySpark, `docker build --target drain .` no FastAPI, and
# `docker build --target bridge .` has the bridges for Kafka and object storage alone.
# The environments have no pip. To build the same image again, pin the base image by its digest:
# https://mirrorgate.github.io/mirrorgate/operate/compose/#images
# `make images` builds them without Docker and a registry of images.
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends binutils
COPY docker/slim.sh /

FROM build AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY clients/python ./clients/python
COPY packages ./packages
COPY app ./app
COPY spark_jobs ./spark_jobs
COPY migrations ./migrations
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./clients/python . ./packages/bridge ./packages/zone

FROM build AS api-environment
COPY requirements/api.lock requirements/api-rows.lock /requirements/
# `--build-arg ROWS=1` adds what `GET /v1/tables/{table}/rows` needs of the Delta mirror: 140 MB.
ARG ROWS=
RUN python -m venv --without-pip /opt/mirrorgate \
    && pip --python /opt/mirrorgate/bin/python install \
        --no-cache-dir --require-hashes --requirement /requirements/api${ROWS:+-rows}.lock
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/mirrorgate/bin/python install --no-cache-dir --no-deps --no-index \
        /wheels/mirrorgate-*.whl /wheels/mirrorgate_gateway-*.whl \
    && sh /slim.sh /opt/mirrorgate

FROM build AS drain-environment
COPY requirements/drain.lock /requirements/
RUN python -m venv --without-pip /opt/mirrorgate \
    && pip --python /opt/mirrorgate/bin/python install --no-cache-dir --require-hashes --requirement /requirements/drain.lock
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/mirrorgate/bin/python install --no-cache-dir --no-deps --no-index \
        /wheels/mirrorgate-*.whl /wheels/mirrorgate_gateway-*.whl /wheels/mirrorgate_zone-*.whl \
    && sh /slim.sh /opt/mirrorgate

FROM build AS bridge-environment
COPY requirements/bridge.lock /requirements/
RUN python -m venv --without-pip /opt/mirrorgate \
    && pip --python /opt/mirrorgate/bin/python install --no-cache-dir --require-hashes --requirement /requirements/bridge.lock
COPY --from=wheel /wheels /wheels
RUN pip --python /opt/mirrorgate/bin/python install --no-cache-dir --no-deps --no-index \
        /wheels/mirrorgate-*.whl /wheels/mirrorgate_gateway-*.whl /wheels/mirrorgate_bridge-*.whl \
    && sh /slim.sh /opt/mirrorgate

# A Java runtime with the modules that Spark loads, and no others. The folder for manual pages is missing from slim
# images, and Java's package fails without it.
FROM build AS java
RUN mkdir -p /usr/share/man/man1 \
    && apt-get install --yes --no-install-recommends openjdk-17-jdk-headless \
    && jlink --output /opt/java --compress=2 --strip-debug --no-header-files --no-man-pages --add-modules \
        java.desktop,java.management,java.naming,java.net.http,java.scripting,java.security.jgss,java.security.sasl,java.sql,jdk.crypto.cryptoki,jdk.crypto.ec,jdk.incubator.vector,jdk.management,jdk.net,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs

# What containers need of the base image, which is 60 MB smaller without pip and translations.
FROM ${PYTHON_IMAGE} AS base
RUN useradd --uid 10001 --create-home --home-dir /var/lib/mirrorgate --shell /usr/sbin/nologin mirrorgate \
    && rm -rf /usr/share/locale /usr/share/doc /usr/share/man /usr/share/python-wheels /usr/lib/python3/dist-packages \
        /usr/local/lib/python3*/site-packages /usr/local/lib/python3*/ensurepip /usr/local/lib/python3*/idlelib \
        /usr/local/lib/python3*/test /usr/local/bin/pip* /usr/local/bin/idle* /usr/bin/pip*

FROM scratch AS runtime
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Mirrorgate" \
      org.opencontainers.image.description="Ingestion gateway for Microsoft Fabric open mirroring" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/mirrorgate/mirrorgate" \
      org.opencontainers.image.documentation="https://github.com/mirrorgate/mirrorgate/tree/main/docs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/mirrorgate/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1
COPY --from=base / /
WORKDIR /var/lib/mirrorgate

FROM runtime AS api
COPY --from=api-environment /opt/mirrorgate /opt/mirrorgate
COPY docker/api_healthy.py /opt/mirrorgate/health/
ENV MIRRORGATE_HOST=0.0.0.0
EXPOSE 8480
USER mirrorgate
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["python", "/opt/mirrorgate/health/api_healthy.py"]
ENTRYPOINT ["mirrorgate"]
CMD ["api"]

FROM runtime AS drain
# procps: Spark's start scripts call ps.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends procps \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt \
    && install --directory --owner mirrorgate --group mirrorgate /landing-zone
COPY --from=java /opt/java /opt/java
COPY --from=drain-environment /opt/mirrorgate /opt/mirrorgate
COPY docker/drain_healthy.py /opt/mirrorgate/health/
ENV JAVA_HOME=/opt/java \
    MIRRORGATE_LANDING_ZONE=/landing-zone
VOLUME /landing-zone
USER mirrorgate
HEALTHCHECK --interval=30s --timeout=15s --start-period=60s CMD ["python", "/opt/mirrorgate/health/drain_healthy.py"]
ENTRYPOINT ["mirrorgate"]
CMD ["drain"]

FROM runtime AS bridge
COPY --from=bridge-environment /opt/mirrorgate /opt/mirrorgate
COPY docker/bridge_healthy.py /opt/mirrorgate/health/
USER mirrorgate
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["python", "/opt/mirrorgate/health/bridge_healthy.py"]
ENTRYPOINT ["mirrorgate"]
CMD ["bridge", "kafka", "--config", "/etc/mirrorgate/bridge.yaml"]
