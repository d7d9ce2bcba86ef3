"""Small traces for these tests, and where the public ones are."""

import gzip
import os
from pathlib import Path
from typing import Any

from trimtab.config.diagnostics import ConfigError
from trimtab.sim.scenario import Scenario
from trimtab.sim.traces import FORMATS
from trimtab.sim.traces.options import TraceOptions

# Public traces, which are not part of the project; TRIMTAB_TRACES may name another folder.
PUBLIC = Path(os.environ.get("TRIMTAB_TRACES") or Path(__file__).parents[4] / "shared" / "data")

META = '{"name": "tiny", "step_seconds": 300, "steps": 4, "suggested_warmup_steps": 1, "nodes": 2, "pods": 3}'
NODES = "node,cpu_milli,memory_mib\nn1,4000,8192\nn2,8000,16384\n"
PODS = """\
pod,app,cpu_request_milli,memory_request_mib,cpu_limit_milli,memory_limit_mib,arrival_s,departure_s,initial_node
a-1,a,500,100,1000,200,10,,n1
a-2,a,500,100,1000,200,20,700,n2
b-1,b,1000,200,2000,400,650,1190,
"""
USAGE = """\
pod,first_step,cpu_milli,memory_mib
a-1,0,100 200 300 400,10 20 30 40
a-2,0,100 -1 300,50 50 50
b-1,2,1500 1600,300 400
"""
FILES = {"meta.json": META, "nodes.csv": NODES, "pods.csv": PODS, "usage.csv": USAGE}

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\ng1,32000,65536,2,T4\ng2,64000,131072,8,G2\nplain,64000,131072,0,\n"
OPENB_PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,1000,1024,1,500,
p1,2000,2048,2,1000,T4|G2|T4
p2,3000,4096,0,0,
"""
OPENB = {"nodes.csv": OPENB_NODES, "pods_default.csv": OPENB_PODS}


def write_files(folder: Path, files: dict[str, str]) -> Path:
    """The folder with these files; a name with .gz is compressed."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder


def load(kind: str, folder: Path, seed: int = 0, **options: Any) -> Scenario:
    """The trace in this folder, with these options."""
    return FORMATS[kind].load(TraceOptions(folder, **options), seed)


def problems_of(kind: str, folder: Path, **options: Any) -> list[str]:
    """The problems of a trace, without the folder."""
    try:
        load(kind, folder, **options)
    except ConfigError as error:
        return [str(problem).replace(f"{folder}/", "").replace(str(folder), "FOLDER") for problem in error.problems]
    return []
