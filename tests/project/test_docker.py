"""The docker files, read as text: no container engine is needed."""

import os
import re
import runpy
import shlex

import click
import yaml
from project.shell import ROOT

from beasy_sched.cli import cli
from beasy_sched.plugins.campaigns.comparisons.days import MadeFiles

DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
SERVICES = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
EMBEDDED = yaml.safe_load((DOCKER / "compose.embedded.yaml").read_text())["services"]
SCRIPT = runpy.run_path(str(DOCKER / "serve_folder.py"))
PAGE = (ROOT / "docs/guides/batsim.md").read_text()
GUIDE = PAGE.partition("## In containers")[2].partition("\n## ")[0]


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.split(maxsplit=1)[1] for line in joined.splitlines() if line.startswith(f"{name} ")]


def parse(arguments: list[str]) -> dict[str, object]:
    """Parse a command line of beasy-sched as the program itself does, variables at their defaults."""
    plain = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", argument) for argument in arguments]
    command = cli.get_command(click.Context(cli), plain[0])
    assert command is not None
    return command.make_context(plain[0], plain[1:]).params


def test_the_image_copies_what_exists_and_what_the_context_lets_in():
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    for copied in instructions("COPY"):
        for name in copied.split()[:-1]:
            assert (ROOT / name).exists()
            assert f"!{name}" in ignored


def test_the_image_serves_by_default_and_not_as_root():
    command = [*yaml.safe_load(instructions("ENTRYPOINT")[0]), *yaml.safe_load(instructions("CMD")[0])]
    assert command[0] == "beasy-sched"
    port = str(parse(command[1:])["socket_endpoint"]).rpartition(":")[2]
    assert instructions("EXPOSE") == [port]
    assert parse(command[1:])["socket_endpoint"] == f"tcp://*:{port}"
    assert instructions("USER") == ["1000"]


def test_the_image_has_what_the_policies_need():
    assert instructions("FROM") == ["${BASE}"]
    assert "EXTRAS=plan" in instructions("ARG")


def test_the_health_check_looks_for_the_default_port():
    (check,) = instructions("HEALTHCHECK")
    assert f":{int(instructions('EXPOSE')[0]):04X} " in check


def test_only_the_scheduler_and_batsim_start():
    """podman-compose 1.0.3 would start services with profiles, too."""
    assert {*SERVICES} == {"scheduler", "batsim"}
    assert {*EMBEDDED} == {"batsim"}


def test_the_scheduler_is_found_by_batsim():
    scheduler = parse(["serve", *SERVICES["scheduler"]["command"]])
    port = str(scheduler["socket_endpoint"]).rpartition(":")[2]
    assert scheduler["socket_endpoint"] == f"tcp://*:{port}"
    assert parse(["batsim", *SERVICES["batsim"]["command"]])["socket_endpoint"] == f"tcp://scheduler:{port}"
    assert "scheduler" in SERVICES["batsim"]["depends_on"]
    assert SERVICES["scheduler"]["entrypoint"] == ["serve_folder.py"]
    assert "docker/serve_folder.py /usr/local/bin/" in instructions("COPY")
    assert os.access(DOCKER / "serve_folder.py", os.X_OK)


def test_batsim_gets_what_the_scheduler_needs():
    """Energy and forwarded events, or the scheduler would never learn the power produced."""
    given = SERVICES["batsim"]["command"]
    assert {"--energy", "--forward-unknown-events", "--events=power.txt"} <= set(given)
    assert f"--export={SCRIPT['RUN']}" in given
    assert EMBEDDED["batsim"]["entrypoint"] == ["beasy-sched", "batsim"]
    assert EMBEDDED["batsim"]["image"] == SERVICES["scheduler"]["image"]


def test_files_are_those_of_the_main_job_in_the_shared_folder():
    for service in SERVICES.values():
        folder, _, mounted = service["volumes"][0].partition("}:")
        assert folder == "${DATA:-../out/run"
        assert service["working_dir"] == mounted == "/data"
    assert SERVICES["scheduler"]["environment"]["FOLDER"] == "${DATA:-out/run}"
    values = [argument.partition("=")[2] for argument in SERVICES["batsim"]["command"]]
    files = {value for value in values if re.fullmatch(r"\w+\.(xml|json|txt|toml)", value)}
    assert files == {"platform.xml", "workload.json", "power.txt"} <= set(MadeFiles())


def test_the_guide_names_variables_and_services_that_exist():
    text = (DOCKER / "compose.yaml").read_text()
    used = {*re.findall(r"\$\{(\w+):-", text)}
    assert {*re.findall(r"^\| `([A-Z_]+)` \|", GUIDE, re.MULTILINE)} == used
    assert {*re.findall(r"^#   ([A-Z_]+) ", text, re.MULTILINE)} == used
    lines = re.findall(r"^docker compose (.*)$", GUIDE, re.MULTILINE)
    assert len(lines) == 4
    for words in map(shlex.split, lines):
        assert {*words} >= {"-f", "docker/compose.yaml"}
        assert all((ROOT / word).exists() for word in words if word.startswith("docker/"))
        assert "up" not in words or words[words.index("up") :] == [
            "up",
            "--build",
            "--exit-code-from",
            "scheduler",
        ]


def test_the_default_image_is_one_that_the_guide_says_is_known():
    image = re.fullmatch(r"\$\{BATSIM_IMAGE:-(.*)\}", SERVICES["batsim"]["image"])
    assert image is not None
    assert f"The default image is `{image[1]}`." in GUIDE
    tag = image[1].rpartition(":")[2]
    assert (
        f"`{tag}`"
        in GUIDE.partition("Public repositories use Batsim's images with the tags")[2].partition(":")[0]
    )
