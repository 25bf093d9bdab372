#!/bin/bash
# Builds the Dockerfile's images with buildah, prints their sizes, and with --up runs compose.yaml on them with podman.
# For machines without Docker or a registry of images: packages of Debian replace both base images, and every later step
# is the Dockerfile's. All images have the tag `debian`, so no release takes them for the official ones.
# Usage, as root: bash tools/images.sh [--up | --clean]. The first run downloads 1.4 GB and takes 8 GB of disk.
# Exit status: 1 a step failed, or an image is larger than its goal; 77 root or a program is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
declare -A goals=([api]=400 [bridge]=250 [drain]=1100) # MB
image() { echo "localhost/mirrorgate-$1:debian"; }
fail() { echo "error: $1" >&2; exit "${2:-1}"; }

require() { # PROGRAM...
  [ "$(id -u)" = 0 ] || fail "images need root" 77
  PATH=$PATH:/usr/lib/podman type "$@" >/dev/null 2>&1 || fail "do first: apt-get install --no-install-recommends $*" 77
}

bud() { # chroot needs no container runtime; OCI's own format has no health checks; pip may need a proxy's certificates
  local certificates=/etc/ssl/certs/ca-certificates.crt
  buildah bud --isolation chroot --format docker --layers --pull-never --volume "$certificates:$certificates:ro" \
    --build-arg PYTHON_IMAGE="$(image python)" "$@" >"$work/log" 2>&1 || { tail -50 "$work/log" >&2; return 1; }
}

build_python() { # instead of the official Python image: slim, with `python` and `pip` on the PATH
  ! buildah inspect --type image "$(image python)" >/dev/null 2>&1 || return 0
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,python3-pip \
    "$(sed -n 's/^ARG PYTHON_IMAGE=.*-//p' Dockerfile)" "$work/system" >&2
  # Slim images leave out manual pages: the Dockerfile has to make their folder for Java.
  printf 'path-exclude /usr/share/%s/*\n' man doc >"$work/system/etc/dpkg/dpkg.cfg.d/docker"
  rm -rf "$work"/system/usr/share/{man,doc} "$work"/system/var/cache/apt/archives/*.deb "$work"/system/var/lib/apt/lists/*
  ln -s /usr/bin/python3 "$work/system/usr/local/bin/python"
  printf 'FROM scratch\nCOPY / /\nENV LANG=C.UTF-8\nCMD ["python3"]\n' >"$work/Dockerfile"
  bud --tag "$(image python)" --file "$work/Dockerfile" "$work/system"
}

build() {
  local target size status=0
  build_python
  for target in "${!goals[@]}"; do
    echo "$target: building" >&2
    bud --target "$target" --tag "$(image "$target")" .
    size=$(buildah images --format '{{.Size}}' "$(image "$target")" | awk '{print int($1 * ($2 == "GB" ? 1000 : 1))}')
    echo "$target: $size MB of at most ${goals[$target]}"
    [ "$size" -le "${goals[$target]}" ] || status=1
  done
  return $status
}

compose() { # under a name that no installation has, because `down` deletes the volumes
  PYTHONPATH=build/tools/podman-compose .venv/bin/python -m podman_compose --project-name images --profile bridge \
    --env-file "$work/env" --file compose.yaml --file "$work/podman.yaml" "$@" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; return 1; }
}

services() { # each service after those that it depends on, with the condition under which these may start
  .venv/bin/python - <<'PYTHON'
import graphlib, yaml
services = yaml.safe_load(open("compose.yaml"))["services"]
needs = {name: service.get("depends_on", {}) for name, service in services.items() if "profiles" not in service}
conditions = {name: need["condition"] for each in needs.values() for name, need in each.items()}
for name in graphlib.TopologicalSorter(needs).static_order():
    print(name, conditions.get(name, "service_healthy"))
PYTHON
}

eventually() { # WHAT COMMAND...: within two minutes
  local what=$1 end=$((SECONDS + 120)); shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { podman ps --quiet | xargs -n 1 podman logs --tail 20 >&2; fail "not in time: $what"; }
    sleep 1 # between two tries
  done
  echo "$what"
}

landed() { # COUNT: of rows in the landing zone
  podman exec images_drain_1 python -c "import pathlib, pyarrow.parquet as parquet
assert sum(parquet.read_metadata(file).num_rows for file in pathlib.Path('/landing-zone').rglob('0*.parquet')) == $1"
}

call() { curl --silent --show-error --fail --output /dev/null --header "Authorization: Bearer $key" --json "$@"; }

configure() { # podman, and the variables of compose.yaml
  ip link set lo up
  umount /sys/fs/cgroup/unified 2>/dev/null || true # crun refuses machines with both versions of cgroups
  # Without systemd no timer runs health checks. Without CAP_SYS_RESOURCE podman may not raise limits.
  export DISABLE_HC_SYSTEMD=true CONTAINERS_CONF=$work/containers.conf
  printf '%s\n' "containers = {default_ulimits = ['nofile=$(ulimit -Hn):$(ulimit -Hn)', 'nproc=16384:16384']}" \
    'network = {network_backend = "netavark"}' 'engine = {cgroup_manager = "cgroupfs"}' >"$CONTAINERS_CONF"
  # podman before version 5 has no uid= for tmpfs.
  echo 'services: {postgres: {tmpfs: !override ["/tmp:mode=1777", "/run/postgresql:mode=1777"]}}' >"$work/podman.yaml"
  key=mg_$(openssl rand -hex 4)_$(openssl rand -hex 32)
  printf '%s\n' "POSTGRES_PASSWORD=$(openssl rand -hex 32)" {MIRRORGATE_ADMIN_KEY,MIRRORGATE_API_KEY}="$key" \
    LANDING_ZONE_FOLDER="$work/zone" POSTGRES_IMAGE="$(image postgres)" API_IMAGE="$(image api)" \
    BRIDGE_IMAGE="$(image bridge)" DRAIN_IMAGE="$(image drain)" >"$work/env"
  chmod 755 "$work" && install --directory --owner 10001 "$work/zone" && mkdir "$work/source"
}

up() {
  local service condition key
  configure
  trap 'compose down --volumes || true; rm -rf "$work"' EXIT
  compose down --volumes || true # what a killed run left
  while read -r service condition <&3; do # podman reads the standard input
    compose up --detach --no-build --no-deps "$service"
    if [ "$condition" = service_completed_successfully ]; then
      [ "$(podman wait "images_${service}_1")" = 0 ] || fail "$service: $(podman logs "images_${service}_1" 2>&1)"
    else
      eventually "$service is healthy" podman healthcheck run "images_${service}_1"
    fi
  done 3< <(services)
  call '{"key_columns":["id"],"columns":[{"name":"id","type":"int64"},{"name":"who","type":"string"}]}' --request PUT \
    http://127.0.0.1:8480/v1/tables/shop.orders
  call '[{"id":7,"who":"Ada"},{"id":8,"who":"Grace"}]' 'http://127.0.0.1:8480/v1/changes/rows?table=shop.orders'
  eventually "the batch is in the landing zone" landed 2
  echo '{"id":9,"who":"Joan"}' >"$work/source/1.ndjson"
  compose run --rm --no-deps -T -v "$work/source:/source:ro" bridge bridge objects /source --once --format rows \
    --table shop.orders
  eventually "the bridge's row is in the landing zone" landed 3
  compose run --rm --no-deps -T drain mirror run --once --to /tmp/mirror
  echo "the mirror has read the landing zone"
  for service in api drain; do
    [ "$(podman exec "images_${service}_1" awk '/^(Uid|CapBnd|NoNewPrivs):/ {print $2}' /proc/1/status | xargs)" \
      = "10001 0000000000000000 1" ] || fail "$service has more rights than compose.yaml gives it"
    ! podman exec "images_${service}_1" touch /opt/x 2>/dev/null || fail "$service can write into its image"
  done
  for service in $(services | tac | awk '$2 == "service_healthy" {print $1}'); do
    compose stop "$service"
    [ "$(podman inspect --format '{{.State.ExitCode}}' "images_${service}_1")" = 0 ] || fail "$service was killed"
    echo "$service stopped cleanly"
  done
}

work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
case ${1-} in
  "") require buildah debootstrap; build ;;
  --up)
    require buildah debootstrap podman crun netavark aardvark-dns catatonit iptables
    build
    bud --tag "$(image postgres)" tools/postgres # instead of the official Postgres image
    .venv/bin/python -m uv pip install --quiet --no-deps --target build/tools/podman-compose podman-compose==1.6.0
    # Port 8480 and the firewall of this machine do not change.
    unshare --mount --net bash tools/images.sh --inside
    ;;
  --inside) up ;;
  --clean)
    buildah images --quiet --filter 'reference=localhost/mirrorgate-*:debian' | sort -u | xargs -r buildah rmi --force
    buildah rmi --prune # the caches of steps have no tag
    ;;
  *) fail "usage: images.sh [--up | --clean]" 2 ;;
esac
