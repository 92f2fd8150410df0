from fedjax_admm.trials.solve.localization._localization import (
    draw_location as draw_location,
    locate as locate,
    read_ranges as read_ranges,
    report as report,
)
