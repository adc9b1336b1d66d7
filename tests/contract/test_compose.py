"""Checks of `compose/` without a container engine; `make compose-test` makes the others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from forebay.broker.core.access.principal import Grant, Principal, Right
from forebay.broker.rpc.access.rules import RULES

ROOT: Final = Path(__file__).resolve().parents[2]
COMPOSE: Final = ROOT / "compose"
DOCKERFILE: Final = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")


def stages() -> dict[str, str]:
    """The lines of each stage by its name, with those of the stages that it builds on before them."""
    found: dict[str, str] = {}
    for block in re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]:
        first, _, rest = block.partition("\n")
        base, name = first.split(" AS ")
        found[name] = found.get(base, "") + rest
    return found


def services() -> dict[str, str]:
    """The lines of each service in the compose file by its name, without comments."""
    text = re.sub(r"\s+#.*|^#.*", "", (COMPOSE / "compose.yaml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    [section] = re.findall(r"^services:\n((?: .*\n|\n)*)", text, flags=re.MULTILINE)
    named = re.findall(r"^  ([a-z]+):\n((?:    .*\n|\n)*)", section, flags=re.MULTILINE)
    assert "".join(f"  {name}:\n{lines}" for name, lines in named) == section
    return dict(named)


def ours() -> dict[str, str]:
    """The services that run our images: those of every start, not of a profile."""
    return {name: lines for name, lines in services().items() if "<<: *tool" not in lines}


def image_of(service: str) -> str:
    [image] = re.findall(r"image: forebay-([a-z]+):\$\{FOREBAY_TAG:-local\}", ours()[service])
    return str(image)


def locked(*extras: str) -> set[str]:
    command = [sys.executable, str(COMPOSE / "locked.py"), *extras]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^([a-z0-9.-]+)(?:\[[a-z,]+\])?==", text, flags=re.MULTILINE))


def test_there_is_a_container_for_each_part() -> None:
    assert set(ours()) == {"broker", "sink", "db", "deliverer", "spark"}
    assert set(services()) - set(ours()) == {"prometheus", "grafana", "jaeger", "collector"}


@pytest.mark.parametrize("service", sorted(ours()))
def test_every_service_runs_an_image_that_one_service_builds(service: str) -> None:
    image = image_of(service)
    building = [name for name, lines in ours().items() if f"build: {{<<: *build, target: {image}}}" in lines]

    assert image in stages()
    assert [image_of(name) for name in building] == [image]


@pytest.mark.parametrize("service", sorted(ours()))
def test_no_container_runs_as_root_or_can_become_it(service: str) -> None:
    user = re.findall(r"^USER (\S+)$", stages()[image_of(service)], flags=re.MULTILINE)
    common = (COMPOSE / "compose.yaml").read_text(encoding="utf-8").partition("services:")[0]

    assert user[-1:] == ["forebay"]
    assert "<<: *common" in ours()[service]
    assert "user:" not in ours()[service]
    for line in ("read_only: true", "cap_drop: [ALL]", 'security_opt: ["no-new-privileges:true"]'):
        assert line in common


@pytest.mark.parametrize("service", sorted(set(ours()) - {"sink"}))
def test_every_long_running_service_has_a_health_check(service: str) -> None:
    in_image = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", stages()[image_of(service)], flags=re.MULTILINE)
    in_service = re.findall(r'^      test: \["CMD", (.*)\]$', ours()[service], flags=re.MULTILINE)
    [check] = in_service or in_image

    if service == "db":
        assert "pg_isready" in check
        return
    [name] = re.findall(r'health\.py", "([a-z]+)"', check)
    assert f'"{name}": {name},' in (COMPOSE / "health.py").read_text(encoding="utf-8")


def test_the_image_of_the_broker_gets_neither_java_nor_spark() -> None:
    assert "jre" not in stages()["broker"]
    assert re.findall(r"COPY --from=(\S+)", stages()["broker"]) == ["broker-build"]
    assert "compose/install /opt/forebay broker console cli ${BROKER_EXTRAS}\n" in stages()["broker-build"]
    assert {"grpcio", "rocksdict"} <= locked("broker", "console", "cli")
    assert not {"pyspark", "py4j", "pandas", "numpy"} & locked("broker", "console", "cli", "arrow")


def test_the_image_of_the_broker_gets_pyarrow_where_rows_are_read_only() -> None:
    assert "\nARG BROKER_EXTRAS=\n" in stages()["broker-build"]
    assert "pyarrow" not in locked("broker", "console", "cli")
    assert "pyarrow" in locked("broker", "console", "cli", "arrow")


def test_the_image_of_the_deliverer_gets_pyarrow_where_rows_are_delivered_only() -> None:
    assert "\nARG DELIVER_EXTRAS=\n" in stages()["deliver-build"]
    assert "pyarrow" not in locked("deliver", "postgresql", "cli")
    assert "pyarrow" in locked("deliver", "postgresql", "cli", "arrow")


@pytest.mark.parametrize("name", ["BROKER_EXTRAS", "DELIVER_EXTRAS"])
def test_further_extras_reach_a_build_by_both_ways(name: str) -> None:
    assert f"{name}: ${{{name}:-}}" in (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    assert f'--build-arg "{name}=${{{name}:-}}"' in (COMPOSE / "build").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("image", "parts", "packages"),
    [
        ("broker", "broker console cli ${BROKER_EXTRAS}", {"rocksdict", "starlette", "typer"}),
        ("deliver", "deliver postgresql cli ${DELIVER_EXTRAS}", {"httpx2", "psycopg-binary", "typer"}),
        ("spark", "spark cli psutil", {"pyspark", "psutil", "typer"}),
    ],
)
def test_an_image_gets_the_packages_of_its_extras_from_the_lock_file(
    image: str, parts: str, packages: set[str]
) -> None:
    [named] = re.findall(r"compose/install /opt/forebay (.*)\n", stages()[f"{image}-build"])

    assert named == parts
    by_default = re.sub(r" \$\{\w+_EXTRAS\}$", "", named).split()
    assert {"grpcio", "protobuf", "opentelemetry-api", *packages} <= locked(*by_default)


def test_each_path_copied_into_the_images_exists_and_is_excepted_by_the_dockerignore_file() -> None:
    let_through = [
        line.removeprefix("!")
        for line in (COMPOSE / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    ]
    copied = [
        name
        for names in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, flags=re.MULTILINE)
        for name in names.split()
    ]

    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert any(Path(name).match(line) or line.startswith(f"{name}/") for line in let_through), name
    for line in let_through:
        assert list(ROOT.glob(line)), line


@pytest.mark.parametrize("service", sorted(ours()))
def test_the_files_that_a_service_runs_are_in_its_image(service: str) -> None:
    stage = stages()[image_of(service)]

    for name in re.findall(r"/opt/forebay/compose/(\w+\.py)", ours()[service] + stage):
        assert re.search(rf"^COPY .*compose/{re.escape(name)} .*/opt/forebay/compose/$", stage, flags=re.MULTILINE)


def test_one_default_for_what_the_images_are_built_on() -> None:
    [default] = re.findall(r"^ARG BASE_IMAGE=(\S+)$", DOCKERFILE, flags=re.MULTILINE)
    others = [
        found
        for name in ("compose.yaml", "build", "test.sh")
        for found in re.findall(r"BASE_IMAGE(?::-|=)(python:[^}\s]*)", (COMPOSE / name).read_text(encoding="utf-8"))
    ]

    assert len(others) == 3
    assert set(others) == {default}


def test_the_base_image_without_a_registry_has_one_name() -> None:
    [name] = re.findall(r"^name=\$\{1:-(\S+)\}$", (COMPOSE / "base").read_text(encoding="utf-8"), flags=re.MULTILINE)
    others = [
        found
        for file in ("test.sh", "README.md")
        for found in re.findall(r"BASE_IMAGE=(debian-\S+)", (COMPOSE / file).read_text(encoding="utf-8"))
    ]

    assert len(others) == 2
    assert set(others) == {name}


def test_a_base_image_that_cannot_be_made_says_what_is_missing(tmp_path: Path) -> None:
    made = subprocess.run(
        ["/bin/bash", str(COMPOSE / "base")], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert made.returncode == 2
    assert "apt install mmdebstrap" in made.stderr


def test_no_image_keeps_the_packages_that_it_has_installed() -> None:
    installing = re.findall(r"^RUN (.*apt-get install(?:.*\\\n)*.*)$", DOCKERFILE, flags=re.MULTILINE)

    assert len(installing) == 2
    for command in installing:
        assert "apt-get clean" in command
        assert "/var/lib/apt/lists/*" in command


def test_the_test_of_the_containers_asks_for_those_that_have_ended_too() -> None:
    asked = re.findall(r"(?:compose|\"\$DOCKER\") ps (.*)", (COMPOSE / "test.sh").read_text(encoding="utf-8"))

    assert len(asked) == 2
    for options in asked:
        assert options.startswith("--all ")


def test_the_broker_is_open_to_this_machine_alone() -> None:
    text = (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    published = re.findall(r'"([^"]*:[0-9]+)"', "".join(re.findall(r"ports:(?:.*\n)(?: +- .*\n)*", text)))

    assert len(published) == 6
    for port in published:
        assert re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z_]+_PORT:-([0-9]+)\}:\1", port), port


def test_the_test_of_the_containers_takes_no_port_and_no_profile_of_the_caller() -> None:
    ports = re.findall(r"\$\{(FOREBAY_[A-Z_]*PORT):-", "".join(ours().values()))
    exported = " ".join(re.findall(r"^export (.*)$", (COMPOSE / "test.sh").read_text(encoding="utf-8"), re.MULTILINE))

    assert len(ports) == 3
    assert {name for name in ports if f"{name}=0" not in exported.split()} == set()
    assert 'COMPOSE_PROFILES=""' in exported.split()


@pytest.mark.parametrize(
    "method",
    [
        "SinkService/CreateSink",  # sink
        "EpochService/TakeTicket",  # spark
        "BufferService/Publish",
        "EpochService/CommitEpoch",
        "BufferService/Deliver",  # deliverer
        "SinkService/GetSinkStats",  # health checks
        "EpochService/ListEpochs",
    ],
)
def test_the_token_of_the_documents_has_the_rights_that_the_services_need(method: str) -> None:
    text = (COMPOSE / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    [line] = re.findall(r"^forebay token create compose (.*)$", text, flags=re.MULTILINE)
    grants = [Grant(Right(right), pattern) for right, pattern in re.findall(r"--allow ([a-z]+)=(\S+)", line)]

    assert Principal("compose", tuple(grants)).may(RULES[f"/forebay.v1.{method}"].right, "readings")


@pytest.mark.parametrize("service", sorted(set(ours()) - {"sink"}))
def test_every_long_running_service_has_limits_of_memory_and_processors(service: str) -> None:
    assert re.search(r"^    mem_limit: \$\{[A-Z]+_MEMORY:-[0-9]+[mg]\}$", ours()[service], flags=re.MULTILINE)
    assert re.search(r"^    cpus: \$\{[A-Z]+_CPUS:-[0-9]+\}$", ours()[service], flags=re.MULTILINE)


def test_no_image_is_taken_from_a_registry_where_another_owner_may_have_its_name() -> None:
    common = (COMPOSE / "compose.yaml").read_text(encoding="utf-8").partition("services:")[0]

    assert "  pull_policy: never\n" in re.sub(r" +#.*", "", common)
    assert not any("pull_policy" in lines for lines in ours().values())


def test_compose_finds_its_file_from_the_root() -> None:
    [name] = re.findall(r"^COMPOSE_FILE=(\S+)$", (ROOT / ".env").read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert (ROOT / name).is_file()


def test_the_tools_beside_the_broker_start_only_with_their_profile_and_have_a_version() -> None:
    common = (COMPOSE / "compose.yaml").read_text(encoding="utf-8").partition("services:")[0]
    tool = common.partition("x-tool: &tool")[2].partition("x-build")[0]

    for line in ("profiles: [observability]", "read_only: true", "cap_drop: [ALL]", "no-new-privileges:true"):
        assert line in tool
    for name in set(services()) - set(ours()):
        assert re.search(r"image: \$\{[A-Z]+_IMAGE:-[a-z/-]+:v?[0-9]+\.[0-9]+\.[0-9]+\}", services()[name]), name


def test_the_files_that_a_tool_gets_are_there() -> None:
    mounted = [name for lines in services().values() for name in re.findall(r"\./(\S+?):/\S+:ro", lines)]

    assert len(mounted) == 6
    for name in mounted:
        assert (COMPOSE / name).is_file(), name


def test_the_example_of_an_environment_has_every_variable_with_its_default() -> None:
    text = (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    used = dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text))
    example = (ROOT / ".env.example").read_text(encoding="utf-8")

    given = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", example, flags=re.MULTILINE))

    assert {name: given.get(name) for name in used} == used
