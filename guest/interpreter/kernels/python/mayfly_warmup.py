"""What the first cells of most programs need, done before a template's snapshot: modules imported,
fonts found, a figure drawn. Nothing of it is visible to a cell."""
import gc
import io

import mayfly_formats


def warm():
    import matplotlib.pyplot as plt
    import numpy
    import pandas

    shell = get_ipython()  # noqa: F821: a builtin of IPython's
    figure, axes = plt.subplots()
    axes.plot(numpy.arange(3), label="é")
    axes.set(title="t", xlabel="x (s)")
    axes.legend()
    mayfly_formats.chart(figure)
    figure.savefig(io.BytesIO(), format="png")
    plt.close(figure)
    shell.display_formatter.format(pandas.DataFrame({"a": [1.5, 2.5]}).describe())
    shell.execution_count = 0
    gc.collect()
    gc.freeze()  # these objects stay: the collector need not touch their pages
