"""arrays.py DIRECTORY: files of data sets in it, and their statistics by numpy as JSON: FILE, COLUMNS, {COLUMN: [count, mean, min, max]}."""
import ctypes
import json
import os
import sys

import h5py
import netCDF4
import numcodecs
import numpy as np

os.chdir(sys.argv[1])
seeded = np.random.default_rng(7)
cases = []


def case(file, columns, sets):
    def known(values):
        values = np.ma.masked_invalid(np.ma.asarray(values, dtype=float)).compressed()
        return [len(values), values.mean(), values.min(), values.max()]

    cases.append([file, columns, {name: known(values) for name, values in sets.items()}])


def hdf5(name, **options):
    cube, counts = seeded.normal(size=(30, 40, 50)), seeded.integers(-9, 99, size=(30, 40, 50)).astype(">i2")
    with h5py.File(name, "w", **options) as file:
        file.create_dataset("g/cube", data=cube, chunks=(7, 40, 13), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("g/counts", data=counts, chunks=(11, 9, 50), compression="lzf")
        file["line"], file["name"], file["none"] = np.arange(100.0), "text", np.zeros((0, 3))
    case(name, None, {"g/cube": cube, "g/counts": counts})
    case(name, "/line", {"line": np.arange(100.0)})


hdf5("old.h5")
hdf5("new.h5", libver="latest")
table = seeded.normal(size=(5000, 6)).astype("f4")
with h5py.File("table.h5", "w") as file:
    file["X"], file["y"] = table, np.arange(5000)
case("table.h5", None, {f"X[{column}]": table[:, column] for column in range(6)})
case("table.h5", "X[3]", {"X[3]": table[:, 3]})
case("table.h5", "y", {"y": np.arange(5000)})
class Blocks:
    """LZ4 as HDF5's filter has it, in blocks of 500 bytes."""

    def encode(self, chunk):
        chunk = bytes(chunk)
        blocks = [chunk[at : at + 500] for at in range(0, len(chunk), 500)]
        packed = [min(numcodecs.LZ4().encode(block)[4:], block, key=len) for block in blocks]
        sized = [len(block).to_bytes(4, "big") + block for block in packed]
        return len(chunk).to_bytes(8, "big") + (500).to_bytes(4, "big") + b"".join(sized)


# The filters of plugins, which this machine does not have: chunks are written as they would write them.
half = np.where(np.arange(5000)[:, None] % 1000 < 500, table, 0)
with h5py.File("plugins.h5", "w") as file:
    for name, filter, values, codec in [
        ("blosc", 32001, (2, 2, 4, 4 * 700 * 6, 5, 1, 1), numcodecs.Blosc("lz4", 5, 1)),
        ("zstd", 32015, (3,), numcodecs.Zstd(3)),
        ("lz4", 32004, (500,), Blocks()),
    ]:
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_chunk((700, 6))
        options.set_filter(filter, h5py.h5z.FLAG_OPTIONAL, values)
        space = h5py.h5s.create_simple(half.shape)
        written = h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F32LE, space, options)
        for first in range(0, 5000, 700):
            chunk = np.zeros((700, 6), "f4")
            chunk[: 5000 - first] = half[first : first + 700]
            written.write_direct_chunk((first, 0), bytes(codec.encode(chunk)))
case("plugins.h5", None, {"blosc": half, "zstd": half, "lz4": half})
# The numbers of chunks are those of the largest shape: an index of fixed length, and none where all chunks were there from the beginning.
for name, options in [("may-grow", {"compression": "gzip"}), ("may-grow-plain", {})]:
    with h5py.File(f"{name}.h5", "w", libver="latest") as file:
        sets = {}
        for axes, shape, most in [("second", (23, 17), (23, 40)), ("both", (23, 17), (31, 18)), ("full", (4, 4), (4, 8))]:
            sets[axes] = seeded.normal(size=shape)
            file.create_dataset(axes, data=sets[axes], chunks=(2, 3), maxshape=most, **options)
        if not options:
            early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            early.set_chunk((2, 3))
            early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            space = h5py.h5s.create_simple((23, 17), (31, 40))
            written = h5py.h5d.create(file.id, b"early", h5py.h5t.NATIVE_DOUBLE, space, early)
            sets["early"] = seeded.normal(size=(23, 17))
            written.write(h5py.h5s.ALL, h5py.h5s.ALL, sets["early"])
    for axes, values in sets.items():
        case(f"{name}.h5", axes, {f"{axes}[{column}]": values[:, column] for column in range(values.shape[1])})
# What scale-offset makes of a chunk may be longer than it.
with h5py.File("lzf-scaled.h5", "w") as file:
    wide = seeded.integers(-(2**31), 2**31, size=(100, 3)).astype("i4")
    file.create_dataset("x", data=wide, chunks=(7, 3), scaleoffset=0, compression="lzf")
    case("lzf-scaled.h5", None, {f"x[{column}]": wide[:, column] for column in range(3)})
# A program's own block comes first.
for name, block in [("block.h5", 512), ("long-block.h5", 65536)]:
    with h5py.File(name, "w", userblock_size=block) as file:
        file.create_dataset("packed", data=half, chunks=(700, 6), compression="gzip")
        file["plain"] = half
    with open(name, "r+b") as file:
        file.write(b"a,b\n1,2\n")
    case(name, None, {"packed": half, "plain": half})
# Integers in some bits of an element, which have h5py's values; other layouts of fractions, and data sets without elements, have none.
with h5py.File("bits.h5", "w") as file:
    low, wide = np.array([-5, -1, 0, 1, 7, 2000, -2000], "i4"), np.array([-(2**58), 2**50 + 1, -1, 0, 1, 3, 5])
    for name, base, bits, first, values, nbit in [
        ("signed", h5py.h5t.STD_I16LE, 12, 0, low, False),
        ("shifted", h5py.h5t.STD_I16LE, 12, 4, low, False),
        ("big-endian", h5py.h5t.STD_I16BE, 12, 4, low, False),
        ("unsigned", h5py.h5t.STD_U16LE, 12, 2, abs(low), False),
        ("packed", h5py.h5t.STD_I32LE, 17, 3, low, True),
        ("wide", h5py.h5t.STD_I64LE, 60, 2, wide, False),
    ]:
        kind = base.copy()
        kind.set_precision(bits)
        kind.set_offset(first)
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if nbit:
            options.set_chunk((3,))
            options.set_filter(h5py.h5z.FILTER_NBIT)
        written = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((7,)), options)
        written.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    sets = {name: file[name][:] for name in file}
    assert sets["shifted"].tolist() == low.tolist()
    file["half"] = sets["half"] = np.arange(7).astype("f2") / 3
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_ebias(100)
    written = h5py.h5d.create(file.id, b"biased", kind, h5py.h5s.create_simple((7,)))
    written.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(7.0))
    file["null"] = h5py.Empty("f8")
    file.create_dataset("matlab", data=np.array([0, 3, 0, 0, 0, 0, 0], "u8")).attrs["MATLAB_empty"] = np.uint8(1)
case("bits.h5", None, sets)
with h5py.File("null.h5", "w") as file:
    file["null"] = h5py.Empty("f8")
# Chunks that the border cuts may be stored without filters: the library has the option, and h5py has not.
with open("/proc/self/maps") as maps:
    library = next(line.split()[-1] for line in maps if "libhdf5" in line and "_hl" not in line)
set_options = ctypes.CDLL(library).H5Pset_chunk_opts
set_options.argtypes = [ctypes.c_int64, ctypes.c_uint]
for name, bounds in [("edges.h5", "latest"), ("old-edges.h5", "earliest")]:
    with h5py.File(name, "w", libver=bounds) as file:
        file.attrs["numbered"] = "x" * 500
        sets = {}
        for axes, shape, chunk, most in [
            ("fixed", (23, 17), (4, 5), None),
            ("single", (23, 17), (23, 17), None),
            ("one", (23, 17), (4, 5), (h5py.h5s.UNLIMITED, 17)),
            ("both", (23, 17), (4, 5), (h5py.h5s.UNLIMITED, h5py.h5s.UNLIMITED)),
        ]:
            options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            options.set_chunk(chunk)
            options.set_shuffle()
            options.set_deflate(4)
            assert set_options(options.id, 2) >= 0
            space = h5py.h5s.create_simple(shape, most)
            written = h5py.h5d.create(file.id, axes.encode(), h5py.h5t.NATIVE_DOUBLE, space, options)
            sets[axes] = seeded.normal(size=shape)
            written.write(h5py.h5s.ALL, h5py.h5s.ALL, sets[axes])
            for number in range(12):
                file[axes].attrs[f"{number}"] = "y" * 100
    for axes, values in sets.items():
        case(name, axes, {f"{axes}[{column}]": values[:, column] for column in range(17)})
# A data set that became shorter and longer again, with chunks that were never written.
with h5py.File("resized.h5", "w") as file:
    resized = file.create_dataset("x", data=np.arange(100.0), chunks=(7,), maxshape=(None,), fillvalue=2.5)
    resized.resize((40,))
    resized.resize((90,))
    case("resized.h5", None, {"x": resized[:]})
with h5py.File("many.h5", "w") as file:
    file.create_dataset("x", data=np.arange(4000.0), chunks=(1,), maxshape=(None,))
case("many.h5", None, {"x": np.arange(4000.0)})
# Variables that are shorter than the axis that they share.
with netCDF4.Dataset("shorter.nc", "w") as file:
    file.createDimension("time", None)
    file.createDimension("x", 3)
    short, long = file.createVariable("short", "f4", ("time", "x")), file.createVariable("long", "f8", ("time", "x"))
    short[:] = seeded.normal(size=(7, 3))
    long[:] = seeded.normal(size=(10, 3))
    file.sync()
    assert short[:].shape == (10, 3)
    case("shorter.nc", None, {"short": short[:], "long": long[:]})
for kind in ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]:
    file = netCDF4.Dataset(f"{kind}.nc", "w", format=kind)
    for name, length in [("time", None), ("lat", 6), ("lon", 8)]:
        file.createDimension(name, length)
    lat = file.createVariable("lat", "f4", ("lat",))
    packed = file.createVariable("t2m", "i2", ("time", "lat", "lon"), fill_value=-32768)
    packed.scale_factor, packed.add_offset = 0.01, 273.15
    plain = file.createVariable("rain", "f4", ("time", "lat", "lon"))
    plain.missing_value = np.float32(-999)
    lat[:] = np.linspace(-85, 85, 6)
    values = 273.15 + 20 * seeded.normal(size=(90, 6, 8))
    packed[:] = np.ma.masked_array(values, mask=seeded.random(values.shape) < 0.1)
    rain = seeded.random(values.shape).astype("f4")
    rain[seeded.random(values.shape) < 0.05] = -999
    plain[:] = rain
    signed = file.createVariable("counts", "i1", ("time", "lat", "lon"))
    signed.setncattr("_Unsigned", "true")
    signed[:] = seeded.integers(0, 255, size=values.shape).astype("u1").view("i1")
    several = file.createVariable("several", "f4", ("time", "lat", "lon"))
    several.missing_value = np.array([0.1, 1e20])
    several[:45] = seeded.choice(np.array([0.1, 1e20, 2, 3], dtype="f4"), size=(45, 6, 8))
    several[89] = 2
    known = several[:]
    # netCDF4 takes no list of values for one: what follows is what the list says.
    known = np.ma.masked_where(np.isin(np.ma.filled(known, 0.1), np.array([0.1, 1e20], dtype="f4")), known)
    case(f"{kind}.nc", None, {"t2m": packed[:], "rain": plain[:], "counts": signed[:], "several": known})
    case(f"{kind}.nc", "lat", {"lat": lat[:]})
    # Others read the values that are beyond it.
    plain.valid_range = np.array([0, 0.5], "f4")
    file.close()
for name, array in [
    ("c", seeded.normal(size=(3000, 5))),
    ("f", np.asfortranarray(seeded.normal(size=(3000, 5)))),
    ("line", seeded.integers(0, 255, size=700_000).astype("u1")),
    ("half", seeded.normal(size=(5, 6, 7)).astype("f2")),
    ("big-endian", seeded.normal(size=1000).astype(">f4")),
    ("wide", seeded.integers(-9, 9, (10, 700))),
]:
    np.save(name, array)
    is_table = array.ndim == 2 and array.shape[1] <= 512
    sets = {f"array[{column}]": array[:, column] for column in range(array.shape[1])} if is_table else {"array": array}
    case(f"{name}.npy", None, sets)
np.save("text.npy", np.array(["a", "b"]))
print(json.dumps(cases))
