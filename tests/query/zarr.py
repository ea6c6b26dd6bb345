"""zarr.py DIRECTORY: Zarr stores in it, and their statistics by numpy as JSON: STORE, COLUMNS, {COLUMN: [count, mean, min, max]}."""
import itertools
import json
import os
import sys

import numcodecs
import numpy as np

os.chdir(sys.argv[1])
seeded = np.random.default_rng(11)
cases = []


def case(store, columns, sets):
    def known(values):
        values = np.ma.masked_invalid(np.ma.asarray(values, dtype=float)).compressed()
        return [len(values), values.mean(), values.min(), values.max()]

    cases.append([store, columns, {name: known(values) for name, values in sets.items()}])


def write(path, bytes):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(bytes)


def document(path, members):
    write(path, json.dumps(members).encode())


def chunks_of(array, chunks, fill):
    """Each chunk with its place, as large as the others at the edges, too."""
    for place in itertools.product(*(range(-(-n // c)) for n, c in zip(array.shape, chunks))):
        part = array[tuple(slice(p * c, (p + 1) * c) for p, c in zip(place, chunks))]
        whole = np.full(chunks, fill or 0, array.dtype)
        whole[tuple(slice(0, n) for n in part.shape)] = part
        yield place, whole


def v2(path, array, chunks, compressor=None, filters=(), order="C", separator=".", fill=0, attributes=None, without=()):
    document(f"{path}/.zarray", {
        "zarr_format": 2, "shape": array.shape, "chunks": chunks, "dtype": array.dtype.str, "fill_value": fill,
        "order": order, "dimension_separator": separator, "compressor": compressor and compressor.get_config(),
        "filters": [each.get_config() for each in filters] or None})
    if attributes:
        document(f"{path}/.zattrs", attributes)
    for place, chunk in chunks_of(array, chunks, fill):
        if place not in without:
            packed = chunk.ravel(order)
            for step in [*filters, *([compressor] if compressor else [])]:
                packed = step.encode(packed)
            write(f"{path}/{separator.join(map(str, place)) or '0'}", bytes(packed))


def crc32c(bytes):
    checksum = 0xffffffff
    for byte in bytes:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ 0x82f63b78 * (checksum & 1)
    return bytes + (checksum ^ 0xffffffff).to_bytes(4, "little")


BY_NAME = {"gzip": numcodecs.GZip(1), "zstd": numcodecs.Zstd(1), "blosc": numcodecs.Blosc("zstd", 3, 2)}


def packed(chunk, codecs):
    """What codecs of version 3 make of a chunk."""
    for codec in codecs:
        name, configuration = codec["name"], codec.get("configuration")
        if name == "transpose":
            chunk = chunk.transpose(configuration["order"])
        elif name == "bytes":
            chunk = chunk.astype(chunk.dtype.newbyteorder("<>"[configuration["endian"] == "big"])).tobytes()
        elif name == "sharding_indexed":
            chunk = shard(chunk, configuration)
        else:
            chunk = crc32c(chunk) if name == "crc32c" else bytes(BY_NAME[name].encode(chunk))
    return chunk


def shard(file, configuration):
    """Some chunks in one file. Those with nothing but zeros are left out."""
    chunks = list(chunks_of(file, configuration["chunk_shape"], 0))
    at_start, index, behind = configuration["index_location"] == "start", [], b""
    begins = 16 * len(chunks) + 4 if at_start else 0
    for _, chunk in chunks:
        part = packed(chunk, configuration["codecs"]) if chunk.any() else b""
        index += [begins + len(behind), len(part)] if part else [2**64 - 1] * 2
        behind += part
    index = packed(np.array(index, "u8"), configuration["index_codecs"])
    return index + behind if at_start else behind + index


def v3(path, array, chunks, codecs, keys=("default", "/"), fill=0, attributes=None, names=None):
    encoding, separator = keys
    document(f"{path}/zarr.json", {
        "zarr_format": 3, "node_type": "array", "shape": array.shape, "data_type": array.dtype.name, "codecs": codecs,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}}, "fill_value": fill,
        "chunk_key_encoding": {"name": encoding, "configuration": {"separator": separator}},
        "attributes": attributes or {}, "dimension_names": names, "storage_transformers": []})
    for place, chunk in chunks_of(array, chunks, 0):
        key = [*(["c"] if encoding == "default" else []), *map(str, place)]
        write(f"{path}/{separator.join(key) or '0'}", packed(chunk, codecs))


def codec(name, **configuration):
    return {"name": name, "configuration": configuration}


little, big = codec("bytes", endian="little"), codec("bytes", endian="big")
cube, counts = seeded.normal(size=(30, 40, 50)), seeded.integers(-9, 99, size=(30, 40, 50)).astype(">i2")
line = np.arange(100.0)
for store in ["v2.zarr", "v2.zarr/g"]:
    document(f"{store}/.zgroup", {"zarr_format": 2})
v2("v2.zarr/g/cube", cube, (7, 40, 13), numcodecs.Blosc("lz4", 5, 1))
v2("v2.zarr/g/counts", counts, (11, 9, 50), numcodecs.Zlib(1), [numcodecs.Shuffle(2)], order="F", separator="/")
v2("v2.zarr/line", line, (30,), None, [numcodecs.Delta("<f8")])
v2("v2.zarr/name", np.array([b"abc"]), (1,), fill="")
v2("v2.zarr/old", line, (100,), numcodecs.BZ2(1))
case("v2.zarr", None, {"g/cube": cube, "g/counts": counts})
case("v2.zarr", "/line", {"line": line})
case("v2.zarr/g/counts", None, {"array": counts})
table = seeded.normal(size=(5000, 6)).astype("f4")
v2("table.zarr", table, (999, 4), numcodecs.Zstd(1))
case("table.zarr", None, {f"array[{column}]": table[:, column] for column in range(6)})
case("table.zarr", "array[3]", {"array[3]": table[:, 3]})
for name, fill, known in [("sparse", -1, -1), ("none", None, 0), ("missing", "NaN", np.nan)]:
    wide = seeded.normal(size=(10, 700)).astype("f2")
    v2(f"{name}.zarr", wide, (3, 300), numcodecs.LZ4(), fill=fill and float(fill), without=[(1, 1), (3, 2)])
    wide[3:6, 300:600], wide[9:, 600:] = known, known
    case(f"{name}.zarr", None, {"array": wide})
stored = seeded.integers(-500, 500, size=(9, 20, 30)).astype("i2")
stored[stored < -400] = -999
attributes = {"_ARRAY_DIMENSIONS": ["time", "lat", "lon"], "scale_factor": 0.5, "add_offset": 100, "missing_value": [3, 4]}
v2("packed.zarr/t", stored, (4, 20, 30), numcodecs.Blosc("blosclz", 9, 0), fill=-999, attributes=attributes)
v2("packed.zarr/lat", line[:20], (20,), attributes={"_ARRAY_DIMENSIONS": ["lat"], "valid_min": float("nan")})
document("packed.zarr/.zgroup", {"zarr_format": 2})
case("packed.zarr", None, {"t": np.ma.masked_where(np.isin(stored, [-999, 3, 4]), stored * 0.5 + 100)})
document("v3.zarr/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": None})
document("v3.zarr/g/zarr.json", {"zarr_format": 3, "node_type": "group"})
summed = [codec("transpose", order=[2, 0, 1]), big, codec("zstd", level=1), codec("crc32c")]
v3("v3.zarr/g/cube", cube, (7, 40, 13), summed)
some = np.where(np.arange(30)[:, None, None] // 6 % 2, counts, 0).astype("i2")
for location in ["start", "end"]:
    sharded = codec("sharding_indexed", chunk_shape=[6, 4, 10], index_location=location, index_codecs=[little, codec("crc32c")],
                    codecs=[codec("transpose", order=[1, 0, 2]), little, codec("blosc", cname="zstd")])
    v3(f"v3.zarr/g/{location}", some, (12, 20, 30), [codec("transpose", order=[2, 0, 1]), sharded])
v3("v3.zarr/g/gzip", counts.astype("u2"), (30, 1, 50), [little, codec("gzip", level=1)], ("v2", "."))
v3("v3.zarr/other", line, (7,), [little])
document("v3.zarr/other/zarr.json", {**json.load(open("v3.zarr/other/zarr.json")), "codecs": [little, codec("zfpy")]})
v3("v3.zarr/when", line, (7,), [little], fill="0x7ff8000000000000", names=["time"], attributes={"_FillValue": "AAAAAAAACEA="})
case("v3.zarr", None, {"g/cube": cube, "g/start": some, "g/end": some, "g/gzip": counts.astype("u2")})
case("v3.zarr", "when", {"when": np.ma.masked_equal(line, 3)})
document("same.zarr/.zgroup", {"zarr_format": 2})
v2("same.zarr/a", cube, (7, 40, 13), numcodecs.Blosc("zlib", 5, 2))
v2("same.zarr/b", cube, (11, 9, 50), numcodecs.GZip(1), order="F", separator="/")
document("same3.zarr/zarr.json", {"zarr_format": 3, "node_type": "group"})
v3("same3.zarr/a", cube, (12, 20, 30), [codec("transpose", order=[2, 0, 1]), {**sharded}])
v3("same3.zarr/b", cube, (5, 50, 7), summed, ("default", "."))
v2("one.zarr", np.array(7.5), ())
v3("one3.zarr", np.array(True), (), [little])
case("one.zarr", None, {"array": [7.5]})
case("one3.zarr", None, {"array": [1]})
v2("huge.zarr", np.zeros(0), (5,))
print(json.dumps(cases))
