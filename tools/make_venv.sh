#!/bin/sh
# Makes .venv hold this project and the packages of requirements/<level>.lock; returns at once when it does already.
#   sh tools/make_venv.sh run   what `mirrorgate up` and the demo need
#   sh tools/make_venv.sh dev   also the development tools; every version is the same as in run.lock
# Run it from the top of the checkout. A level only adds packages, so `run` after `dev` changes nothing. After an
# interrupted run the next one starts over, because a half-installed package looks like an installed one.
set -eu

oldest="3, 11"
stamp=.venv/.complete
python=.venv/bin/python

fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}

case "${1:-}" in
    run) size="0.6 GB to download, 1.4 GB on disk" ;;
    dev) size="0.7 GB to download, 2.3 GB on disk, less what .venv has already" ;;
    *) fail "Name a level: sh tools/make_venv.sh run|dev" ;;
esac
level=$1

# What .venv was made from, and so its level. The path is part of it, because programs in .venv contain it.
made_from() {
    pwd
    cksum pyproject.toml clients/python/pyproject.toml packages/*/pyproject.toml "requirements/$1.lock" tools/make_venv.sh
}

is_new_enough() {
    "$1" -c "import sys; sys.exit(sys.version_info < ($oldest))" >/dev/null 2>&1
}

is_complete() {
    [ -f "$stamp" ] && is_new_enough "$python" || return 1
    [ "$(cat "$stamp")" = "$(made_from dev)" ] && return
    [ "$level" = run ] && [ "$(cat "$stamp")" = "$(made_from run)" ]
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not a working Python 3.11 or newer."
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11 python; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is missing." \
        "Found: $(python3 --version 2>&1 || true)" \
        "Install it, or name one that is not on the PATH: make PYTHON=/path/to/python3.11"
}

make_environment() {
    base=$(find_python)
    if ! "$base" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        version=$("$base" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$base has no module venv or ensurepip, which make virtual environments." \
            "On Debian and Ubuntu: apt-get install python$version-venv" \
            "Or name another Python: make PYTHON=/path/to/python3.11"
    fi
    echo "Making .venv with $("$base" --version)"
    "$base" -m venv --clear .venv
}

# The installers draw their own progress on a terminal. A log gets the lines of this script, and errors.
quiet=--quiet
[ -t 2 ] && quiet=

# Installs with uv. pip is slower, but works on a machine that has told only pip where its packages are.
install() {
    "$python" -m uv pip install $quiet --python "$python" --compile-bytecode "$@" && return
    echo "uv could not install; trying pip" >&2
    "$python" -m pip install $quiet --disable-pip-version-check "$@"
}

[ -f pyproject.toml ] && [ -f "requirements/$level.lock" ] || fail "This is not the top of the checkout: $(pwd)"
is_complete && exit
unset PYTHONHOME PYTHONPATH VIRTUAL_ENV CONDA_PREFIX
begun=$(date +%s)
if [ ! -f "$stamp" ] || ! is_new_enough "$python"; then
    make_environment
fi
rm -f "$stamp"
echo "Installing the packages of requirements/$level.lock: $size"
echo "This happens once and takes half a minute to three minutes, depending on the network"
# The locks name the SHA-256 of each file, so both installers take these files and no others, wherever they come from.
echo "  1/3 the installer uv"
sed -n '/^uv==/,/[^\\]$/p' requirements/dev.lock >.venv/uv.lock
"$python" -m pip install $quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.lock
echo "  2/3 the packages"
install --require-hashes --requirement "requirements/$level.lock"
echo "  3/3 Mirrorgate itself"
install --no-deps --editable clients/python --editable . --editable packages/bridge --editable packages/zone
made_from "$level" >"$stamp"
echo "Installed in $(($(date +%s) - begun)) s; .venv has $(du -sm .venv | cut -f1) MB"
