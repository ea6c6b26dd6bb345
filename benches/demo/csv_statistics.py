#!/usr/bin/env python3
"""The statistics of `forebay query stats`, by Python's csv module and a plain loop: csv_statistics.py FILE

Prints one JSON line: for each column its count, mean, min, max and deviation, and the seconds and processor seconds from
the opening of the file to the last row.
"""
import csv
import json
import math
import sys
import time


def main():
    wall, cpu = time.perf_counter(), time.process_time()
    with open(sys.argv[1], newline="") as file:
        rows = csv.reader(file)
        names = next(rows)
        columns = list(statistics(rows, len(names)))
    times = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps({"columns": [{"name": name, **column} for name, column in zip(names, columns)], **times}))


def statistics(rows, width):
    count = 0
    sums, squares = [0.0] * width, [0.0] * width
    least, most = [math.inf] * width, [-math.inf] * width
    for row in rows:
        count += 1
        for index, field in enumerate(row):
            value = float(field)
            sums[index] += value
            squares[index] += value * value
            if value < least[index]:
                least[index] = value
            if value > most[index]:
                most[index] = value
    for index in range(width):
        mean = sums[index] / count
        deviation = math.sqrt(max(squares[index] / count - mean * mean, 0.0))
        yield {"count": count, "mean": mean, "min": least[index], "max": most[index], "deviation": deviation}


if __name__ == "__main__":
    main()
