"""What results are shown as beyond what IPython knows: DataFrames as data, figures as charts, lists
and dicts as JSON."""
import dataclasses
import datetime
import enum
import json
import math
import uuid

from IPython.core.formatters import BaseFormatter
from jupyter_client.jsonutil import json_clean, json_default
from traitlets import ObjectName, Unicode

CELLS_MAX = 200_000  # of a table: larger ones have their HTML and text only
JSON_MAX = 4_000_000  # characters
INTEGERS = range(-(2**63), 2**63)  # that the interpreter reads


class DataFormatter(BaseFormatter):
    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = dict


class ChartFormatter(BaseFormatter):
    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = dict

    def __call__(self, value):
        # By class, not by registration: matplotlib's inline backend removes what is registered.
        if is_figure(value):
            return chart(value)
        return super().__call__(value)


def is_figure(value):
    return any(
        (c.__module__, c.__name__) == ("matplotlib.figure", "Figure") for c in type(value).__mro__
    )


def plain(value):
    """A value as JSON has it: numbers, texts, true, false, null."""
    if hasattr(value, "isoformat"):  # also of pandas: NaT has it, and gives "NaT"
        text = value.isoformat()
        return None if text == "NaT" else text
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()  # of numpy
    if isinstance(value, int) and value not in INTEGERS:
        value = float(value) if abs(value) < 2**1000 else str(value)
    if isinstance(value, str):
        return encodable(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.timedelta):
        return str(value)
    return str(value)


def encodable(text):
    """Without surrogates, which UTF-8 has not."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def is_missing(value):
    return type(value).__name__ in ("NAType", "NaTType")


def table(frame):
    """{column: [values]}, or None when it is too large for that."""
    if frame.size > CELLS_MAX:
        return None
    return {
        encodable(str(frame.columns[i])): [None if is_missing(v) else plain(v) for v in frame.iloc[:, i]]
        for i in range(len(frame.columns))
    }


def integer(text):
    value = int(text)
    if value not in INTEGERS:
        raise ValueError
    return value


def members(pairs):
    if any("\0" in key for key, _ in pairs):
        raise ValueError
    return dict(pairs)


class Known:
    """Makes values that json knows of others that E2B's kernel also shows: dates, UUIDs, enumerations, dataclasses,
    numpy's."""

    def __init__(self):
        self.left = JSON_MAX // 2  # of numbers in arrays, each of which takes two characters at least

    def __call__(self, value):
        if isinstance(value, (datetime.date, datetime.time)):
            return plain(value)
        if isinstance(value, uuid.UUID):
            return str(value)
        if isinstance(value, enum.Enum):
            return value.value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
            return self.numbers(value, value.dtype.kind)
        raise TypeError

    def numbers(self, array, kind):
        if kind not in "biufM":
            raise TypeError
        self.left -= array.size
        if self.left < 0:
            raise ValueError
        return (array.astype("datetime64[us]") if kind == "M" else array).tolist()


def with_known_keys(value):
    if isinstance(value, dict):
        return {k if k is None or isinstance(k, (str, int, float)) else Known()(k): with_known_keys(v)
                for k, v in value.items()}
    return [with_known_keys(v) for v in value] if isinstance(value, (list, tuple)) else value


def as_text(value):
    try:
        return json.dumps(value, default=Known())
    except TypeError:  # perhaps because of a key
        return json.dumps(with_known_keys(value), default=Known())


def as_json(value):
    """The list or dict itself if JSON can say it and the interpreter can read it, else nothing. Numbers that are none
    are null."""
    try:
        text = as_text(value)
        if len(text) > JSON_MAX:
            return None
        value = json.loads(
            text, parse_int=integer, parse_constant=lambda _: None, object_pairs_hook=members)
        if "\\ud" in text:  # perhaps half a pair
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except (TypeError, ValueError, RecursionError):
        return None


def pack(message):
    """As jupyter_client does, but what UTF-8 has not becomes a question mark and does not keep the message
    from being sent."""
    options = {"default": json_default, "ensure_ascii": False, "allow_nan": False}
    try:
        text = json.dumps(message, **options)
    except (TypeError, ValueError):
        text = json.dumps(json_clean(message), **options)
    return text.encode("utf-8", "replace")


def chart(figure):
    """A chart that cannot be understood must not cost the image."""
    import mayfly_charts  # with matplotlib, which most kernels never need

    try:
        return mayfly_charts.describe(figure, plain)
    except Exception:
        return None


def register(shell):
    formatters = shell.display_formatter.formatters
    for formatter in (
        DataFormatter(parent=shell.display_formatter),
        ChartFormatter(parent=shell.display_formatter),
    ):
        formatters[formatter.format_type] = formatter
    formatters["e2b/data"].for_type_by_name("pandas.core.frame", "DataFrame", table)
    for kind in (list, dict):
        formatters["application/json"].for_type(kind, as_json)
