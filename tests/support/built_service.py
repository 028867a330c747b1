"""A service of a few lines that a command builds."""

from pathlib import Path

from loadbook.services import ServiceSpec, load_service

SERVICE = """
name = "made"
about = "a page that a maker makes"
binary = "python3"
package = "python3"
[build]
sources = ["recipe.sh", "parts/page.txt"]
needs = ["maker"]
get = "apt-get install maker"
version = { argv = ["maker", "-c", "echo maker 1.2"], pattern = 'maker ([0-9.]+)' }
argv = ["maker", "recipe.sh", "{{ arch }}"]
env = { FLAVOUR = "plain" }
output = "out/index.html"
timeout_s = 5
[build.arch]
pdp11 = "PDP-11"
[commands]
start = ["python3", "-m", "http.server", "-b", "{{ address }}", "-d", "{{ built }}/out", "{{ port }}"]
"""
RECIPE = 'mkdir -p out; echo "$1 $FLAVOUR $(cat parts/page.txt)" >out/index.html; echo x >>"$COUNT"\n'


def made(tmp_path: Path, recipe: str = RECIPE, **build_keys: object) -> ServiceSpec:
    own = tmp_path / "services" / "made"
    (own / "parts").mkdir(parents=True, exist_ok=True)
    (own / "service.toml").write_text(SERVICE)
    (own / "recipe.sh").write_text(recipe)
    (own / "parts" / "page.txt").write_text("page")
    spec = load_service("made", [tmp_path / "services"])
    assert spec.build is not None
    return spec.model_copy(update={"build": spec.build.model_copy(update=build_keys)})
