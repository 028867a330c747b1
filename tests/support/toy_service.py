"""A service defined by a folder alone: one TOML file and two templates, without Python code."""

from pathlib import Path

from loadbook.services import ServiceSpec, load_service

SERVICE = """
name = "toy"
about = "a folder over HTTP, by Python's own server"
binary = "python3"
package = "python3"
[version]
argv = ["python3", "-V"]
pattern = 'Python ([0-9.]+)'
[files]
"www/index.html" = "index.html.j2"
"www/id.txt" = "id.j2"
[commands]
start = ["python3", "{{ option }}", "-m", "http.server", "-b", "{{ address }}", "-d", "{{ dir }}/www", "{{ port }}"]
[ready]
path = "/index.html"
[prove]
path = "/id.txt"
[vars.option]
type = "text"
pattern = '-[A-Z]'
default = "-B"
about = "an option of python3"
[vars.greeting]
type = "enum"
values = ["hello", "goodbye"]
default = "hello"
about = "what the page says"
"""


def toy_service(folder: Path) -> ServiceSpec:
    own = folder / "services" / "toy"
    own.mkdir(parents=True)
    (own / "service.toml").write_text(SERVICE)
    (own / "index.html.j2").write_text("{{ greeting }}\n")
    (own / "id.j2").write_text("{{ config_id }}\n")
    return load_service("toy", [folder / "services"])
