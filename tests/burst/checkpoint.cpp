// A simulation's checkpoints: a header that is written again when the rest is known, fields one after the other, and a rename over the last
// one. checkpoint NODE, into the working directory.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

struct Header {
    char magic[8] = {'S', 'T', 'A', 'T', 'E', '0', '0', '1'};
    std::uint64_t step = 0, fields = 0, bytes = 0, sum = 0;
};

static void write(const std::string &name, unsigned node, std::uint64_t step) {
    std::ofstream file(name + ".part", std::ios::binary | std::ios::trunc);
    file.exceptions(std::ios::failbit | std::ios::badbit);
    Header header;
    header.step = step;
    file.write(reinterpret_cast<const char *>(&header), sizeof header);
    std::vector<std::uint32_t> field(65'537);
    std::uint32_t state = node * 977 + static_cast<std::uint32_t>(step) + 1;
    for (int index = 0; index < 12; ++index) {
        for (auto &value : field) {
            state = state * 1'664'525 + 1'013'904'223;
            value = state;
            header.sum += value;
        }
        file.write(reinterpret_cast<const char *>(field.data()), static_cast<std::streamsize>(field.size() * sizeof field[0]));
        header.fields += 1;
        header.bytes = static_cast<std::uint64_t>(file.tellp());
        // Of what has been written so far, the header knows.
        file.seekp(0);
        file.write(reinterpret_cast<const char *>(&header), sizeof header);
        file.seekp(0, std::ios::end);
    }
    file.close();
    if (std::rename((name + ".part").c_str(), name.c_str()) != 0) {
        std::perror(name.c_str());
        std::exit(1);
    }
    std::ifstream again(name, std::ios::binary);
    Header read;
    again.read(reinterpret_cast<char *>(&read), sizeof read);
    if (read.sum != header.sum || read.bytes != header.bytes) {
        std::cerr << name << ": another header is read\n";
        std::exit(1);
    }
}

int main(int, char **arguments) {
    const unsigned node = static_cast<unsigned>(std::atoi(arguments[1]));
    for (std::uint64_t step = 0; step < 3; ++step) {
        write("state-" + std::to_string(node), node, step);
        std::ofstream(std::string("log-") + std::to_string(node), std::ios::app) << "step " << step << std::endl;
    }
}
