"""Where the time of a run goes: traces, counted operations, measured rates.

    with recording(folder):                       a trace of what lies in between, for Perfetto
        run_one_chunk()
    counts = count_operations(trial, key).times(trials)     arithmetic and bytes, by a model
    rates = machine_rates(*mesh.devices.flat)     what the machine reaches, measured
    print(table(Profile(..., counts=counts, rates=rates)))

Operations are counted by a model, not by hardware counters.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
