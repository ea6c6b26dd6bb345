"""`dlio`: UNet3D and ResNet50 of DLIO, unmodified, from ext4 and then from the view.

They are scaled in size, not in kind: fewer and smaller files, the same format, batches, shuffling and loader, and computing time that asks the
machine for less. DLIO reads each sample whole, waits for the computing time of a batch, and prints the part of the time that an accelerator would
have been busy (AU). AU on ext4 says whether the machine can feed the scaled workload at all.
"""

import json
import os
import shutil
import subprocess
import sys

from . import bars as say
from .files import MIB
from .job import Job

AU_PERCENT = 90
RATIO = 0.91
NODES = 2
EPOCHS = 3

# 168 files of 146.6 MB (deviation 68.3 MB), batches of 7, computing 0.323 s a batch in the original.
UNET3D = {
    "dataset.num_files_train": 84,
    "dataset.record_length": 4 * MIB,
    "dataset.record_length_stdev": 2 * MIB,
    "dataset.record_length_resize": 2 * MIB // 4,
    "reader.read_threads": 2,
    "workflow.checkpoint": False,
}
# 1,024 files of 1,251 samples of 114.7 KB, batches of 400, computing 0.224 s a batch in the original.
RESNET50 = {
    "dataset.num_files_train": 32,
    "dataset.num_samples_per_file": 125,
    "reader.batch_size": 40,
    "reader.read_threads": 2,
    "reader.computation_threads": 2,
}


def options(parser):
    parser.add_argument("--dlio-python", type=os.path.abspath, help="the interpreter of a virtual environment with DLIO (bulk/dlio-setup.sh)")
    parser.add_argument("--unet3d-compute-s", type=float, default=0.12, help="computing time of a batch of 7")
    parser.add_argument("--resnet50-compute-s", type=float, default=0.05, help="computing time of a batch of 40")
    parser.add_argument("--dlio-pairs", type=int, default=3)


def run(given, bars):
    if not given.dlio_python:
        return say.tell("dlio: not run: no --dlio-python")
    one_model(given, bars, "unet3d_h100", {**UNET3D, "train.computation_time": given.unet3d_compute_s})
    one_model(given, bars, "resnet50_h100", {**RESNET50, "train.computation_time": given.resnet50_compute_s})


def one_model(given, bars, workload, settings):
    source = given.directory / workload
    say.title(f"dlio: {workload}, scaled: " + ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in settings.items()))
    dlio(given, workload, source, {**settings, "workflow.generate_data": True, "workflow.train": False})
    local, shown = [], []
    job = Job(given.forebay, given.directory, "dlio")
    for pair in range(given.dlio_pairs):
        for ours in [False, True] if pair % 2 == 0 else [True, False]:
            if ours:
                # A new job for each, so that the first epoch is cold.
                with job.up("--local", NODES, "--export", source, "--budget", "512MiB"):
                    shown.append(dlio(given, workload, job.view(1, source), settings))
            else:
                drop(source)
                local.append(dlio(given, workload, source, settings))
    shutil.rmtree(source)
    au, rate = (lambda runs: median(run["au"] for run in runs)), (lambda runs: median(run["rate"] for run in runs))
    ratios = [ours["rate"] / theirs["rate"] for theirs, ours in zip(local, shown)]
    bars.at_least(f"{workload}, AU from ext4", au(local), AU_PERCENT, " %", f"{rate(local):.1f} samples/s; by epochs {told(local)}")
    bars.at_least(f"{workload}, AU from the view", au(shown), AU_PERCENT, " %", f"{rate(shown):.1f} samples/s; by epochs {told(shown)}")
    bars.at_least(f"{workload}, samples/s from the view against ext4", median(ratios), RATIO, " x", f"{min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} alternating pairs")


def told(runs):
    """Medians of each epoch over the runs: a set that the kernel keeps is cold in the first alone."""
    return ", ".join(f"{median(values):.1f}" for values in zip(*(run["au_of_epochs"] for run in runs))) + " %"


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def drop(directory):
    """The kernel forgets what it has of a set, so that ext4 begins as cold as the view; dirty pages are written first."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def dlio(given, workload, folder, settings):
    """One run; AU in percent and samples a second, means of its epochs."""
    output = given.directory / "dlio-output"
    shutil.rmtree(output, ignore_errors=True)
    overrides = {"dataset.data_folder": folder, "train.epochs": EPOCHS, "output.folder": output, **settings}
    words = [given.dlio_python, "-c", "from dlio_benchmark.main import main; main()", f"workload={workload}", f"hydra.run.dir={output}"]
    words += [f"++workload.{key}={value}" for key, value in overrides.items()]
    # It looks for tfrecord2idx there.
    environment = {**os.environ, "PATH": f"{given.benches / 'bulk'}:{os.environ['PATH']}"}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=given.directory, env=environment)
    if done.returncode != 0:
        sys.exit(f"DLIO: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    summary = output / "summary.json"
    if not summary.exists():
        return None
    metric = json.loads(summary.read_text())["metric"]
    return {"au": metric["train_au_mean_percentage"], "rate": metric["train_throughput_mean_samples_per_second"], "au_of_epochs": metric["train_au_percentage"]}
