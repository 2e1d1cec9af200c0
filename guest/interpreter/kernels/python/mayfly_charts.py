"""Charts out of matplotlib figures: what was plotted, as data (protocol section 4.5).

Everything is read from the artists that matplotlib's public interface gives: a figure has axes, axes
have lines, collections, patches and containers, and what kind of chart an axes is follows from which
of these it holds. The kinds are tried in the order of KINDS; each returns its elements, or nothing
when the axes is not of that kind. Charts that lie (barh) are described as if they stood: x is the axis
of the categories."""
import datetime
import itertools
import re

import numpy
from matplotlib import dates
from matplotlib.category import StrCategoryFormatter
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, Wedge
from matplotlib.ticker import FixedFormatter, FuncFormatter

POINTS_MAX = 50_000  # of an axes: more are an image only

UNIT = re.compile(r"\s\(([^)]+)\)|\[([^\]]+)\]")  # "f(x)" has none
UNNAMED = re.compile(r"_(?:child|container)(\d+)")  # matplotlib counts what has no label
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
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        kind = type(converter).__name__
        # pandas draws a time series of even steps in periods: numbers of steps since 1970
        self.period = getattr(axis, "freq", None) if kind == "PeriodConverter" else None
        self.is_date = (
            self.period is not None
            or "date" in kind.lower()
            or isinstance(axis.get_major_locator(), dates.DateLocator)
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
        return (found.group(1) or found.group(2)).strip() if found else None

    @property
    def scale(self):
        if self.is_date:
            return "datetime"
        if self.categories:
            return "categorical"
        scale = self.axis.get_scale()
        return scale if scale in SCALES else "linear"

    def value(self, number, given=None):
        """What a coordinate stands for; given: what the program gave for it, if that is known."""
        if not numpy.isfinite(number):
            return None
        if isinstance(given, datetime.date):  # with its time zone; a date without a time stays one
            return given.isoformat()
        if self.period is not None:
            return period_start(int(number), self.period).isoformat()
        if self.is_date:
            return dates.num2date(number).replace(tzinfo=None).isoformat()
        if self.categories and number in self.categories:
            return self.categories[number]
        return self.plain(number)

    def tick(self, number):
        if self.is_date and self.period is None:
            return dates.num2date(number).isoformat()
        return self.plain(number) if self.categories else self.value(number)

    def describe(self, name):
        ticks = self.axis.get_ticklocs()
        labels = self.axis.get_major_formatter().format_ticks(ticks) if len(ticks) else []
        return {
            f"{name}_label": self.label,
            f"{name}_unit": self.unit,
            f"{name}_ticks": [self.tick(t) for t in ticks],
            f"{name}_tick_labels": [str(t) for t in labels],
            f"{name}_scale": self.scale,
        }


def period_start(ordinal, freq):
    import pandas  # loaded already where there are periods

    return pandas.Period(ordinal=ordinal, freq=freq).to_timestamp()


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

    def labels(self, lying):
        x, y = (self.y, self.x) if lying else (self.x, self.y)
        return {"x_label": x.label, "y_label": y.label, "x_unit": x.unit, "y_unit": y.unit}

    def points(self, xs, ys, given_xs=itertools.repeat(None), given_ys=itertools.repeat(None)):
        return [[self.x.value(x, given_x), self.y.value(y, given_y)]
                for x, y, given_x, given_y in zip(xs, ys, given_xs, given_ys)]


def name_of(artist, fallback):
    label = str(artist.get_label() or "")
    return fallback if not label or label.startswith("_") else label


def name_or_number(artist, kind, number):
    """As matplotlib counts, else number."""
    unnamed = UNNAMED.fullmatch(str(artist.get_label()))
    return name_of(artist, f"{kind} {unnamed.group(1) if unnamed else number}")


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
            "angle": degrees(wedge),
            "radius": plot.plain(wedge.r),
        })
    return {"type": "pie", "elements": elements}


def degrees(wedge):
    """pie() counts in 32-bit fractions of the circle: beyond 4 digits there is noise."""
    return round(abs(float(wedge.theta2 - wedge.theta1)), 4)


def boxes(plot):
    """Boxes as boxplot draws them: known by whiskers and median, as outlines differ or are missing. A box
    that is drawn over itself is one."""
    upright = [line.get_xydata() for line in plain_lines(plot)]
    lying = [xy[:, ::-1] for xy in upright]
    found = {}
    for i in range(len(upright)):
        for axis, drawn in ((plot.x, upright), (plot.y, lying)):
            element = box_element(axis, drawn[i:i + 8])
            if element:
                found[drawn[i][0, 0], repr(element)] = axis, element
                break
    if not found:
        return None
    axes, elements = zip(*found.values())
    return {"type": "box_and_whisker", "elements": list(elements), **plot.labels(plot.x not in axes)}


def box_element(axis, drawn):
    """The box that is drawn from here on: two whiskers, then level lines (two caps or none, the median, a
    mean or none), then points (a mean or none, the outliers). Each is of (across, along) pairs; `axis` is
    the one across."""
    whiskers = drawn[:2]
    if [len(w) for w in whiskers] != [2, 2]:
        return None
    center = whiskers[0][0, 0]
    (first, low), (third, high) = (w[:, 1] for w in whiskers)
    levels = leading(drawn[2:6], lambda xy: is_level(xy, center))
    if not levels or not all((w[:, 0] == center).all() for w in whiskers):
        return None
    median = levels[2 if len(levels) > 2 else 0][0, 1]
    if (numpy.diff([low, first, median, third, high]) < 0).any():
        return None

    rest = drawn[2 + len(levels):]
    points = leading(rest[:2], lambda xy: (xy[:, 0] == center).all())
    outliers = [v for v in points[-1][:, 1] if v < low or v > high] if points else []
    return {
        "label": tick_label(axis, center),
        "min": axis.plain(low),
        "first_quartile": axis.plain(first),
        "median": axis.plain(median),
        "third_quartile": axis.plain(third),
        "max": axis.plain(high),
        "outliers": [axis.plain(v) for v in outliers],
    }


def leading(items, wanted):
    return list(itertools.takewhile(wanted, items))


def is_level(xy, center):
    """Whether a line goes straight across a center; of a box without values it is at NaN."""
    return (
        len(xy) == 2
        and numpy.array_equal(xy[0, 1], xy[1, 1], equal_nan=True)
        and xy[:, 0].min() < center < xy[:, 0].max()
    )


def tick_label(axis, position):
    """The text of the tick at a position, else its number."""
    ticks = numpy.asarray(axis.axis.get_ticklocs(), dtype=float)
    formatter = axis.axis.get_major_formatter()
    if len(ticks) and numpy.isfinite(position):
        nearest = numpy.abs(ticks - position).argmin()
        label = str(formatter.format_ticks(ticks)[nearest])
        is_there = numpy.isclose(ticks[nearest], position) or (
            abs(ticks[nearest] - position) < spacing(ticks) / 2 and has_texts_alone(formatter, position))
        if label and is_there:
            return label
    value = axis.value(position)
    return None if value is None else str(value)


def spacing(ticks):
    return numpy.diff(numpy.unique(ticks)).min(initial=numpy.inf)


def has_texts_alone(formatter, position):
    """Whether ticks have set texts, and what is between them none of its own: bars of a group share one."""
    if isinstance(formatter, FuncFormatter):  # set_ticklabels makes one that knows its ticks alone
        return formatter.format_ticks([position]) == [""]
    return isinstance(formatter, (FixedFormatter, StrCategoryFormatter))


def bars(plot):
    containers = [
        c for c in plot.axes.containers
        if isinstance(c, BarContainer) and c.patches and isinstance(c.patches[0], Rectangle)
    ]
    if not containers:
        return None
    elements = []
    for number, container in enumerate(containers):
        group = name_or_number(container, "Group", number)
        flat = container.orientation == "horizontal"
        axis = plot.y if flat else plot.x
        for index, bar in enumerate(container.patches):
            middle = bar.get_y() + bar.get_height() / 2 if flat else (
                bar.get_x() + bar.get_width() / 2)
            elements.append({
                "label": tick_label(axis, middle) or str(index + 1),
                "group": group,
                "value": plot.plain(bar.get_width() if flat else bar.get_height()),
            })
    lying = containers[0].orientation == "horizontal"
    return {"type": "bar", "elements": elements, **plot.labels(lying)}


def series(plot, label, *coordinates):
    return {"label": label, "points": plot.points(*coordinates)}


def scatters(plot):
    found = [c for c in plot.axes.collections if isinstance(c, PathCollection)]
    dots = [line for line in plain_lines(plot) if line.get_linestyle() in ("None", " ", "")]
    lines = [line for line in plain_lines(plot) if line not in dots]
    if not found and not (dots and not lines):
        return None
    elements = []
    for c in found:
        offsets = numpy.ma.filled(numpy.ma.asarray(c.get_offsets(), dtype=float), numpy.nan)
        elements.append(series(plot, name_or_number(c, "Group", len(elements)),
                               offsets[:, 0], offsets[:, 1]))
    for line in dots:
        elements.append(line_series(plot, line, "Group", len(elements)))
    return {"type": "scatter", "elements": elements, **ticks_of(plot)}


def plain_lines(plot):
    """Lines of data: no reference lines (axhline), which are drawn in other coordinates."""
    data = plot.axes.transData
    return [l for l in plot.axes.lines if isinstance(l, Line2D) and l.get_transform() == data]


def given(numbers, data):
    """What a program gave for each number; matplotlib repeats single values."""
    return data if len(data) == len(numbers) else itertools.repeat(None)


def line_series(plot, line, kind, number):
    # orig=False: numbers, with dates and categories converted
    xs, ys = line.get_xdata(orig=False), line.get_ydata(orig=False)
    return series(plot, name_or_number(line, kind, number), xs, ys,
                  given(xs, line.get_xdata()), given(ys, line.get_ydata()))


def lines(plot):
    found = plain_lines(plot)
    if not found:
        return None
    return {
        "type": "line",
        "elements": [line_series(plot, l, "Line", i) for i, l in enumerate(found)],
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
