"""Render deploy/k8s from the Helm chart, and the table of the chart's README: `make manifests`. Needs helm.

The manifests are for people without Helm. Each file says from which chart it was rendered: a digest of the chart's
files, with which a test finds stale manifests without helm.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from tools.helm import REPOSITORY, find_program

CHART: Final = REPOSITORY / "deploy" / "helm" / "mirrorgate"
MANIFESTS: Final = REPOSITORY / "deploy" / "k8s"
NAMESPACE: Final = "mirrorgate"
BEGIN: Final = "<!-- Written by `make manifests`. -->\n"
END: Final = "<!-- End of what `make manifests` wrote. -->\n"
_TEMPLATE: Final = re.compile(r"^# Source: mirrorgate/templates/(\w+)\.yaml$", re.MULTILINE)
_ORDER: Final = ("configuration", "volumes", "migrate", "api", "drain", "disruption", "network")


def chart_digest() -> str:
    """Return the SHA-256 of everything in the chart that rendering with the default values reads."""
    digest = hashlib.sha256()
    for path in sorted(CHART.rglob("*")):
        if path.is_file() and path.parent.name not in ("ci", "files") and path.suffix != ".md":
            digest.update(f"{path.relative_to(CHART)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def render(helm: str, *arguments: str) -> str:
    """Return what `helm template` prints. Raises CalledProcessError with its message."""
    command = [helm, "template", "mirrorgate", str(CHART), "--namespace", NAMESPACE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def manifest_files(rendered: str, digest: str) -> dict[str, str]:
    """Return the content of each file of deploy/k8s by name: one for each template, in the order to apply them."""
    parts: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", rendered, flags=re.MULTILINE):
        if source := _TEMPLATE.search(document):
            body = _TEMPLATE.sub("", document).strip()
            body = "\n".join(line.rstrip() for line in body.splitlines() if line.strip())
            parts.setdefault(source[1], []).append(body + "\n")
    header = f"# Rendered by `make manifests` from deploy/helm/mirrorgate {digest}. Do not edit.\n"
    names = [name for name in _ORDER if name in parts] + sorted(parts.keys() - set(_ORDER))
    return {
        f"{number}-{name}.yaml": header + "---\n" + "---\n".join(parts[name]) for number, name in enumerate(names, 1)
    }


def values_table() -> str:
    """Return the chart's values as a Markdown table, from values.schema.json and the defaults of values.yaml."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    lines = ["| value | default | meaning |", "|---|---|---|"]
    for path, described in leaves(schema, schema, ""):
        default: Any = values
        for name in path.split("."):
            default = default[name]
        shown = json.dumps(default, ensure_ascii=False).replace("|", "\\|")
        lines.append(f"| `{path}` | `{shown}` | {described} |")
    return "\n".join(lines) + "\n"


def leaves(schema: Mapping[str, Any], node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield the dotted path and the description of each value: objects with properties are not values themselves."""
    if "$ref" in node:
        node = {**schema["$defs"][node["$ref"].rpartition("/")[2]], **node}
    if "description" in node or "properties" not in node:
        yield path, node.get("description", "")
        return
    for name, below in node["properties"].items():
        if not below.get("deprecated"):
            yield from leaves(schema, below, f"{path}.{name}".lstrip("."))


def readme() -> str:
    """Return the chart's README with its table as it must be."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{values_table()}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Write the files; return the exit status."""
    helm = find_program("helm")
    if helm is None:
        print(
            "error: helm is missing\n  Run `make helm-tools`, or name one: make manifests HELM=/path/to/helm",
            file=sys.stderr,
        )
        return 1
    (CHART / "README.md").write_text(readme(), encoding="utf-8")
    for old in MANIFESTS.glob("*.yaml"):
        old.unlink()
    for name, content in manifest_files(render(helm), chart_digest()).items():
        (MANIFESTS / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
