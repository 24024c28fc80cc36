# syntax=docker/dockerfile:1

# With digests, these pin the images; see docs/operating.md.
ARG RUST_IMAGE=rust:1.95.0-slim-bookworm
ARG DEBIAN_IMAGE=debian:12.12-slim

FROM ${RUST_IMAGE} AS build
WORKDIR /build
COPY . .
# The commit that `railbird --version` prints: the build context has no .git. See docs/operating.md.
ARG RAILBIRD_REVISION
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin railbird && cp target/release/railbird /usr/local/bin/railbird

FROM ${DEBIAN_IMAGE}
# The root certificates for TLS connections to NATS and to mail servers.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin railbird \
    && install --directory --owner=railbird --group=nogroup --mode=0700 /data
COPY --from=build /usr/local/bin/railbird /usr/local/bin/railbird

USER 10001
VOLUME /data
# Inside the container both listen on all interfaces. Publish the ports where they are needed.
ENV RAILBIRD_DATA=/data \
    RAILBIRD_HTTP=0.0.0.0:8080 \
    RAILBIRD_ADMIN=0.0.0.0:9090
EXPOSE 8080 9090
STOPSIGNAL SIGTERM

# bash opens TCP connections itself, so the image needs no HTTP client.
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [[ $status == 200 ]]"]

ENTRYPOINT ["railbird"]
CMD ["serve"]
