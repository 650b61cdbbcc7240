"""The house: who may import whom, and what every module owes its readers.

Read from the source with `ast`, so that an import inside a function counts like any other.
"""

import ast
import graphlib
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from naive.disciplines import DISCIPLINES as NAIVE_DISCIPLINES
from naive.fair import FAIR
from naive.policies import POLICIES as NAIVE_POLICIES

import vecsched

ROOT = Path(__file__).parents[1]

# From the ground up. A module imports from lower floors, or from its own in one direction.
# "package.*" stands for the package and all in it, however deep; all else is named.
FLOORS = (
    (
        "vecsched.errors",
        "vecsched._version",
        "vecsched._numbers",
        "vecsched._jit",
        "vecsched.clock",
    ),
    ("vecsched.ragged",),
    ("vecsched.requests", "vecsched.trace", "vecsched.mixed_attention", "vecsched.tables"),
    ("vecsched.boundary", "vecsched.policies", "vecsched.cost"),
    ("vecsched.aliases", "vecsched.config", "vecsched.options"),
    ("vecsched.kernels.*",),
    ("vecsched.disciplines.*",),
    ("vecsched.quantiles", "vecsched.replay", "vecsched.pool", "vecsched.columns"),
    ("vecsched.fairness", "vecsched.isolated"),
    ("vecsched.prefixes", "vecsched.prefix_metrics", "vecsched.block_log"),
    ("vecsched.cache_state",),
    ("vecsched.assembly", "vecsched.metrics", "vecsched.tenancy", "vecsched.results"),
    ("vecsched.simulation",),
    ("vecsched",),
    # The driver stands on the finished engine.
    ("sweeps", "sweeps.errors", "sweeps.expression", "sweeps.schema", "sweeps.objectives"),
    ("sweeps._yaml", "sweeps.axes", "sweeps.files", "sweeps.parts", "sweeps.request_tables"),
    ("sweeps.frontier", "sweeps.capacity"),
    ("sweeps.knobs", "sweeps.knees", "sweeps.hypervolume"),
    ("sweeps.confidence", "sweeps.stability"),
    ("sweeps.effects", "sweeps.cliffs", "sweeps.explain"),
    ("sweeps.measured_run", "sweeps.validate"),
    ("sweeps.scenario_file",),
    ("sweeps.step_log", "sweeps.step_summary", "sweeps.vllm_scenario"),
    ("sweeps.workloads.*", "sweeps.calibrate.*"),
    ("sweeps.sections", "sweeps.designs"),
    ("sweeps.spec",),
    ("sweeps.space",),
    ("sweeps.executors", "sweeps.dask_executor", "sweeps.keys", "sweeps.rows"),
    ("sweeps.store", "sweeps.prepare", "sweeps.watching"),
    ("sweeps.search", "sweeps.plans", "sweeps.workers"),
    ("sweeps.run",),
    ("sweeps.plot_view",),
    ("sweeps.estimate", "sweeps.plots", "sweeps.trade_off_plots", "sweeps.validation_plot"),
    ("sweeps.report.*",),
    ("sweeps.cli.*",),
)

# What the driver may use of the engine, beside the names in `vecsched.__all__`.
PUBLIC_MODULES = (
    "aliases",
    "boundary",
    "clock",
    "config",
    "cost",
    "errors",
    "metrics",
    "mixed_attention",
    "policies",
    "ragged",
    "requests",
    "simulation",
    "trace",
)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {
    module_name(path): ast.parse(path.read_text("utf-8"), str(path))
    for package in ("vecsched", "sweeps")
    for path in sorted((ROOT / package).rglob("*.py"))
}
MODULES = sorted(TREES)


def floor_of(module: str) -> int:
    for floor, names in enumerate(FLOORS):
        packages = tuple(name[:-1] for name in names if name.endswith(".*"))
        if module in names or f"{module}.".startswith(packages):
            return floor
    raise AssertionError(f"{module} has no floor: give it one in {Path(__file__).name}")


def imports_of(module: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for each import from our packages; name is "" for a whole module.

    In `__init__`, what stands under TYPE_CHECKING only repeats for type checkers what is loaded
    lazily; everywhere else it is a dependency like any other.
    """
    is_package = any(other.startswith(f"{module}.") for other in TREES)
    for node in walk(TREES[module], skip_type_checking=is_package):
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: a relative import"
            found = [
                (f"{node.module}.{alias.name}", "")
                if f"{node.module}.{alias.name}" in TREES
                else (str(node.module), alias.name)
                for alias in node.names
            ]
        else:
            continue
        yield from (pair for pair in found if pair[0].partition(".")[0] in ("vecsched", "sweeps"))


def walk(tree: ast.AST, skip_type_checking: bool) -> Iterator[ast.AST]:
    yield tree
    for child in ast.iter_child_nodes(tree):
        is_guard = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not (skip_type_checking and is_guard):
            yield from walk(child, skip_type_checking)


# Layers


def test_floors_name_what_exists():
    for name in (name for floor in FLOORS for name in floor):
        assert name.removesuffix(".*") in TREES, f"{name} is gone: take it out of FLOORS"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_lower_floors_only(module):
    for imported, _ in imports_of(module):
        assert imported in TREES, f"{module} imports {imported}, which does not exist"
        assert floor_of(imported) <= floor_of(module), f"{module} imports {imported} from above"


def test_no_module_imports_itself_by_way_of_others():
    graph = {
        module: {imported for imported, _ in imports_of(module)} - {module} for module in TREES
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("sweeps")])
def test_the_driver_uses_public_names_of_the_engine(module):
    for imported, name in imports_of(module):
        if imported == "vecsched":
            assert name in vecsched.__all__, f"{module} imports vecsched.{name}"
        elif imported.startswith("vecsched."):
            assert imported.removeprefix("vecsched.") in PUBLIC_MODULES, f"{module}: {imported}"
            assert not name.startswith("_"), f"{module} imports {imported}.{name}"


def test_the_engine_does_not_know_the_driver():
    upward = [
        (module, imported)
        for module in MODULES
        if module.startswith("vecsched")
        for imported, _ in imports_of(module)
        if imported.startswith("sweeps")
    ]
    assert upward == []


@pytest.mark.parametrize(
    "statement",
    [
        "import vecsched",
        "import sweeps.cli",
        "from sweeps.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
    ],
)
def test_starting_up_loads_nothing_heavy(statement):
    code = f"import sys\n{statement}\nprint('loaded:', *sorted(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(run.stdout.rpartition("loaded:")[2].split())
    assert "vecsched" in loaded
    assert loaded.isdisjoint({"numba", "numpy", "pandas", "pyarrow", "matplotlib", "scipy"})


# Texts and style


def public_definitions(module: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield (dotted name, node) of a module and its public classes, functions and methods."""
    pending: list[tuple[str, ast.AST]] = [(module, TREES[module])]
    while pending:
        name, node = pending.pop()
        yield name, node
        if not isinstance(node, ast.FunctionDef):
            pending += [
                (f"{name}.{child.name}", child)
                for child in ast.iter_child_nodes(node)
                if isinstance(child, ast.ClassDef | ast.FunctionDef)
                and not child.name.startswith("_")
            ]


@pytest.mark.parametrize("module", MODULES)
def test_public_things_say_what_they_are(module):
    for name, node in public_definitions(module):
        if TREES[module].body:  # an empty __init__ has nothing to say
            assert ast.get_docstring(node), f"{name} has no docstring"


@pytest.mark.parametrize("module", MODULES)
def test_documented_arguments_exist(module):
    for name, node in public_definitions(module):
        if isinstance(node, ast.FunctionDef):
            given = node.args
            known = {
                argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)
            } | {variadic.arg for variadic in (given.vararg, given.kwarg) if variadic}
            section = "Args"
        elif isinstance(node, ast.ClassDef):
            known = {
                child.target.id
                for child in node.body
                if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)
            } | attributes_set_in_init(node)
            section = "Attributes"
        else:
            continue
        for documented in entries(ast.get_docstring(node) or "", section):
            assert documented in known, f"{name} documents {documented!r}, which it does not have"


def attributes_set_in_init(node: ast.ClassDef) -> set[str]:
    return {
        child.attr
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute)
        and isinstance(child.ctx, ast.Store)
        and ast.unparse(child.value) == "self"
    }


def entries(docstring: str, section: str) -> list[str]:
    """Names in a Google-style section: `name: text`, or `one, other: text`."""
    match = re.search(rf"^{section}:\n((?:    .*\n|\n)*)", f"{docstring}\n", re.MULTILINE)
    lines = match[1].splitlines() if match else []
    heads = [head[1] for line in lines if (head := re.match(r"    ([*\w][\w, *]*):", line))]
    return [name.strip(" *") for head in heads for name in head.split(",")]


def test_the_section_reader_finds_entries():
    docstring = (
        "X.\n\nArgs:\n    one, other: a\n        b: c\n    **rest: d\n\nReturns:\n    e: f\n"
    )
    assert entries(docstring, "Args") == ["one", "other", "rest"]
    assert entries(docstring, "Attributes") == []


@pytest.mark.parametrize("module", MODULES)
def test_library_code_is_quiet_and_exact(module):
    for node in ast.walk(TREES[module]):
        where = f"{module}, line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) != "print", f"{where}: print"
            # Both let the compiler reorder sums, which may change the last bit.
            options = {keyword.arg for keyword in node.keywords}
            assert options.isdisjoint({"fastmath", "parallel"}), where
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{where}: a bare except"


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_short(module):
    source = ROOT.joinpath(*module.split("."))
    path = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= 300, f"{module} has {lines} lines"


def all_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name: the order that ruff keeps."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


@pytest.mark.parametrize(
    "module", [name for name in MODULES if "__all__ = " in ast.unparse(TREES[name])]
)
def test_exported_names_are_sorted_and_exist(module):
    loaded = importlib.import_module(module)
    assert loaded.__all__ == sorted(loaded.__all__, key=all_order)
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'vecsched' has no attribute 'simulat'"):
        _ = vecsched.simulat
    assert dir(vecsched) == sorted(vecsched.__all__)


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    newest = re.search(r"^## \[?([\w.]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert project["version"] == vecsched.__version__ == newest[1]


def test_the_readme_begins_with_two_commands():
    blocks = re.findall(
        r"^```bash\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S
    )
    install_and_sweep, install_and_test = blocks[:2]
    assert install_and_sweep.count("\n") == install_and_test.count("\n") == 1
    assert "vecsched sweep" in install_and_sweep
    assert "pytest" in install_and_test


# Tables of disciplines and policies


@pytest.mark.parametrize("name", vecsched.DISCIPLINES)
def test_a_discipline_is_one_module_with_its_oracle(name):
    module = importlib.import_module(f"vecsched.disciplines.{name}")
    assert callable(module.run)
    config = vecsched.SchedulerConfig(discipline=name)
    assert module.smallest_demand(config) >= 1
    assert module.lone_chunk(config) >= 1
    assert isinstance(module.IDLE_ITERATION, bool)
    assert isinstance(module.IS_PAGED, bool)
    assert name in NAIVE_DISCIPLINES


def test_no_discipline_is_left_out():
    modules = {path.stem for path in (ROOT / "vecsched" / "disciplines").glob("*.py")}
    assert modules - {"__init__"} == set(vecsched.DISCIPLINES) == set(NAIVE_DISCIPLINES)


def test_every_policy_has_its_oracle():
    fair = {name for name, policy in vecsched.POLICIES.items() if policy.is_fair}
    assert fair == set(FAIR)
    assert set(vecsched.POLICIES) - fair == set(NAIVE_POLICIES)
