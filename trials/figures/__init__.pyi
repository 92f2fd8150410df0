from fedjax_admm.trials.figures._captions import (
    figure_caption as figure_caption,
    titled_caption as titled_caption,
)
from fedjax_admm.trials.figures._choices import (
    BANDS as BANDS,
    PICTURES as PICTURES,
    FigureFiles as FigureFiles,
    FigureStyle as FigureStyle,
    figure_files as figure_files,
    figure_style as figure_style,
)
from fedjax_admm.trials.figures._curves import (
    cost_figure as cost_figure,
    curve_figure as curve_figure,
    curves_by_method_figure as curves_by_method_figure,
    progress_figure as progress_figure,
    usual_figure as usual_figure,
)
from fedjax_admm.trials.figures._differences import (
    differences_figure as differences_figure,
    paired_figure as paired_figure,
)
from fedjax_admm.trials.figures._lines import (
    SEPARATOR as SEPARATOR,
    everything as everything,
    with_methods as with_methods,
)
from fedjax_admm.trials.figures._messages import (
    bits_figure as bits_figure,
)
from fedjax_admm.trials.figures._printed import (
    printed_clouds as printed_clouds,
    printed_figure as printed_figure,
    printed_table as printed_table,
)
from fedjax_admm.trials.figures._saving import (
    picture_format as picture_format,
    save_figure as save_figure,
    save_picture as save_picture,
    svg_address as svg_address,
    write_figure as write_figure,
)
from fedjax_admm.trials.figures._style import (
    blank_figure as blank_figure,
    finish as finish,
    readable as readable,
)
from fedjax_admm.trials.figures._sweeps import (
    families_figure as families_figure,
    ladder_figure as ladder_figure,
    methods_figure as methods_figure,
    panels_figure as panels_figure,
    sweep_and_scatter_figure as sweep_and_scatter_figure,
    sweep_figure as sweep_figure,
)
from fedjax_admm.trials.figures._tasks import (
    attacks_figure as attacks_figure,
    coverage_figure as coverage_figure,
    delays_figure as delays_figure,
    peers_figure as peers_figure,
    task_curves_figure as task_curves_figure,
    task_sweep_figure as task_sweep_figure,
)
