"""Mistakes in the options and settings of `run`, and in the names of experiments."""

from pathlib import Path

from tests.faults.row import Row


def files(folder: Path) -> None:
    """Leave files that hold no experiment, or that are none."""
    (folder / "sub").mkdir()
    (folder / "folder.py").mkdir()
    (folder / "own.py").write_text("VALUE = 3\n")
    (folder / "binary.py").write_bytes(b"\x00\xff\xfe")
    (folder / "exits.py").write_text("raise SystemExit(0)\n")
    (folder / "raises.py").write_text("1 / 0\n")


RUN = ("run", "consensus")
SWEEP = ",".join(f"{number / 10**6:.6f}" for number in range(1, 1500))

ROWS = [
    Row("rounds-exponent", (*RUN, "--rounds", "1e20"), says="is not a whole number"),
    Row(
        "rounds-beyond-int64", (*RUN, "--rounds", "99999999999999999999"), says="at most 2147483647"
    ),
    Row("rounds-beyond-int32", (*RUN, "--rounds", "2147483648"), says="at most 2147483647"),
    Row("rounds-thousands-of-digits", (*RUN, "--rounds", "9" * 5000), says="not a whole number"),
    Row("rounds-zero", (*RUN, "--rounds", "0"), says="at least 1"),
    Row("rounds-fraction", (*RUN, "--rounds", "2.5"), says="is not a whole number"),
    Row("rounds-text", (*RUN, "--rounds", "ten"), says="is not a whole number"),
    Row("rounds-empty", (*RUN, "--rounds", ""), says="is not a whole number"),
    Row("rounds-nan", (*RUN, "--rounds", "nan"), says="is not a whole number"),
    Row(
        "years",
        (*RUN, "--rounds", "2147483647", "--trials", "2147483647"),
        says="on this machine|is free",
    ),
    Row("trials-beyond", (*RUN, "--trials", "1000000000000"), says="at most 2147483647"),
    Row("trials-more-than-memory", (*RUN, "--trials", "2000000000"), says="is free|would take"),
    Row("trials-zero", (*RUN, "--trials", "0"), says="at least 1"),
    Row("trials-negative", (*RUN, "--trials", "-5"), says="at least 1"),
    Row("seed-negative", (*RUN, "--seed", "-1"), says="at least 0"),
    Row("seed-beyond-64", (*RUN, "--seed", "18446744073709551616"), says="at most 4294967295"),
    Row("seed-hexadecimal", (*RUN, "--seed", "0x7"), says="is not a whole number"),
    Row("batch-zero", (*RUN, "--batch", "0"), says="at least 1"),
    Row("batch-huge", (*RUN, "--batch", "1000000000000"), says="at most 2147483647"),
    Row("batch-text", (*RUN, "--batch", "auto"), says="is not a whole number"),
    Row("devices-zero", (*RUN, "--devices", "0"), says="at least 1"),
    Row("devices-many", (*RUN, "--devices", "1000000000"), says="devices must be at most"),
    Row("devices-text", (*RUN, "--devices", "both"), says="is not a whole number"),
    Row("devices-per-trial-zero", (*RUN, "--devices-per-trial", "0"), says="at least 1"),
    Row("devices-per-trial-huge", (*RUN, "--devices-per-trial", "1000000000000"), says="at most"),
    Row("memory-nan", (*RUN, "--memory", "nan"), says="above 0 GiB"),
    Row("memory-zero", (*RUN, "--memory", "0"), says="above 0 GiB"),
    Row("memory-infinite", (*RUN, "--memory", "inf"), says="above 0 GiB"),
    Row("memory-text", (*RUN, "--memory", "all"), says="is not a number"),
    Row("set-without-value", (*RUN, "--set", "rate"), says="must be NAME=VALUE"),
    Row("set-empty-value", (*RUN, "--set", "rate="), says="must be NAME=VALUE"),
    Row("set-empty-name", (*RUN, "--set", "=5"), says="must be NAME=VALUE"),
    Row("set-spaces-alone", (*RUN, "--set", " = "), says="must be NAME=VALUE"),
    Row("set-empty", (*RUN, "--set", ""), says="must be NAME=VALUE"),
    Row("set-twice", (*RUN, "--set", "rate=0.1", "--set", "rate=0.2"), says="gives rate twice"),
    Row(
        "set-twice-with-spaces",
        (*RUN, "--set", "rate=0.1", "--set", " rate = 0.1"),
        says="gives rate twice",
    ),
    Row("set-unknown", (*RUN, "--set", "speed=5"), says="has no setting"),
    Row("set-rounds", (*RUN, "--set", "rounds=5"), says="has no setting 'rounds'"),
    Row("set-nan", (*RUN, "--set", "rate=nan"), says="must be finite"),
    Row("set-infinite", (*RUN, "--set", "rate=1e999"), says="must be finite"),
    Row("set-text", (*RUN, "--set", "rate=fast"), says="must be a number"),
    Row("set-list-for-number", (*RUN, "--set", "rate=0.1,0.2"), says="must be a number"),
    Row("set-formula", (*RUN, "--set", "rate=1/4"), says="must be a number"),
    Row("set-bool", (*RUN, "--set", "clients=True"), says="must be a whole number"),
    Row("set-fraction", (*RUN, "--set", "clients=2.5"), says="must be a whole number"),
    Row(
        "set-whole-beyond",
        (*RUN, "--set", "clients=99999999999999999999"),
        says="at most 2147483647",
    ),
    Row(
        "set-whole-below",
        (*RUN, "--set", "clients=-99999999999999999999"),
        says="at least -2147483647",
    ),
    Row("set-memory", (*RUN, "--set", "clients=2000000000"), says="is free|larger than any memory"),
    Row("sweep-text", (*RUN, "--set", "share=low"), says="must be numbers with commas"),
    Row("sweep-gap", (*RUN, "--set", "share=0.1,,0.2"), says="must be numbers with commas"),
    Row("sweep-comma-last", (*RUN, "--set", "share=0.1,"), says="must be numbers with commas"),
    Row("sweep-nan", (*RUN, "--set", "share=0.1,nan"), says="must be finite"),
    Row("sweep-twice", (*RUN, "--set", "share=0.1,0.4,0.1"), says="each number once"),
    Row("sweep-signed-zeros", (*RUN, "--set", "share=0,-0.0"), says="each number once"),
    Row(
        "sweep-equal-in-float32",
        (*RUN, "--set", "share=0.1,0.10000000001"),
        says="which is .* in float32",
    ),
    Row("sweep-vanishes", (*RUN, "--set", "share=1e-300"), says="counts as 0 in float32"),
    Row("sweep-overflows", (*RUN, "--set", "share=1e300"), says="largest number of float32"),
    Row("sweep-of-thousands", (*RUN, "--set", f"share={SWEEP}"), says="at most 1000 numbers"),
    Row("sweep-range", (*RUN, "--set", "share=0.1:0.9"), says="must be numbers with commas"),
    Row(
        "half-width-vanishes",
        ("run", "fsmdm-outliers", "--quick", "--set", "half_width=1e-308"),
        says="half_width is too small",
        small=False,
    ),
    Row(
        "sensors-more-than-memory",
        ("run", "fsmdm-outliers", "--quick", "--set", "clients=1000000000"),
        says="is free",
        small=False,
    ),
    Row(
        "local-updates-for-weeks",
        ("run", "fsmdm-outliers", "--quick", "--set", "local_updates=1000000000"),
        says="days at least",
        small=False,
    ),
    Row(
        "omega-negative",
        ("run", "fsmdm-outliers", "--quick", "--set", "omega=-1"),
        says="omega must be greater than 0",
        small=False,
    ),
    Row(
        "probability-above-one",
        ("run", "fsmdm-outliers", "--quick", "--set", "probability=1.5"),
        says="at most 1",
        small=False,
    ),
    Row(
        "clusters-beyond",
        ("run", "hfsad-comparison", "--quick", "--set", "clusters=1000000000"),
        says="clusters times clients_per_cluster",
        small=False,
    ),
    Row(
        "dimensions-more-than-memory",
        ("run", "hfsad-comparison", "--quick", "--set", "dim=1000000000"),
        says="is free",
        small=False,
    ),
    Row(
        "start-unknown",
        ("run", "hfsad-comparison", "--quick", "--set", "start=best"),
        says="must be one of",
        small=False,
    ),
    Row(
        "chain-without-nodes",
        ("run", "nfl-chain", "--quick", "--set", "nodes=0"),
        says="at least 1",
        small=False,
    ),
    Row(
        "chain-weight-zero",
        ("run", "nfl-chain", "--quick", "--set", "weak=0"),
        says="greater than 0",
        small=False,
    ),
    Row(
        "star-without-dimensions",
        ("run", "nfl-star", "--quick", "--set", "dim=0"),
        says="at least 1",
        small=False,
    ),
    Row(
        "variant-unknown",
        ("run", "nfl-chain", "--quick", "--set", "variant=new"),
        says="must be one of",
        small=False,
    ),
    Row(
        "validation-all",
        ("run", "nfl-weather", "--quick", "--set", "validation=1"),
        says="at most 0.9",
        small=False,
    ),
    Row(
        "samples-more-than-memory",
        ("run", "zcdp-tau", "--quick", "--set", "samples=1000000000"),
        says="is free|larger than any memory",
        small=False,
    ),
    Row(
        "releases-by-the-million",
        ("run", "zcdp-tau", "--quick", "--rounds", "2000000000"),
        says="at most 1000000|days",
        small=False,
    ),
    Row("run-name-empty", ("run", ""), says="experiment", prepare=files),
    Row("show-name-empty", ("show", ""), says="experiment", prepare=files),
    Row("run-name-dot", ("run", "."), says="folder", prepare=files),
    Row("run-name-parent", ("run", "../x"), says="experiment", prepare=files),
    Row("show-name-parent", ("show", "../x"), says="experiment", prepare=files),
    Row("run-name-folder", ("run", "sub"), says="sub is a folder", prepare=files),
    Row("run-name-unicode", ("run", "expérience"), says="no experiment", prepare=files),
    Row("run-name-newline", ("run", "a\nb"), says="experiment", prepare=files),
    Row("run-name-null-file", ("run", "missing.py"), says="no file", prepare=files),
    Row("show-name-null-file", ("show", "missing.py"), says="no file", prepare=files),
    Row("run-name-file-folder", ("run", "folder.py"), says="is a folder", prepare=files),
    Row(
        "run-name-missing-variable",
        ("run", "own.py:NAME"),
        says="no experiment 'NAME'",
        prepare=files,
    ),
    Row("run-name-empty-variable", ("run", "own.py:"), says="no EXPERIMENT", prepare=files),
    Row("run-name-module-missing", ("run", "no.such.module:NAME"), says="no module", prepare=files),
    Row(
        "run-name-module-without", ("run", "json:NAME"), says="no experiment 'NAME'", prepare=files
    ),
    Row("run-name-number", ("run", "5"), says="no experiment", prepare=files),
    Row("run-name-url", ("run", "https://example.org/a.py"), says="no file", prepare=files),
    Row("run-name-home", ("run", "~/x.py"), says="no file", prepare=files),
    Row("run-name-binary", ("run", "binary.py"), says="cannot be imported", prepare=files),
    Row("run-name-exits", ("run", "exits.py"), says="cannot be imported", prepare=files),
    Row("run-name-raises", ("run", "raises.py"), says="cannot be imported", prepare=files),
    Row("run-name-very-long", ("run", "x" * 3000), says="experiment", prepare=files),
    Row("show-nothing", ("show",), says="Usage|Missing", usage=True),
    Row("show-two", ("show", "consensus", "other"), says="Usage|unexpected", usage=True),
    Row("list-something", ("list", "consensus"), says="Usage|unexpected", usage=True),
]
