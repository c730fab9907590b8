"""The docker files, read as text: no container engine is needed."""

import re
import shlex

import click
import pytest
import yaml
from project.shell import ROOT

from beasy_sched.cli import cli
from beasy_sched.comparisons.days import MadeFiles

DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
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


def test_the_scheduler_is_found_by_the_simulators():
    scheduler = parse(SERVICES["scheduler"]["command"])
    port = str(scheduler["socket_endpoint"]).rpartition(":")[2]
    assert scheduler["socket_endpoint"] == f"tcp://*:{port}"
    for name in ("batsim", "simulator"):
        assert parse(["batsim", *SERVICES[name]["command"]])["socket_endpoint"] == f"tcp://scheduler:{port}"
        assert "scheduler" in SERVICES[name]["depends_on"]


def test_batsim_gets_what_the_scheduler_needs():
    """Energy and forwarded events, or the scheduler would never learn the power produced."""
    for name in ("batsim", "simulator"):
        given = SERVICES[name]["command"]
        assert {"--energy", "--forward-unknown-events", "--events=power.txt"} <= set(given)
    assert SERVICES["simulator"]["entrypoint"] == ["beasy-sched", "batsim"]


@pytest.mark.parametrize("service", SERVICES)
def test_files_are_those_of_the_main_job_in_the_shared_folder(service: str):
    folder, _, mounted = SERVICES[service]["volumes"][0].partition("}:")
    assert folder == "${DATA:-../out/run"
    assert SERVICES[service]["working_dir"] == mounted == "/data"
    command = SERVICES[service]["command"]
    values = [argument.partition("=")[2] for argument in command]
    files = [value for value in values if re.fullmatch(r"\w+\.(xml|json|txt|toml)", value)]
    assert files
    assert set(files) <= set(MadeFiles())


def test_the_guide_names_variables_and_services_that_exist():
    text = (DOCKER / "compose.yaml").read_text()
    for variable in re.findall(r"\b([A-Z_]+)=", GUIDE):
        assert f"${{{variable}:-" in text
    for line in re.findall(r"^\$ (.*docker compose .*)$", GUIDE, re.MULTILINE):
        words = shlex.split(line, comments=True)
        assert "docker/compose.yaml" in words
        if "up" in words:
            assert set(words[words.index("up") + 1 :]) - {"--build"} <= set(SERVICES)


def test_the_default_image_is_one_that_the_guide_says_is_known():
    image = re.fullmatch(r"\$\{BATSIM_IMAGE:-(.*)\}", SERVICES["batsim"]["image"])
    assert image is not None
    assert f"The default image is `{image[1]}`." in GUIDE
    tag = image[1].rpartition(":")[2]
    assert f"`{tag}`" in GUIDE.partition("public repositories use the tags")[2].partition(":")[0]
