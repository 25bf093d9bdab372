#!/bin/sh
# Makes .venv hold exactly what requirements/dev.lock says, and this project; at once when it does already.
# Run it from the top of the checkout. After a run that was interrupted the next one begins anew, because a
# half-installed package looks like an installed one.
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

# What .venv was made from: the place too, because programs in it hold its path.
wanted() {
    pwd
    cksum pyproject.toml requirements/dev.lock tools/make_venv.sh
}

is_new_enough() {
    "$1" -c "import sys; sys.exit(sys.version_info < ($oldest))" >/dev/null 2>&1
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

# Progress for whoever watches, nothing but what is wrong for a log.
quiet=--quiet
[ -t 2 ] && quiet=

# Installs with uv; a machine whose package source only pip is told of still gets everything, more slowly.
install() {
    "$python" -m uv pip install $quiet --python "$python" --compile-bytecode "$@" && return
    echo "uv could not install; trying pip" >&2
    "$python" -m pip install $quiet --disable-pip-version-check "$@"
}

[ -f pyproject.toml ] && [ -f requirements/dev.lock ] || fail "This is not the top of the checkout: $(pwd)"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted)" ] && is_new_enough "$python"; then
    exit 0
fi
unset PYTHONHOME PYTHONPATH VIRTUAL_ENV CONDA_PREFIX
if [ ! -f "$stamp" ] || ! is_new_enough "$python"; then
    make_environment
fi
rm -f "$stamp"
echo "Installing what requirements/dev.lock names: about 1.5 GB on disk, one to three minutes, this once"
# The lock names the SHA-256 of each file, so both installers take these files and no others, wherever they come from.
sed -n '/^uv==/,/[^\\]$/p' requirements/dev.lock >.venv/uv.lock
"$python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.lock
install --require-hashes --requirement requirements/dev.lock
install --no-deps --editable .
wanted >"$stamp"
