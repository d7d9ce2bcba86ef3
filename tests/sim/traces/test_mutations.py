"""Every trace, however broken, loads or is rejected with clear messages."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.traces.trace_files import FILES, OPENB, write_files
from trimtab.config.diagnostics import ConfigError
from trimtab.sim.traces import FORMATS
from trimtab.sim.traces.options import TraceOptions

PLANETLAB = {"20110303.csv": "vm,cpu_pct\n" + "".join(f"m{each},{'5 ' * 288}\n" for each in range(4))}
SETS = {"trace": FILES, "openb": OPENB, "planetlab": PLANETLAB}
PIECES = st.one_of(
    st.binary(max_size=4),
    st.sampled_from([b"\n", b",", b'"', b"nan", b"-1", b"1e400", b"inf", b"\r", b"\0", b"9" * 30, b"-", b"{", b"0"]),
)


def answered(kind: str, options: TraceOptions) -> bool:
    """Whether the trace loads; any other exception, or a problem without a message, is a failure."""
    try:
        FORMATS[kind].load(options, 1)
    except ConfigError as error:
        assert error.problems
        assert all(problem.message and str(problem).isprintable() for problem in error.problems)
        return False
    return True


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_bytes_exchanged(data: st.DataObject) -> None:
    """Files with a few bytes replaced, or cut short, plain or compressed."""
    with TemporaryDirectory() as name:
        exchange_bytes(data, Path(name))


def exchange_bytes(data: st.DataObject, folder: Path) -> None:
    kind = data.draw(st.sampled_from(sorted(SETS)))
    write_files(folder, SETS[kind])
    name = data.draw(st.sampled_from(sorted(SETS[kind])))
    content = SETS[kind][name].encode()
    at = data.draw(st.integers(0, len(content)))
    gone = data.draw(st.integers(0, 12))
    (folder / name).write_bytes(content[:at] + data.draw(PIECES) + content[at + gone :])
    if data.draw(st.booleans()) and name.endswith(".csv"):
        packed = gzip.compress((folder / name).read_bytes())
        (folder / name).unlink()
        (folder / f"{name}.gz").write_bytes(packed[: data.draw(st.integers(0, len(packed)))])
    scale = data.draw(st.sampled_from([1.0, 0.0, 0.5, 1000.0]))
    options = TraceOptions(folder, requests=scale, usage=scale, shuffle_usage=1, stagger=600.0, labels=True)
    answered(kind, options)


def test_the_files_themselves_are_good(tmp_path: Path) -> None:
    """Otherwise the test above would prove little."""
    for kind, files in SETS.items():
        assert answered(kind, TraceOptions(write_files(tmp_path / kind, files)))
