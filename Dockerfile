# The same image that `make image` builds, for those with a registry at hand:
#
#   docker build --tag trimtab:0.1.0 .
#
# The first stage needs Debian's and Python's package mirrors. Everything that it takes from them is locked by hash:
# Debian packages in tools/image/debian.lock, wheels in requirements.lock, build tools in requirements-build.lock.
# It runs on the builder's own architecture, because nothing of the image is executed to build it.
ARG BUILDER=python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM --platform=${BUILDPLATFORM} ${BUILDER} AS build
ARG TARGETARCH
WORKDIR /src
COPY . .
RUN python3 tools/bootstrap.py runtime \
    && .venv/bin/python -m tools.image rootfs --architecture "${TARGETARCH}" /rootfs

FROM scratch
LABEL org.opencontainers.image.title="trimtab" \
      org.opencontainers.image.description="A load-aware Kubernetes scheduler" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/usr/bin LANG=C.UTF-8 HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /rootfs/ /
USER 65532:65532
WORKDIR /
EXPOSE 10259
ENTRYPOINT ["/usr/bin/trimtab"]
CMD ["--help"]
