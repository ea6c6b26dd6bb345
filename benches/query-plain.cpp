// query-plain.cpp: all operations of `forebay query` as one writes them first in C++, for query-compare.py. With -fopenmp its loops
// share the processors. Usage: query-plain FILE; prints JSON as the other contenders do.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using Column = std::vector<double>;

static std::string contents(const char *path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
}

// The columns of some lines.
static std::vector<Column> parse(const char *at, const char *end) {
    std::vector<Column> columns;
    std::size_t column = 0;
    while (at < end) {
        char *rest;
        double value = std::strtod(at, &rest);
        if (column == columns.size()) columns.emplace_back();
        columns[column++].push_back(value);
        if (*rest == '\n') column = 0;
        at = rest + 1;
    }
    return columns;
}

static std::vector<Column> parse_all(const std::string &text) {
    constexpr std::size_t PIECES = 64;
    std::vector<std::size_t> cuts{0};
    for (std::size_t piece = 1; piece < PIECES; piece++) {
        std::size_t newline = text.find('\n', text.size() / PIECES * piece);
        if (newline != std::string::npos && newline + 1 > cuts.back()) cuts.push_back(newline + 1);
    }
    cuts.push_back(text.size());
    std::vector<std::vector<Column>> parsed(cuts.size() - 1);
#pragma omp parallel for schedule(dynamic)
    for (std::size_t piece = 0; piece < parsed.size(); piece++)
        parsed[piece] = parse(text.data() + cuts[piece], text.data() + cuts[piece + 1]);
    std::vector<Column> columns(parsed[0].size());
    for (auto &piece : parsed)
        for (std::size_t column = 0; column < piece.size(); column++)
            columns[column].insert(columns[column].end(), piece[column].begin(), piece[column].end());
    return columns;
}

static std::array<long, 256> count_bytes(const std::string &text) {
    std::array<long, 256> counts{};
    long *all = counts.data();
#pragma omp parallel for reduction(+ : all[:256])
    for (std::size_t at = 0; at < text.size(); at++) all[static_cast<unsigned char>(text[at])]++;
    return counts;
}

static double dot(const Column &left, const Column &right) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (std::size_t row = 0; row < left.size(); row++) sum += left[row] * right[row];
    return sum;
}

static double total(const Column &column) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (std::size_t row = 0; row < column.size(); row++) sum += column[row];
    return sum;
}

static double deviation(const Column &column, double mean) {
    double squares = 0;
#pragma omp parallel for reduction(+ : squares)
    for (std::size_t row = 0; row < column.size(); row++) squares += (column[row] - mean) * (column[row] - mean);
    return std::sqrt(squares / column.size());
}

static void show(const char *key, const std::vector<double> &values) {
    std::printf(", \"%s\": [", key);
    for (std::size_t at = 0; at < values.size(); at++) std::printf("%s%.17g", at ? ", " : "", values[at]);
    std::printf("]");
}

int main(int, char **arguments) {
    std::string text = contents(arguments[1]);
    auto counts = count_bytes(text);
    double entropy = 0;
    for (long count : counts)
        if (count) entropy -= count / double(text.size()) * std::log2(count / double(text.size()));
    auto columns = parse_all(text);
    double rows = columns[0].size();
    std::vector<double> sums, means, deviations, digits;
    for (auto &column : columns) {
        sums.push_back(total(column));
        means.push_back(sums.back() / rows);
        deviations.push_back(deviation(column, means.back()));
    }
    Column normalised(columns[0].size());
#pragma omp parallel for
    for (std::size_t row = 0; row < normalised.size(); row++) normalised[row] = (columns[0][row] - means[0]) / deviations[0];
    double mean = total(normalised) / rows;
    for (int digit = '0'; digit <= '9'; digit++) digits.push_back(counts[digit]);
    std::printf("{\"rows\": %zu, \"lines\": %ld, \"entropy\": %.17g", columns[0].size(), counts['\n'], entropy);
    show("sums", sums);
    show("means", means);
    show("deviations", deviations);
    show("digits", digits);
    show("normalised", {mean, deviation(normalised, mean)});
    std::printf(", \"gramian\": [");
    for (std::size_t left = 0; left < columns.size(); left++) {
        for (std::size_t right = 0; right < columns.size(); right++)
            std::printf("%s%.17g", right ? ", " : left ? ", [" : "[", dot(columns[left], columns[right]));
        std::printf("]");
    }
    std::printf("]}\n");
}
