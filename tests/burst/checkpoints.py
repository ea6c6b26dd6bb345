"""Writes checkpoints as programs do: checkpoints.py KIND NODE, into the working directory. The bytes depend on the two alone."""
import os, pickle, random, sqlite3, struct, sys, time, zipfile

NODE = int(sys.argv[2])
STEPS = 3


def noise(step, length):
    return random.Random(f"{NODE} {step}").randbytes(length)


def replace(name, write):
    """By way of another name, as most programs do."""
    write(name + ".tmp")
    os.replace(name + ".tmp", name)


def torch():
    """As torch.save: a zip archive, stored, with a pickle and a record for each tensor, aligned; its directory comes last, and each
    header is written again when the record's length and checksum are known."""
    def write(name):
        with zipfile.ZipFile(name, "w", zipfile.ZIP_STORED) as archive:
            def record(path, parts):
                with archive.open(zipfile.ZipInfo(f"archive/{path}"), "w", force_zip64=True) as file:
                    for part in parts:
                        file.write(part)
            record("data.pkl", [pickle.dumps({"step": step, "names": [f"layer.{i}" for i in range(8)]})])
            for tensor in range(8):
                record(f"data/{tensor}", [noise(step * 8 + tensor, 300_001) for _ in range(2)])
            record("version", [b"3\n"])
    for step in range(STEPS):
        replace(f"model-{NODE}.pt", write)
        replace(f"step-{step}-{NODE}.pt", write)
    with open(f"pickled-{NODE}", "wb") as file:
        pickler = pickle.Pickler(file)
        for step in range(200):
            pickler.dump({"step": step, "noise": noise(step, 999)})


def numpy():
    import numpy
    def save(name):
        with open(name, "wb") as file:
            numpy.save(file, numpy.frombuffer(noise(step, 2_000_000), dtype="<i4"))
    for step in range(STEPS):
        replace(f"array-{NODE}.npy", save)
    numpy.savez(f"arrays-{NODE}.npz", first=numpy.arange(100_000), second=numpy.ones((300, 300)))
    numpy.arange(50_000, dtype="<i8").tofile(f"raw-{NODE}")
    made = numpy.lib.format.open_memmap(f"mapped-{NODE}.npy", mode="w+", dtype="<f8", shape=(600, 500))
    made[:] = NODE
    made[::7] = numpy.arange(500)
    made.flush()
    del made
    changed = numpy.lib.format.open_memmap(f"mapped-{NODE}.npy", mode="r+")
    changed[3, 4:400] = -1
    assert changed[7, 9] == 9 and changed[8, 9] == NODE
    changed.flush()


def hdf5():
    import h5py, numpy
    def write(name):
        with h5py.File(name, "w") as file:
            file.create_dataset("plain", data=numpy.frombuffer(noise(0, 800_000), dtype="<i4"), track_times=False)
            packed = numpy.arange(400_000, dtype="<i8").reshape(400, 1000)
            file.create_dataset("packed", data=packed, chunks=(50, 100), compression="gzip", track_times=False)
            file.create_group("model").attrs["node"] = NODE
    for _ in range(STEPS):
        replace(f"state-{NODE}.h5", write)
    # One that grows while it is open, and is opened again.
    for step in range(STEPS):
        with h5py.File(f"series-{NODE}.h5", "a") as file:
            if "series" not in file:
                file.create_dataset("series", shape=(0, 10_000), maxshape=(None, 10_000), dtype="<f8", chunks=(1, 10_000), track_times=False)
            series = file["series"]
            series.resize(step + 1, axis=0)
            series[step] = numpy.arange(10_000) + step + NODE
            file.flush()


def sqlite(name, mode):
    """Adds rows, changes them and takes back every third transaction. All who do so at once wait for each other."""
    base = sqlite3.connect(name, timeout=240, isolation_level=None)
    # SQLite does not wait for the lock that a change of this mode takes.
    while True:
        try:
            assert base.execute(f"PRAGMA journal_mode={mode}").fetchone()[0] == mode
            break
        except sqlite3.OperationalError as error:
            assert "locked" in str(error), error
            time.sleep(0.01)
    base.execute("CREATE TABLE IF NOT EXISTS rows (node INTEGER, step INTEGER, noise BLOB, seen INTEGER DEFAULT 0)")
    for step in range(30):
        base.execute("BEGIN IMMEDIATE")
        base.execute("INSERT INTO rows (node, step, noise) VALUES (?, ?, ?)", (NODE, step, noise(step, 3_000)))
        base.execute("UPDATE rows SET seen = seen + 1 WHERE step < ?", (step,))
        base.execute("ROLLBACK" if step % 3 == 2 else "COMMIT")
    base.close()


def sqlite_check(name):
    """NODE is how many have written."""
    base = sqlite3.connect(name)
    assert base.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    rows = base.execute("SELECT node, step, noise FROM rows ORDER BY node, step").fetchall()
    assert [row[:2] for row in rows] == [(node, step) for node in range(NODE) for step in range(30) if step % 3 != 2], rows
    for node, step, found in rows:
        assert found == random.Random(f"{node} {step}").randbytes(3_000), (node, step)


KINDS = {
    "torch": torch,
    "numpy": numpy,
    "hdf5": hdf5,
    "sqlite-rollback": lambda: sqlite("rollback.db", "delete"),
    "sqlite-wal": lambda: sqlite("wal.db", "wal"),
    "sqlite-check": lambda: sqlite_check(sys.argv[3]),
}
KINDS[sys.argv[1]]()
