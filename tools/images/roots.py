"""Build stages as overlay layers on a Debian root file system, and run their containers in namespaces.

Every mount happens in a mount namespace that ends with its command, so nothing remains mounted after a crash. Root is
needed: `mount`, `chroot` and `debootstrap` need it.

Invariant: a container runs as its image's user, without capabilities, on a root file system that is mounted read-only.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tools.images.dockerfile import ImageConfig, Stage, config_of

PROGRAMS: Final = ("debootstrap", "unshare", "chroot", "mount", "setpriv")
BASE_ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
_PACKAGES: Final = "python3,python3-venv,python3-pip,ca-certificates"
_OF_THIS_MACHINE: Final = ("PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy")
"""Variables with which this machine reaches its package registry; a Docker daemon passes its own on in the same way."""


class StepFailed(Exception):
    """A step of the Dockerfile failed; the message has the step and the end of its output."""


@dataclass(frozen=True)
class Root:
    """A root file system: its layers with the newest first."""

    layers: tuple[Path, ...]

    def find(self, path: str) -> Path | None:
        """Return the newest layer's file at `path`."""
        return next((layer / path for layer in self.layers if (layer / path).exists()), None)

    def user_id(self, name: str) -> int:
        """Return the number of an account."""
        passwd = self.find("etc/passwd")
        accounts = passwd.read_text().splitlines() if passwd else []
        return next(int(line.split(":")[2]) for line in accounts if line.startswith(f"{name}:"))


class Images:
    """Stages built below one folder, which is kept: only a stage whose inputs changed is built again."""

    def __init__(self, folder: Path, context: Path, stages: Mapping[str, Stage]) -> None:
        self.folder = folder
        self.context = context
        self.stages = stages
        self.built: dict[str, Root] = {}

    def base(self, image: str) -> Root:
        """Return Debian bookworm with its Python, instead of the official Python image; debootstrap makes it once.

        The root of `scratch` is empty.
        """
        if image == "scratch":
            empty = self.folder / image
            empty.mkdir(parents=True, exist_ok=True)
            return Root((empty,))
        base = self.folder / "debian"
        if not (base / "complete").exists():
            shutil.rmtree(base, ignore_errors=True)
            self.folder.mkdir(parents=True, exist_ok=True)
            command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(base)]
            _checked(command, "debootstrap")
            (base / "usr/local/bin/python").symlink_to("/usr/bin/python3")
            for name in ("resolv.conf", "hosts"):
                shutil.copy(f"/etc/{name}", base / "etc" / name)
            certificates = Path("/etc/ssl/certs/ca-certificates.crt")
            if certificates.exists():
                shutil.copy(certificates, base / "etc/ssl/certs/ca-certificates.crt")
            (base / "complete").touch()
        return Root((base,))

    def build(self, name: str) -> Root:
        """Build a stage after those that it needs, and return its root. Raises StepFailed."""
        if name in self.built:
            return self.built[name]
        stage = self.stages[name]
        parent = self.build(stage.base) if stage.base in self.stages else self.base(stage.base)
        upper, work = self.folder / "layers" / name, self.folder / "work" / name
        root = Root((upper, *parent.layers))
        stamp = self.folder / f"{name}.inputs"
        if stamp.exists() and stamp.read_text() == self.inputs(name):
            self.built[name] = root
            return root
        stamp.unlink(missing_ok=True)
        for made in (upper, work):
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
        folder = config_of(self.stages, stage.base, BASE_ENVIRONMENT).folder if stage.base in self.stages else "/"
        environment = dict(config_of(self.stages, name, BASE_ENVIRONMENT).environment) | _registry_variables()
        for instruction, rest in stage.instructions:
            if instruction == "WORKDIR":
                folder = rest
                self._write(root, work, ["mkdir", "-p", f"MERGED{rest}"])
            elif instruction == "COPY":
                self._copy(root, work, rest, folder)
            elif instruction == "RUN":
                self._run(root, work, rest, folder, environment)
        stamp.write_text(self.inputs(name))
        self.built[name] = root
        return root

    def inputs(self, name: str) -> str:
        """Return the SHA-256 of what a stage is made from: its steps, the files it copies, and other stages."""
        stage = self.stages[name]
        digest = sha256(f"{self.inputs(stage.base) if stage.base in self.stages else stage.base}\n".encode())
        for instruction, rest in stage.instructions:
            digest.update(f"{instruction} {rest}\n".encode())
            if instruction == "COPY" and rest.startswith("--from="):
                digest.update(self.inputs(rest.split()[0].removeprefix("--from=")).encode())
            elif instruction == "COPY":
                for source in rest.split()[:-1]:
                    for path in sorted([self.context / source, *(self.context / source).rglob("*")]):
                        if path.is_file() and "__pycache__" not in path.parts:
                            digest.update(f"{path.relative_to(self.context)}\0".encode() + path.read_bytes())
        return digest.hexdigest()

    def _copy(self, root: Root, work: Path, rest: str, folder: str) -> None:
        words = rest.split()
        source_stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else None
        *sources, target = words
        target = str(Path(folder) / target) + ("/" if target.endswith("/") else "")
        if source_stage is not None:
            other = self.build(source_stage)
            for source in sources:
                script = f"mkdir -p {_parent(target)} && cp -aT FROM{source} MERGED{target.rstrip('/')}"
                self._write(root, work, ["sh", "-c", script], other)
            return
        for source in sources:
            place = f"{target.rstrip('/')}/{Path(source).name}" if target.endswith("/") else target.rstrip("/")
            if (self.context / source).is_dir():
                place = target.rstrip("/")
            script = f"mkdir -p {_parent(place)} && cp -RT {shlex.quote(str(self.context / source))} MERGED{place}"
            script += f" && find MERGED{place} -name __pycache__ -prune -exec rm -rf {{}} +"
            self._write(root, work, ["sh", "-c", script])

    def _run(self, root: Root, work: Path, step: str, folder: str, environment: Mapping[str, str]) -> None:
        mounts = "mount -t proc proc MERGED/proc && mount --bind /dev MERGED/dev && mount -t tmpfs tmpfs MERGED/tmp"
        inside = shlex.quote(f"cd {folder} && {step}")
        variables = " ".join(shlex.quote(f"{name}={value}") for name, value in environment.items())
        self._write(
            root,
            work,
            ["sh", "-c", f"{mounts} && exec env -i {variables} chroot MERGED /bin/sh -c {inside}"],
            step=step,
        )

    def _write(
        self, root: Root, work: Path, command: Sequence[str], other: Root | None = None, step: str | None = None
    ) -> None:
        """Run a command in a namespace where the stage is mounted at MERGED, and another stage at FROM."""
        merged, source = self.folder / "merged", self.folder / "from"
        merged.mkdir(exist_ok=True)
        source.mkdir(exist_ok=True)
        upper, *lower = root.layers
        script = [overlay(merged, lower, upper, work)]
        if other is not None:
            script.append(overlay(source, other.layers))
        words = [word.replace("MERGED", str(merged)).replace("FROM", str(source)) for word in command]
        script.append(f"exec {shlex.join(words)}")
        _checked(["unshare", "--mount", "sh", "-c", " && ".join(script)], step or shlex.join(command))


def overlay(place: Path, lower: Sequence[Path], upper: Path | None = None, work: Path | None = None) -> str:
    """Return the shell command that mounts layers at a place; read-only without `upper`."""
    if upper is None and len(lower) == 1:
        return f"mount --bind {lower[0]} {place}"
    writable = f",upperdir={upper},workdir={work}" if upper else ""
    return f"mount -t overlay overlay -o lowerdir={':'.join(map(str, lower))}{writable} {place}"


def container_command(
    root: Root,
    config: ImageConfig,
    place: Path,
    *,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    folders: Iterable[tuple[Path, str]] = (),
) -> list[str]:
    """Return the command that runs a container in the foreground, as the image says and compose.yaml hardens it.

    The root is read-only and `/tmp` a tmpfs; `folders` are pairs of a folder here and its place there, which must exist
    in the image or below `/tmp`. `arguments` replace the image's CMD after its entry point.
    """
    user = root.user_id(config.user)
    words = [config.command[0], *arguments] if arguments else list(config.command)
    variables = [f"{name}={value}" for name, value in {**config.environment, **(environment or {})}.items()]
    script = [overlay(place, root.layers), f"mount --bind {place} {place}", f"mount -t proc proc {place}/proc"]
    script += [f"mount --rbind /dev {place}/dev", f"mount -t tmpfs -o mode=1777 tmpfs {place}/tmp"]
    script += [f"mount --bind /etc/hosts {place}/etc/hosts"]
    for here, there in folders:
        script += [f"mkdir -p {place}{there}", f"mount --bind {shlex.quote(str(here))} {place}{there}"]
    script.append(f"mount -o remount,ro,bind {place}")
    dropped = ["--reuid", str(user), "--regid", str(user), "--clear-groups", "--no-new-privs"]
    dropped += ["--bounding-set=-all", "--inh-caps=-all"]
    inside = f"cd {config.folder} && exec {shlex.join(words)}"
    run = ["chroot", str(place), "setpriv", *dropped, "env", "-i", *variables, "sh", "-c", inside]
    return ["unshare", "--mount", "sh", "-c", " && ".join([*script, f"exec {shlex.join(run)}"])]


def missing_programs() -> list[str]:
    """Return what this machine lacks to build root file systems."""
    lacking = [] if os.geteuid() == 0 else ["root"]
    return lacking + [program for program in PROGRAMS if shutil.which(program) is None]


def megabytes(folder: Path) -> int:
    """Return what a layer takes on disk, in MB."""
    listed = subprocess.run(["du", "-sm", folder], capture_output=True, text=True, check=True)
    return int(listed.stdout.split()[0])


def _parent(path: str) -> str:
    return f"MERGED{Path(path).parent}"


def _registry_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in _OF_THIS_MACHINE if name in os.environ}


def _checked(command: Sequence[str], step: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise StepFailed(f"exit status {done.returncode}: {step}\n{done.stdout[-3000:]}")
