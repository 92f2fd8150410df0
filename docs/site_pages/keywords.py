"""Words that people search for, and the section that answers: the first hit of the site's search.

The index directive stands in no page, because the pages are read in the repository, too.
"""

KEYWORDS = {  # page -> heading, "" for the title -> words
    "howto/own-problem": {
        "": ["own loss", "custom loss", "federated learning"],
        "A loss, data, a start": ["minibatch", "batch size"],
        "Measures, and stopping": ["stopping criterion", "early stopping", "tolerance"],
    },
    "howto/which-solver": {
        "": ["choosing a solver", "which solver"],
        "Which method when": ["partial participation"],
    },
    "howto/symptoms": {"": ["error", "diverges", "not finite"]},
    "howto/messages": {
        "Aggregators": ["robust aggregation", "trimmed mean", "median"],
        "Attacks": ["Byzantine", "attack"],
        "Compressors": ["compression", "quantisation", "quantization"],
        "Delays": ["asynchronous", "delay", "stale"],
    },
    "howto/privacy": {
        "": ["privacy", "differential privacy", "DP-SGD"],
        "The accountant (`fedjax_admm.privacy.accountant`)": ["accountant", "epsilon"],
    },
    "howto/localization": {
        "": ["UWB", "tracking", "trilateration", "multilateration"],
        "Which region to take": ["interval", "confidence interval", "confidence region", "ellipse"],
    },
    "howto/devices": {"": ["GPU", "multi-GPU", "TPU", "cluster"]},
    "howto/interrupted-runs": {"Interruptions": ["resume", "interrupted"]},
    "howto/checkpoints": {"": ["checkpoint", "Orbax"]},
    "howto/batch-norm": {"": ["batch norm", "dropout"]},
    "howto/frameworks": {"": ["Flax", "Equinox", "Haiku", "PyTorch"]},
    "explanation/averaging": {"": ["FedAvg", "FedProx", "federated averaging"]},
    "explanation/personal_models": {"": ["personalisation", "personalization", "Ditto"]},
    "start": {"Install": ["install", "installation", "pip"]},
}


def add_keywords(app, page: str, source: list[str]) -> None:
    """Put the words of a page into the index, below their headings."""
    for heading, words in KEYWORDS.get(page, {}).items():
        lines = source[0].split("\n")
        found = "# " if heading == "" else f"## {heading}"
        at = next(i for i, line in enumerate(lines) if line.startswith(found))
        entries = ", ".join(f"! {word}" for word in words)
        lines.insert(at + 1, f"\n```{{index}} {entries}\n```")
        source[0] = "\n".join(lines)
