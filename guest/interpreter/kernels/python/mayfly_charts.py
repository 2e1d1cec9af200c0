"""Charts out of matplotlib figures: what was plotted, as data (protocol section 4.5).

Everything is read from the artists that matplotlib's public interface gives: a figure has axes, axes
have lines, collections, patches and containers, and what kind of chart an axes is follows from which
of these it holds. The kinds are tried in the order of KINDS; each returns its elements, or nothing
when the axes is not of that kind."""
import re

import numpy
from matplotlib import dates
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle, Wedge

POINTS_MAX = 50_000  # of an axes: more are an image only

UNIT = re.compile(r"[(\[]([^()\[\]]+)[)\]]\s*$")
SCALES = {
    "linear", "datetime", "categorical", "log", "symlog", "logit", "function", "functionlog",
    "asinh",
}


class Axis:
    """One axis of an axes: its label, unit, scale, ticks and the meaning of its numbers."""

    def __init__(self, axis, plain):
        self.axis = axis
        self.plain = plain
        self.categories = self._categories()
        self.is_date = isinstance(axis.get_converter(), (dates.DateConverter,)) or isinstance(
            axis.get_major_locator(), dates.DateLocator
        ) if hasattr(axis, "get_converter") else self._has_dates()

    def _has_dates(self):
        converter = self.axis.converter
        return isinstance(self.axis.get_major_locator(), dates.DateLocator) or (
            converter is not None and "date" in type(converter).__name__.lower()
        )

    def _categories(self):
        mapping = getattr(self.axis.units, "_mapping", None)
        return {position: text for text, position in mapping.items()} if mapping else {}

    @property
    def label(self):
        return self.axis.get_label_text() or None

    @property
    def unit(self):
        found = UNIT.search(self.axis.get_label_text())
        return found.group(1).strip() if found else None

    @property
    def scale(self):
        if self.is_date:
            return "datetime"
        if self.categories:
            return "categorical"
        scale = self.axis.get_scale()
        return scale if scale in SCALES else "linear"

    def value(self, number):
        """What a coordinate stands for."""
        if self.is_date and isinstance(number, (int, float, numpy.number)):
            return dates.num2date(number).replace(tzinfo=None).isoformat()
        if self.categories and number in self.categories:
            return self.categories[number]
        return self.plain(number)

    def describe(self, name):
        ticks = [t for t in self.axis.get_ticklocs() if self._in_view(t)]
        labels = self.axis.get_major_formatter().format_ticks(ticks) if len(ticks) else []
        return {
            f"{name}_label": self.label,
            f"{name}_unit": self.unit,
            f"{name}_ticks": [self.value(t) for t in ticks],
            f"{name}_tick_labels": [str(t) for t in labels],
            f"{name}_scale": self.scale,
        }

    def _in_view(self, tick):
        low, high = sorted(self.axis.get_view_interval())
        return low <= tick <= high


class Plot:
    """One axes, and what the kinds of charts ask of it."""

    def __init__(self, axes, plain):
        self.axes = axes
        self.plain = plain
        self.x = Axis(axes.xaxis, plain)
        self.y = Axis(axes.yaxis, plain)

    @property
    def title(self):
        return self.axes.get_title() or None

    def labels(self):
        return {
            "x_label": self.x.label, "y_label": self.y.label,
            "x_unit": self.x.unit, "y_unit": self.y.unit,
        }

    def points(self, xs, ys):
        return [[self.x.value(x), self.y.value(y)] for x, y in zip(xs, ys)]


def name_of(artist, fallback):
    label = str(artist.get_label() or "")
    return fallback if not label or label.startswith("_") else label


def pies(plot):
    wedges = [p for p in plot.axes.patches if isinstance(p, Wedge)]
    if not wedges:
        return None
    elements = []
    texts = [t.get_text() for t in plot.axes.texts]
    per_wedge = 2 if len(texts) >= 2 * len(wedges) else 1  # with autopct
    for i, wedge in enumerate(wedges):
        text = texts[i * per_wedge] if i * per_wedge < len(texts) else ""
        elements.append({
            "label": name_of(wedge, text),
            "angle": abs(plot.plain(wedge.theta2 - wedge.theta1)),
            "radius": plot.plain(wedge.r),
        })
    return {"type": "pie", "elements": elements}


def box_of(plot, path, is_vertical):
    """The corners of a box: (center, first quartile, third quartile)."""
    along, across = (1, 0) if is_vertical else (0, 1)
    vertices = path.vertices[:5]
    return (
        (vertices[:, across].min() + vertices[:, across].max()) / 2,
        vertices[:, along].min(),
        vertices[:, along].max(),
    )


def box_paths(plot):
    """Boxes as boxplot draws them: closed lines of five points, or patches."""
    for patch in plot.axes.patches:
        if isinstance(patch, PathPatch) and len(patch.get_path().vertices) in (5, 6):
            yield patch, patch.get_path()
    for line in plot.axes.lines:
        xy = line.get_xydata()
        if len(xy) == 5 and (xy[0] == xy[4]).all() and len(numpy.unique(xy, axis=0)) == 4:
            yield line, line.get_path()


def is_level(values):
    return len(values) == 2 and values[0] == values[1]


def boxes(plot):
    found = list(box_paths(plot))
    if not found or not plot.axes.lines:
        return None
    spread = numpy.array([numpy.ptp(path.vertices[:5], axis=0) for _, path in found])
    # boxes stand beside each other with equal widths
    is_vertical = len(set(numpy.round(spread[:, 0], 9))) == 1 and not (
        len(found) == 1 and plot.axes.get_yticklabels() and _single_is_flat(plot, found[0][1])
    )
    elements = [box_element(plot, path, is_vertical, i) for i, (_, path) in enumerate(found)]
    return {"type": "box_and_whisker", "elements": [e for e in elements if e]}


def _single_is_flat(plot, path):
    """Whether one box alone lies: its median runs along y."""
    vertices = path.vertices[:5]
    x0, x1 = vertices[:, 0].min(), vertices[:, 0].max()
    y0, y1 = vertices[:, 1].min(), vertices[:, 1].max()
    for line in plot.axes.lines:
        xs, ys = line.get_xdata(), line.get_ydata()
        if len(xs) == 2 and xs[0] == xs[1] and x0 <= xs[0] <= x1 and set(ys) == {y0, y1}:
            return True
    return False


def box_element(plot, path, is_vertical, index):
    center, first, third = box_of(plot, path, is_vertical)
    half = numpy.ptp(path.vertices[:5, 0 if is_vertical else 1]) / 2
    ends, medians, outliers = [], [], []
    for line in plot.axes.lines:
        across, along = line.get_xydata().T if is_vertical else line.get_xydata().T[::-1]
        if not len(across) or abs(numpy.mean(across) - center) > half:
            continue
        if line.get_linestyle() == "None":
            outliers += [plot.plain(v) for v in along]
        elif is_level(across):
            ends += list(along)  # whiskers run along
        elif is_level(along) and numpy.isclose(numpy.ptp(across), 2 * half):
            medians.append(along[0])
    axis = plot.x if is_vertical else plot.y
    return {
        "label": tick_label(axis, center, index),
        "min": plot.plain(min(ends, default=first)),
        "first_quartile": plot.plain(first),
        "median": plot.plain(medians[0]) if medians else None,
        "third_quartile": plot.plain(third),
        "max": plot.plain(max(ends, default=third)),
        "outliers": outliers,
    }


def tick_label(axis, position, index):
    """The text of the tick at a position, else its number."""
    ticks = list(axis.axis.get_ticklocs())
    labels = axis.axis.get_major_formatter().format_ticks(ticks) if ticks else []
    for tick, label in zip(ticks, labels):
        if numpy.isclose(tick, position) and str(label):
            return str(label)
    value = axis.value(position)
    return str(value) if value is not None else str(index + 1)


def bars(plot):
    containers = [
        c for c in plot.axes.containers
        if isinstance(c, BarContainer) and c.patches and isinstance(c.patches[0], Rectangle)
    ]
    if not containers:
        return None
    elements = []
    for number, container in enumerate(containers, 1):
        group = name_of(container, f"Group {number}" if len(containers) > 1 else "Group 1")
        flat = container.orientation == "horizontal"
        axis = plot.y if flat else plot.x
        for index, bar in enumerate(container.patches):
            middle = bar.get_y() + bar.get_height() / 2 if flat else (
                bar.get_x() + bar.get_width() / 2)
            elements.append({
                "label": tick_label(axis, middle, index),
                "group": group,
                "value": plot.plain(bar.get_width() if flat else bar.get_height()),
            })
    return {"type": "bar", "elements": elements}


def series(plot, label, xs, ys):
    return {"label": label, "points": plot.points(xs, ys)}


def scatters(plot):
    found = [c for c in plot.axes.collections if isinstance(c, PathCollection)]
    dots = [line for line in plain_lines(plot) if line.get_linestyle() in ("None", " ", "")]
    lines = [line for line in plain_lines(plot) if line not in dots]
    if not found and not (dots and not lines):
        return None
    elements = []
    for c in found:
        offsets = numpy.ma.filled(numpy.ma.asarray(c.get_offsets(), dtype=float), numpy.nan)
        elements.append(series(plot, name_of(c, f"Group {len(elements) + 1}"),
                               offsets[:, 0], offsets[:, 1]))
    for line in dots:
        elements.append(line_series(plot, line, f"Group {len(elements) + 1}"))
    return {"type": "scatter", "elements": elements, **ticks_of(plot)}


def plain_lines(plot):
    """Lines of data: no reference lines (axhline), which are drawn in other coordinates."""
    data = plot.axes.transData
    return [l for l in plot.axes.lines if isinstance(l, Line2D) and l.get_transform() == data]


def line_series(plot, line, fallback):
    # orig=False: numbers, with dates and categories converted
    return series(plot, name_of(line, fallback), line.get_xdata(orig=False),
                  line.get_ydata(orig=False))


def lines(plot):
    found = plain_lines(plot)
    if not found:
        return None
    return {
        "type": "line",
        "elements": [line_series(plot, l, f"Line {i}") for i, l in enumerate(found, 1)],
        **ticks_of(plot),
    }


def ticks_of(plot):
    return {**plot.x.describe("x"), **plot.y.describe("y")}


KINDS = (pies, boxes, bars, scatters, lines)


def is_blank(axes):
    return not (axes.lines or axes.collections or axes.patches or axes.images or axes.containers)


def size_of(axes):
    return sum(len(l.get_xdata(orig=False)) for l in axes.lines) + sum(
        len(c.get_offsets()) for c in axes.collections if isinstance(c, PathCollection)
    ) + len(axes.patches)


def describe_axes(axes, plain):
    plot = Plot(axes, plain)
    found = None
    if size_of(axes) <= POINTS_MAX:
        found = next((c for c in (kind(plot) for kind in KINDS) if c), None)
    if not found:
        return {"type": "unknown", "title": plot.title, "elements": []}
    if found["type"] in ("bar", "box_and_whisker"):
        found.update(plot.labels())
    return {"type": found.pop("type"), "title": plot.title, **found}


def is_colorbar(axes):
    return axes.get_label() == "<colorbar>"


def describe(figure, plain):
    """A figure's chart; {} for one on which nothing was plotted."""
    axes = [a for a in figure.axes if not is_colorbar(a) and not is_blank(a)]
    if not axes:
        return {}
    charts = [describe_axes(a, plain) for a in axes]
    if len(charts) == 1:
        chart = charts[0]
        if not chart["title"] and figure._suptitle:
            chart["title"] = figure._suptitle.get_text() or None
        return chart
    title = figure._suptitle.get_text() if figure._suptitle else None
    return {"type": "superchart", "title": title or None, "elements": charts}
