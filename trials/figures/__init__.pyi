from fedjax_admm.trials.figures._plots import (
    cost_figure as cost_figure,
    curve_figure as curve_figure,
    curves_by_method_figure as curves_by_method_figure,
    families_figure as families_figure,
    finish as finish,
    ladder_figure as ladder_figure,
    methods_figure as methods_figure,
    panels_figure as panels_figure,
    progress_figure as progress_figure,
    save_figure as save_figure,
    score_figure as score_figure,
    sweep_and_scatter_figure as sweep_and_scatter_figure,
    sweep_figure as sweep_figure,
)
from fedjax_admm.trials.figures._tasks import (
    task_curves_figure as task_curves_figure,
    task_sweep_figure as task_sweep_figure,
)
