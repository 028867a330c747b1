#!/bin/sh
# Installs Apache JMeter for the lab: scripts/jmeter.sh FOLDER
# The artifacts come from the Java package registry that Maven is set up for; each must be the one of jmeter.sha256.
# Exit 2 when a program is missing, 3 when the registry or an artifact is not as it should be; then nothing is changed.
set -eu
mkdir -p "$1"
home=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
list=$here/jmeter.sha256

say() { printf '%s\n' "jmeter: $*" >&2; }

missing=
command -v java >/dev/null 2>&1 || missing="$missing default-jre-headless"
command -v mvn >/dev/null 2>&1 || missing="$missing maven"
command -v python3 >/dev/null 2>&1 || missing="$missing python3"
if [ -n "$missing" ]; then
    say "missing on this machine. Type this, then run again:"
    printf '  sudo apt-get update && sudo apt-get install -y --no-install-recommends%s\n' "$missing" >&2
    exit 2
fi

want=$(cat "$0" "$list" "$here/jmeter.pom.xml" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$home/.installed" 2>/dev/null)" = "$want" ]; then
    say "is there: $home"
    exit 0
fi

part=$home.part
rm -rf "$part"
mkdir -p "$part/jars" "$part/home/bin" "$part/home/lib/ext" "$part/home/lib/junit"
say "fetching $(wc -l <"$list") artifacts, 70 MB"
if ! mvn -q -B -ntp -f "$here/jmeter.pom.xml" dependency:copy-dependencies -DoutputDirectory="$part/jars" >&2; then
    say "Maven could not fetch them: see above"
    exit 3
fi
if ! (cd "$part/jars" && sha256sum --check --strict --quiet "$list") >"$part/wrong" 2>/dev/null; then
    head -n 5 "$part/wrong" >&2
    say "these artifacts are not those of scripts/jmeter.sha256; nothing was installed"
    exit 3
fi

# what is not on the list is not installed
while read -r _ jar; do
    case $jar in
    ApacheJMeter-*) cp "$part/jars/$jar" "$part/home/bin/ApacheJMeter.jar" ;;
    ApacheJMeter_config-*) python3 -m zipfile -e "$part/jars/$jar" "$part/config" ;;
    ApacheJMeter_*) cp "$part/jars/$jar" "$part/home/lib/ext/" ;;
    *) cp "$part/jars/$jar" "$part/home/lib/" ;;
    esac
done <"$list"
cp -R "$part/config/bin/." "$part/home/bin/"

# exec: who signals this process signals JMeter
cat >"$part/home/bin/jmeter" <<'EOF'
#!/bin/sh
home=$(cd "$(dirname "$0")/.." && pwd)
for package in lang lang.invoke lang.reflect math text time util; do
    open="${open:-} --add-opens=java.base/java.$package=ALL-UNNAMED"
done
# shellcheck disable=SC2086
exec java ${JMETER_HEAP:--Xms512m -Xmx512m -XX:MaxMetaspaceSize=256m} $open -Djava.awt.headless=true \
    -Djava.security.egd=file:/dev/urandom ${JVM_ARGS:-} -jar "$home/bin/ApacheJMeter.jar" "$@"
EOF
chmod 755 "$part/home/bin/jmeter"

"$part/home/bin/jmeter" -j /dev/null -v >"$part/version" 2>&1 || true
if ! grep -q ' 5\.6\.3$' "$part/version"; then
    cat "$part/version" >&2
    say "was assembled, but does not start: see above"
    exit 3
fi
echo "$want" >"$part/home/.installed"
rm -rf "$home"
mv "$part/home" "$home"
rm -rf "$part"
say "installed: $home"
