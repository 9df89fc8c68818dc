#!/usr/bin/env python3
"""The schemas of Python packages: model_json_schema() of Pydantic classes, and schema files.

The repository keeps no schema of others, but what finds it again: {package, version, class or path, sha256}, the sum
being that of its JSON as json.dumps writes it. schemas_test.py reads these lists.

    make_package_schemas.py install FOLDER LIST...     a venv with those packages of the lists that are not here
    make_package_schemas.py classes MOST PACKAGE...    lists Pydantic classes of installed packages
    make_package_schemas.py files PACKAGE...           lists schema files of installed packages
    make_package_schemas.py print LIST [PACKAGE...]    {name, schema} of a list's entries, whose sums must hold

tests/data/schemas/pydantic.jsonl was made with `classes 100 openai` in .venv and `classes 20 ...` in a venv of its own;
files.jsonl with `files ...` in both. A package's classes are taken in the order of the SHA-256 of their names, which has
nothing to do with what they are.
"""
import hashlib
import importlib
import importlib.metadata
import inspect
import json
import pathlib
import subprocess
import sys
import venv
import warnings

# What writes classes as schemas, and what other packages have classes from.
PINNED = ("pydantic==2.14.4", "openai==3.3.0")
LARGEST = 3_000_000  # Bytes of a schema file.


def sha256(data):
    return hashlib.sha256(data.encode()).hexdigest()


def read_list(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]


def is_here(entry):
    try:
        return importlib.metadata.version(entry["package"]) == entry["version"]
    except importlib.metadata.PackageNotFoundError:
        return False


def install(folder, lists):
    """A venv with the packages that are not here; returns its Python."""
    entries = [entry for path in lists for entry in read_list(path)]
    packages = sorted({f"{entry['package']}=={entry['version']}" for entry in entries if not is_here(entry)})
    venv.create(folder, with_pip=True)
    python = str(pathlib.Path(folder, "bin", "python"))
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PINNED, *packages], check=True)
    return python


def modules_of(package):
    """The names of a distribution's modules, as its files are named."""
    for path in importlib.metadata.files(package):
        if path.suffix == ".py" and "tests" not in path.parts and not path.parts[0].endswith(".data"):
            yield ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def classes_of(package):
    """(name, schema) of each Pydantic class that a module of the package defines."""
    import pydantic  # Not needed for files.
    for name in modules_of(package):
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit):  # Parts that need other packages.
            continue
        for key, value in list(vars(module).items()):
            own = inspect.isclass(value) and (value.__module__, value.__name__) == (name, key)
            if own and issubclass(value, pydantic.BaseModel):
                try:
                    yield f"{name}.{key}", value.model_json_schema()
                except Exception:  # Not every class has a schema.
                    continue


def list_classes(most, packages):
    for package in packages:
        version = importlib.metadata.version(package)
        seen = set()
        listed = 0
        for name, schema in sorted(classes_of(package), key=lambda found: sha256(found[0])):
            total = sha256(json.dumps(schema))
            if total in seen or listed == most:
                continue
            seen.add(total)
            listed += 1
            print(json.dumps({"package": package, "version": version, "class": name, "sha256": total}))


def read_schema(package, path):
    """The file's JSON if it is a schema, else None."""
    file = pathlib.Path(importlib.metadata.distribution(package).locate_file(path))
    if not file.is_file() or file.suffix not in (".json", "") or file.stat().st_size > LARGEST:
        return None
    try:
        schema = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None
    is_schema = isinstance(schema, dict) and "json-schema.org" in str(schema.get("$schema"))
    return schema if is_schema else None


def list_files(packages):
    for package in packages:
        for path in sorted(str(file) for file in importlib.metadata.files(package)):
            schema = read_schema(package, path)
            if schema is not None:
                print(json.dumps({"package": package, "version": importlib.metadata.version(package), "path": path,
                                  "sha256": sha256(json.dumps(schema))}))


def schema_of(entry):
    if "path" in entry:
        return read_schema(entry["package"], entry["path"])
    module, name = entry["class"].rsplit(".", 1)
    return getattr(importlib.import_module(module), name).model_json_schema()


def print_schemas(path, packages):
    for entry in read_list(path):
        if packages and entry["package"] not in packages:
            continue
        name = f"{entry['package']} {entry.get('class') or entry['path']}"
        schema = schema_of(entry)
        if sha256(json.dumps(schema)) != entry["sha256"]:
            version = importlib.metadata.version(entry["package"])
            sys.exit(f"make_package_schemas.py: {name} of {entry['version']} has another sum in {version}: list the "
                     "package's schemas again")
        print(json.dumps({"name": name, "schema": schema}))


def main(words):
    warnings.simplefilter("ignore")
    match words:
        case ["install", folder, *lists]:
            install(folder, lists)
        case ["classes", most, *packages]:
            list_classes(int(most), packages)
        case ["files", *packages]:
            list_files(packages)
        case ["print", path, *packages]:
            print_schemas(path, packages)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
