#!/bin/sh
# Makes a bare Debian or Ubuntu machine ready: host tools by apt, then the virtual environment from a hashed lock.
# Usage: scripts/setup.sh LOCK [COMMAND=PACKAGE[,PACKAGE] ...]   (commands that must be on PATH and what brings them)
# Exit 2, with the exact command to type and nothing half done, when packages are missing and we may not install them.
set -eu
lock=$1
shift
# where Go is unpacked by hand; what is there already is not installed again
PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin
export PATH

say() { printf '%s\n' "setup: $*" >&2; }

# called from anywhere, it makes the environment of its own clone
cd "$(dirname "$0")/.."
[ -f "$lock" ] || { say "no lock $lock in $PWD: requirements.lock, or requirements-dev.lock for tests"; exit 2; }

# Temporary files of all that runs here are in one folder. What takes long runs in a session of its own, which ends with
# us: the shell hears a signal at once only while it waits for something in the background.
work=$(mktemp -d)
child='' ticker=''
end_all() {
    for leader in $child $ticker; do kill -s TERM -- "-$leader" 2>/dev/null || true; done
    rm -rf "$work"
}
trap end_all EXIT
trap 'exit 130' INT TERM HUP

run() {
    TMPDIR=$work setsid "$@" </dev/null &
    child=$!
    status=0
    wait $child || status=$?
    child=''
    return $status
}

python_ok() { "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

python=
for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if [ -n "$candidate" ] && python_ok "$candidate"; then
        python=$candidate
        break
    fi
done

missing=
[ -n "$python" ] || missing=" python3 python3-venv"
for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null 2>&1 && continue
    for package in $(echo "${pair#*=}" | tr , ' '); do
        case "$missing " in *" $package "*) ;; *) missing="$missing $package" ;; esac
    done
done

install() {
    # $1: "" as root, "sudo -n" otherwise. Services of the packages are neither started nor enabled: a laboratory
    # must not open ports on its user's machine.
    policy=/usr/sbin/policy-rc.d
    made=
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | $1 tee $policy >/dev/null && $1 chmod 755 $policy && made=1
    fi
    log=$work/apt.log
    status=0
    { $1 apt-get update -qq && $1 env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1 || status=$?
    [ -z "$made" ] || $1 rm -f $policy
    if [ $status -ne 0 ]; then
        cat "$log" >&2
        say "apt could not install$missing: see above"
        exit 3
    fi
    if [ -d /run/systemd/system ]; then
        for package in $missing; do
            case $package in
                nginx-light) units=nginx.service ;;
                openssh-server) units="ssh.service ssh.socket" ;;
                redis-server | haproxy) units=$package.service ;;
                php-fpm) units=$(cd /lib/systemd/system && ls -- php*-fpm.service) ;;
                *) continue ;;
            esac
            # shellcheck disable=SC2086
            $1 systemctl disable --quiet $units 2>/dev/null || true
        done
    fi
}

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        say "missing:$missing (names of Debian packages); this machine has no apt: install them by hand, then run again"
        exit 2
    elif [ "$(id -u)" = 0 ]; then
        say "installing$missing"
        install ""
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        say "installing$missing (sudo)"
        install "sudo -n"
    else
        say "missing on this machine, and we may not install it. Type this, then run again:"
        printf '  sudo apt-get update && sudo apt-get install -y --no-install-recommends%s\n' " $(echo $missing)" >&2
        exit 2
    fi
    if [ -z "$python" ]; then
        python=python3
        python_ok $python || { say "Python 3.11 or newer is needed; this machine's apt has $(python3 --version)"; exit 2; }
    fi
fi

# One stamp per lock; the development lock holds everything that the runtime lock does.
want=$(cat "$lock" pyproject.toml | sha256sum | cut -d' ' -f1)
stamp=.venv/.installed-$(basename "$lock")
# bin/pip comes last: without it, making the environment was interrupted
if [ ! -x .venv/bin/pip ] || ! .venv/bin/python -c '' 2>/dev/null; then
    say "making .venv"
    rm -rf .venv
    run "$python" -m venv .venv
fi
[ "$(cat "$stamp" 2>/dev/null)" != "$want" ] || exit 0

pip() { run .venv/bin/python -m pip "$@"; }

# What pip's configuration says of the index and of certificates, which uv does not read.
pip_setting() { .venv/bin/python -m pip config list 2>/dev/null | sed -n "s/^[^=]*\.$1='\(.*\)'\$/\1/p" | tail -n 1; }

# uv is on PATH, or comes from the registry into .venv by its own hashed lock. It installs in a tenth of pip's time.
with_uv() {
    uv=$(command -v uv) || uv=.venv/bin/uv
    [ -x "$uv" ] || pip install -q --disable-pip-version-check --require-hashes -r scripts/uv.lock || return 1
    index=$(pip_setting index-url) certificates=$(pip_setting cert)
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    [ -z "$certificates" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$certificates}"
    # Python compiles what it imports the first time; where it may not keep that, all is compiled now, as pip does
    run "$uv" pip install -q ${PYTHONDONTWRITEBYTECODE:+--compile-bytecode} --python .venv/bin/python --require-hashes -r "$lock" &&
        run "$uv" pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e .
}

with_pip() {
    pip install -q --disable-pip-version-check --require-hashes -r "$lock" &&
        pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
}

total=$(grep -c '^[A-Za-z0-9].*==' "$lock")
say "installing $total Python packages from $lock"
setsid sh -c 'while sleep 5; do
    found=$(find .venv -maxdepth 4 -name "*.dist-info" | wc -l)
    echo "setup: $found of at most $0 packages are there" >&2
done' "$total" </dev/null >/dev/null &
ticker=$!
with_uv >&2 || { say "uv cannot install them (see above): pip does, which takes a minute or two" && with_pip >&2; }
echo "$want" >"$stamp"
